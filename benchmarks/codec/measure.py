"""`scripts/bench codec`: decoding and encoding of messages, kwire against other codecs in Python.

All participants run at the same time, each in its process, and take turns case by case and round by round (A B C, A B
C, ...), so that a change of the machine's speed meets all of them alike. What counts is the median over the rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.codec.cases import Case, cases
from benchmarks.peers import TOP, ensure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WORKER = Path(__file__).with_name("worker.py")
DIRECTIONS = ("decode", "encode")
OWN = "kwire"
# A target of the project: what 10,000 partitions of metadata may take on the thread that also sends heartbeats.
METADATA_LIMIT_MS = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """A library; `pure` ones are what kwire, being pure Python itself, has to beat."""

    title: str
    library: str
    pure: bool
    requirements: str | None = None


PARTICIPANTS = (
    Participant(title=OWN, library="kwire", pure=True),
    Participant(title="kio 0.5", library="kio", pure=True, requirements="requirements/bench.txt"),
    Participant(title="kafka-python 3", library="kafka-python", pure=True),
    Participant(title="kio 0.6 (Rust)", library="kio", pure=False, requirements="requirements/bench-native.txt"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Nanoseconds of every round of one participant in one discipline, or why there are none."""

    case: str
    direction: str
    participant: str
    pure: bool
    rounds_ns: tuple[float, ...]
    error: str = ""

    @property
    def median_ns(self) -> float:
        return median(self.rounds_ns)

    @property
    def spread(self) -> float:
        """From the fastest to the slowest round, as a share of the median."""
        return (max(self.rounds_ns) - min(self.rounds_ns)) / self.median_ns

    def to_json(self) -> dict[str, object]:
        found: dict[str, object] = {
            "case": self.case,
            "direction": self.direction,
            "participant": self.participant,
            "pure_python": self.pure,
        }
        if self.error:
            return {**found, "error": self.error}
        return {**found, "median_ns": self.median_ns, "spread": self.spread, "rounds_ns": list(self.rounds_ns)}


class Worker:
    """A participant's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def measure(self, case: Case, direction: str, seconds: float) -> float | str:
        """Nanoseconds, or what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{case.name} {case.version} {direction} {seconds}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "its process ended; see above"}
        return float(answer["ns"]) if "ns" in answer else str(answer["error"])


@contextmanager
def started(participant: Participant, directory: Path) -> Iterator[Worker]:
    paths = [str(TOP)]
    if participant.requirements is not None:
        paths.insert(0, str(ensure(participant.requirements)))
    command = [sys.executable, str(WORKER), participant.library, str(directory)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Worker(process)
        finally:
            process.kill()


def run(*, rounds: int, seconds: float, chosen: Sequence[Case] | None = None) -> list[Result]:
    """Measure everything.

    Args:
        rounds: How often each participant has its turn.
        seconds: How long one turn takes.
        chosen: Which cases; all by default.

    Raises:
        PeerError: One of them cannot be installed.
    """
    results: list[Result] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers = [(participant, stack.enter_context(started(participant, directory))) for participant in PARTICIPANTS]
        for case in chosen or cases():
            (directory / case.name).write_bytes(case.data)
            for direction in DIRECTIONS:
                results += discipline(case, direction, workers, rounds=rounds, seconds=seconds)
    return results


def discipline(
    case: Case, direction: str, workers: Sequence[tuple[Participant, Worker]], *, rounds: int, seconds: float
) -> list[Result]:
    """All rounds of one message in one direction; the first, which warms up, does not count."""
    found: dict[str, list[float]] = {participant.title: [] for participant, _ in workers}
    errors: dict[str, str] = {}
    for turn in range(rounds + 1):
        for participant, worker in workers:
            if participant.title in errors:
                continue
            measured = worker.measure(case, direction, seconds)
            if isinstance(measured, str):
                errors[participant.title] = measured
            elif turn > 0:
                found[participant.title].append(measured)
    return [
        Result(
            case=case.title,
            direction=direction,
            participant=participant.title,
            pure=participant.pure,
            rounds_ns=() if participant.title in errors else tuple(found[participant.title]),
            error=errors.get(participant.title, ""),
        )
        for participant, _ in workers
    ]


def table(results: Sequence[Result]) -> list[str]:
    """The median of each with its spread, and how many times kwire's it is."""
    lines = [f"{'message':30}{'':9}{'participant':18}{'median':>12}{'spread':>9}{'x kwire':>9}"]
    for result in results:
        own = next(other for other in results if is_own(other, result))
        head = (result.case, result.direction) if result.participant == OWN else ("", "")
        line = f"{head[0]:30}{head[1]:9}{result.participant:18}"
        if result.error or own.error:
            lines.append(f"{line}  {result.error or own.error:.60}")
            continue
        ratio = result.median_ns / own.median_ns
        lines.append(f"{line}{duration(result.median_ns):>12}{result.spread:>9.0%}{ratio:>9.2f}")
    return lines


def is_own(other: Result, result: Result) -> bool:
    return (other.case, other.direction, other.participant) == (result.case, result.direction, OWN)


def duration(nanoseconds: float) -> str:
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.2f} us"
    return f"{nanoseconds / 1e6:.2f} ms"


def misses(results: Sequence[Result]) -> list[str]:
    """Each target that was missed: the fastest pure-Python codec everywhere, and metadata in time."""
    found: list[str] = []
    for result in results:
        own = next(other for other in results if is_own(other, result))
        where = f"{result.case}, {result.direction}"
        if own.error:
            found.append(f"{where}: {own.error}")
        elif result.pure and not result.error and result.median_ns < own.median_ns:
            found.append(f"{where}: {result.participant} is faster")
    for result in results:
        is_metadata = result.participant == OWN and result.case.startswith("Metadata") and result.direction == "decode"
        if is_metadata and not result.error and result.median_ns > METADATA_LIMIT_MS * 1e6:
            found.append(f"{result.case}, decode: {duration(result.median_ns)} instead of {METADATA_LIMIT_MS} ms")
    return found
