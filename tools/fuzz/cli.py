"""`scripts/fuzz`: decodes damaged frames, messages and record batches, and checks how that ends.

    scripts/fuzz 1000000 --seed 7
    scripts/fuzz 1000000 --target sasl

Every call has to end with a result, ProtocolError or CorruptRecordError (calls of SASL: SaslAuthenticationError, and no
server is believed that has proven nothing: `tools/fuzz/sasl.py`); within a second; and without ever holding more memory
than four times its input plus 1 MiB, which is the limit for what a batch may inflate to and a frame may claim, plus the
buffers that every connection has. tracemalloc counts what Python and numpy allocate; the whole process is limited too,
for codecs that allocate by themselves. The run is determined by its seed.

Prints counts and the slowest call. Exit codes: 0 nothing found; 1 findings, with what reproduces them; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.errors import CorruptRecordError, ProtocolError, SaslAuthenticationError
from tools.fuzz import peer
from tools.fuzz.mutations import mutate
from tools.fuzz.targets import LIMIT_BYTES, Seed, seeds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALLOWED_SECONDS = 1.0
ALLOWED_FACTOR = 4
# What a connection has before anything comes, its receive buffer (64 KiB) for the most part.
FIXED_BYTES = 128 << 10
PROCESS_BYTES = 2 << 30
# How often each target has its turn: messages are many kinds, records are much code.
TURNS = ("message", "message", "frame", "records", "records", "member data", "sasl")
SHOWN_FINDINGS = 20
GOOD_ENDS = ("read", ProtocolError.__name__, CorruptRecordError.__name__, SaslAuthenticationError.__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call and how it went."""

    target: str
    seed: str
    mutation: str
    data: bytes
    outcome: str
    seconds: float = 0.0
    peak_bytes: int = 0

    def __str__(self) -> str:
        shown = self.data.hex() if len(self.data) <= 400 else f"{self.data[:400].hex()}... ({len(self.data)} bytes)"
        cost = f"{self.seconds * 1e3:.1f} ms, {self.peak_bytes} bytes at most"
        return f"{self.target} {self.seed}, {self.mutation}: {self.outcome}, {cost}: {shown}"


@dataclass(slots=True)
class Report:
    """What became of all calls."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    findings: list[Call] = field(default_factory=list)
    slowest: Call | None = None
    hungriest: Call | None = None

    def add(self, call: Call) -> None:
        self.outcomes[call.target, call.outcome] += 1
        self.mutations[call.mutation] += 1
        if self.slowest is None or call.seconds > self.slowest.seconds:
            self.slowest = call
        if self.hungriest is None or call.peak_bytes > self.hungriest.peak_bytes:
            self.hungriest = call
        if is_finding(call):
            self.findings.append(call)

    def lines(self) -> list[str]:
        found = [f"{target:12}{outcome:22}{count:>10}" for (target, outcome), count in sorted(self.outcomes.items())]
        found.append("mutations: " + ", ".join(f"{name} {count}" for name, count in sorted(self.mutations.items())))
        found.append(f"slowest:   {self.slowest}")
        found.append(f"hungriest: {self.hungriest}")
        return found


def is_finding(call: Call) -> bool:
    """Whether a call ended as it must not."""
    return (
        call.outcome not in GOOD_ENDS
        or call.seconds > ALLOWED_SECONDS
        or call.peak_bytes > ALLOWED_FACTOR * len(call.data) + LIMIT_BYTES + FIXED_BYTES
    )


def fuzz(count: int, seed: int, targets: Mapping[str, Sequence[Seed]] | None = None) -> Report:
    """Make `count` calls; the same ones for the same seed.

    Args:
        count: How many.
        seed: Decides everything random.
        targets: Good bytes by target; the golden files by default.
    """
    rng = random.Random(seed)
    targets = targets or seeds()
    turns = [name for name in TURNS if name in targets] or list(targets)
    warm_up(targets)
    report = Report()
    tracemalloc.start()
    try:
        for number in range(count):
            target = turns[number % len(turns)]
            good, other = rng.choice(targets[target]), rng.choice(targets[target])
            data, mutation = mutate(good.data, other.data, rng)
            report.add(attempt(target, good, mutation, data))
    finally:
        tracemalloc.stop()
    return report


def warm_up(targets: Mapping[str, Sequence[Seed]]) -> None:
    """The first call for a message compiles its code, which is not what is measured."""
    for each in targets.values():
        for good in each:
            attempt("", good, "", good.data)


def attempt(target: str, good: Seed, mutation: str, data: bytes) -> Call:
    """One call, with the time and the memory it took."""
    outcome = "read"
    tracemalloc.reset_peak()
    before_bytes, _ = tracemalloc.get_traced_memory()
    started = time.perf_counter()
    try:
        good.decode(data)
    except Exception as error:  # noqa: BLE001 - which class it is, is the question
        outcome = type(error).__name__
    seconds = time.perf_counter() - started
    _, peak_bytes = tracemalloc.get_traced_memory()
    return Call(
        target=target,
        seed=good.name,
        mutation=mutation,
        data=data,
        outcome=outcome,
        seconds=seconds,
        peak_bytes=max(0, peak_bytes - before_bytes),
    )


def limit_memory() -> None:
    """Make allocations beyond `PROCESS_BYTES` fail, in any code."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (PROCESS_BYTES, hard))


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["peer"]:
        return peer.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("count", nargs="?", type=int, default=100_000, metavar="COUNT", help="calls (100,000)")
    parser.add_argument("--target", choices=sorted(set(TURNS)), help="damage only these (all, in turns)")
    parser.add_argument("--seed", type=int, default=1, help="decides everything random (1)")
    chosen = parser.parse_args(arguments)
    if chosen.count < 1:
        parser.error("COUNT must be at least 1")
    limit_memory()
    started = time.perf_counter()
    targets = seeds()
    if chosen.target is not None:
        targets = {chosen.target: targets[chosen.target]}
    report = fuzz(chosen.count, chosen.seed, targets)
    print("\n".join(report.lines()))
    for call in report.findings[:SHOWN_FINDINGS]:
        print(f"FOUND {call}")
    seconds = time.perf_counter() - started
    print(f"{chosen.count} calls, {len(report.findings)} findings, {seconds:.0f} s, seed {chosen.seed}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
