"""Histories of simulated worlds, each made in a process of its own, and kept in a directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from kwire.testing.invariants.ledger import Event
from kwire.testing.invariants.lines import events_of
from proofs.independent_checker.export import can_be_told

TOP = Path(__file__).resolve().parents[2]
WORKER = TOP / "proofs" / "independent_checker" / "worker.py"

Kind: TypeAlias = Literal["plain", "processor", "catch-up"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# Of each hundred histories.
SHARES: dict[Kind, int] = {"plain": 52, "processor": 31, "catch-up": 17}
# Of a processor for one world; those that take longer are passed over.
LIMIT_SECONDS = 30.0
WAITING_FACTOR = 20


@dataclass(frozen=True, slots=True)
class History:
    """What happened in a world: its name, its events, and the rules that the world itself found broken."""

    name: str
    events: tuple[Event, ...]
    rules: tuple[str, ...] = ()


def shares(wanted: int) -> dict[Kind, int]:
    """How many histories of each kind make so many."""
    found = {kind: wanted * share // 100 for kind, share in SHARES.items()}
    found["plain"] += wanted - sum(found.values())
    return found


def run_world(kind: Kind, seed: int, directory: Path, package: Path = TOP) -> None:
    """Write the history of a world into the directory, unless it is there.

    Args:
        package: what holds the kwire to run.
    """
    if (directory / f"{kind}-{seed}.rules").exists():
        return
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(WORKER), kind, str(LIMIT_SECONDS), str(directory), str(seed)]
    process = subprocess.Popen(
        command, cwd=package, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(WAITING_FACTOR * LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def history_of(kind: Kind, seed: int, directory: Path) -> History | None:
    """None: the world took too long, or its history cannot be told."""
    rules, lines = directory / f"{kind}-{seed}.rules", directory / f"{kind}-{seed}.jsonl"
    if not lines.exists() or not rules.exists():
        return None
    found = read_history(lines)
    told = tuple(rules.read_text().split())
    return History(found.name, found.events, told) if can_be_told(found.events) else None


def read_history(path: Path) -> History:
    """One that `kwire faults run --history` has written, or a world.

    Raises:
        InvalidArgumentError: It is none.
    """
    with path.open() as lines:
        return History(path.stem, tuple(events_of(lines)))


def histories(kind: Kind, wanted: int, directory: Path, processes: int) -> Iterator[History]:
    """Of the first seeds whose histories can be told."""
    found = 0
    with ThreadPoolExecutor(processes) as pool:
        for first in count(1, processes):
            if found >= wanted:
                return
            seeds = range(first, first + processes)
            for history in pool.map(lambda seed: made(kind, seed, directory), seeds):
                if history is not None and found < wanted:
                    found += 1
                    yield history


def made(kind: Kind, seed: int, directory: Path) -> History | None:
    run_world(kind, seed, directory)
    return history_of(kind, seed, directory)


def good_histories(wanted: int, directory: Path, processes: int) -> Iterator[History]:
    """Of kwire as it is, of all kinds."""
    for kind, share in shares(wanted).items():
        yield from histories(kind, share, directory, processes)


def by_kind(found: Sequence[History]) -> dict[str, int]:
    return {kind: sum(history.name.startswith(f"{kind}-") for history in found) for kind in KINDS}
