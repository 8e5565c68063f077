"""What `cli.py` has seen so far, over all worlds: for people, and as JSON."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MS_PER_HOUR = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a process tells of one run.

    Args:
        digest: empty if nobody asked for it.
        violations: what was broken, as sentences.
        records: how many were written, delivered and so on, where a world counts them.
        logins: how often clients began to log in, where they have to.
    """

    seed: int
    digest: str
    simulated_ms: float
    faults: Counter[str]
    events: int
    violations: tuple[str, ...]
    story: str
    records: Counter[str] = field(default_factory=Counter)
    logins: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Totals:
    """What the worlds of one run of the command came to, summed up.

    Args:
        now: in seconds, on a clock that only goes forward.
    """

    now: Callable[[], float] = time.monotonic
    worlds: int = 0
    failed: list[int] = field(default_factory=list)
    simulated_ms: float = 0.0
    events: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    logins: Counter[str] = field(default_factory=Counter)
    is_interrupted: bool = False
    began: float = field(init=False)
    _digests: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def __post_init__(self) -> None:
        self.began = self.now()

    def add(self, report: Report) -> None:
        self.worlds += 1
        self.simulated_ms += report.simulated_ms
        self.events += report.events
        self.faults += report.faults
        self.records.update(report.records)
        self.logins.update(report.logins)
        if report.violations:
            self.failed.append(report.seed)

    def note_digest(self, report: Report) -> None:
        """Of a seed that is run more than once."""
        self._digests[report.seed][report.digest] += 1

    def different(self) -> dict[int, Counter[str]]:
        """Seeds whose runs were not all the same, and how many there were of each kind."""
        return {seed: digests for seed, digests in sorted(self._digests.items()) if len(digests) > 1}

    @property
    def all_is_well(self) -> bool:
        return not self.failed and not self.different()

    @property
    def hours(self) -> float:
        return self.simulated_ms / MS_PER_HOUR

    @property
    def wall_seconds(self) -> float:
        return max(0.001, self.now() - self.began)

    @property
    def worlds_per_second(self) -> float:
        return self.worlds / self.wall_seconds

    def progress(self) -> str:
        rate = f"{self.worlds_per_second:.2f} worlds/s"
        return f"{self.worlds} worlds, {self.hours:.1f} hours, {rate}, {len(self.failed)} failed"

    def lines(self) -> Iterator[str]:
        """The faults that struck, by kind, and what came of it all."""
        for name, times in sorted(self.faults.items()):
            yield f"{times:7} {name}"
        times_real = self.simulated_ms / 1_000 / self.wall_seconds
        yield f"{self.worlds} worlds, {self.hours:.2f} simulated hours ({times_real:.0f} times real time)"
        rate = f"{self.worlds_per_second:.2f} worlds a second"
        yield f"{self.events} events, {self.faults.total()} faults, {self.wall_seconds:.1f} s, {rate}"
        if self.records:
            yield "records: " + ", ".join(f"{count} {what}" for what, count in self.records.items())
        if self.logins:
            yield "logins: " + ", ".join(f"{count} {what}" for what, count in sorted(self.logins.items()))
        for seed, digests in self.different().items():
            yield f"seed {seed}: not the same run each time: " + ", ".join(
                f"{digest} ({times} times)" for digest, times in digests.most_common()
            )
        if self.is_interrupted:
            yield "interrupted"
        yield f"{len(self.failed)} failed" if self.failed else "nothing found"

    def as_json(self) -> dict[str, object]:
        return {
            "worlds": self.worlds,
            "failed_seeds": sorted(set(self.failed)),
            "different_seeds": list(self.different()),
            "is_interrupted": self.is_interrupted,
            "simulated_hours": round(self.hours, 4),
            "wall_seconds": round(self.wall_seconds, 3),
            "worlds_per_second": round(self.worlds_per_second, 3),
            "events": self.events,
            "faults": dict(sorted(self.faults.items())),
            **({"records": dict(self.records)} if self.records else {}),
            **({"logins": dict(self.logins)} if self.logins else {}),
        }
