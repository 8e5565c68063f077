"""Histories that are bad: good ones that are changed in one place, and those of kwire with a bug in it."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

from kwire.testing.invariants.handling_events import (
    AskedForCommits,
    HandlingBegan,
    HandlingEnded,
    Lined,
    MapArrived,
    ProcessorEnded,
    ProcessorStarted,
    StatusSeen,
    StoredMap,
)
from kwire.testing.invariants.ledger import Event
from proofs.independent_checker.changes import CHANGES, Records
from proofs.independent_checker.worlds import TOP, History, Kind, history_of, run_world
from tools.detect.bug import Bug
from tools.detect.cli import plant

KIND_OF_WORLDS: dict[str, Kind] = {"polling": "plain", "processing": "processor", "crashing": "catch-up"}
OF_PROCESSORS = (
    ProcessorStarted,
    ProcessorEnded,
    AskedForCommits,
    StoredMap,
    MapArrived,
    Lined,
    HandlingBegan,
    HandlingEnded,
    StatusSeen,
)
# A few kinds of changes have no place in many histories.
MAX_TRIES = 500


def changed_histories(good: Sequence[History], wanted: int, seed: int) -> Iterator[History]:
    """So many, of each kind of change in turn."""
    rng = random.Random(f"changes {seed}")
    found = 0
    for tried, name in enumerate(cycle(CHANGES)):
        if found >= wanted or tried >= MAX_TRIES + wanted:
            return
        changed = _changed(good, name, rng, number=found + 1)
        if changed is not None:
            found += 1
            yield changed


def _changed(good: Sequence[History], name: str, rng: random.Random, *, number: int) -> History | None:
    """The number tells two apart that are changed in the same way."""
    for history in rng.sample(good, min(len(good), 10)):
        events = CHANGES[name](Records(polling_of(history)), rng)
        if events is not None:
            return History(f"{name} in {history.name} ({number})", tuple(events))
    return None


def polling_of(history: History) -> list[Event]:
    """Without what a processor did with records: that would tell of each record a second time."""
    return [event for event in history.events if not isinstance(event, OF_PROCESSORS)]


def buggy_histories(bugs: Sequence[Bug], seeds: range, directory: Path) -> Iterator[History]:
    """For each bug the first history in which our judge sees it, if there is one."""
    for bug in bugs:
        kept = directory / bug.name
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="kwire-bug-") as folder:
            package = Path(folder)
            shutil.copytree(TOP / "kwire", package / "kwire")
            plant(bug, package / "kwire")
            history = _first_caught(KIND_OF_WORLDS[bug.worlds], seeds, kept, package)
        if history is not None:
            yield History(f"{bug.name} in {history.name}", history.events, history.rules)


def _first_caught(kind: Kind, seeds: range, kept: Path, package: Path) -> History | None:
    for seed in seeds:
        run_world(kind, seed, kept, package)
        history = history_of(kind, seed, kept)
        if history is not None and history.rules:
            return history
    return None
