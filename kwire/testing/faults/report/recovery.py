"""Recovery times: how long after a fault every partition progressed again, and whether that is within the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from kwire.model import TopicPartition
from kwire.testing.faults.report.progress import Track
from kwire.testing.faults.report.run import ExpectedRecovery
from kwire.testing.faults.report.spans import FaultSpan

# A poll that was under way, or records that were on their way already, may hide for so long that a partition stands
# still since the strike.
HIDDEN_MS = 1_000.0


class Judgement(Enum):
    """The judgement of a recovery time."""

    IN_TIME = "in time"
    LATE = "late"
    NEVER = "never"
    UNBOUNDED = "no bound"
    CROWDED = "not judged: other faults were at work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One fault, and what came after it.

    Args:
        from_ms: what it counts from: the heal, or the strike if the fault is but a moment, or if that is expected.
        took_ms: until each partition that stood still has brought something new; None if one never did.
        slowest: the partition that took longest; None if none had anything to read.
    unwritten_ms: the longest time meanwhile in which nobody could write to it either: then it was the brokers who took
        so long, and it is for the reader to see. None if it never recovered, or there was nothing to recover from.
        beside: faults that were at work meanwhile. Past its bound such a recovery is not judged.
    """

    fault: FaultSpan
    from_ms: float
    took_ms: float | None
    bound_ms: float | None
    slowest: TopicPartition | None
    unwritten_ms: float | None = None
    beside: tuple[str, ...]

    @property
    def judgement(self) -> Judgement:
        if self.took_ms is None:
            return Judgement.NEVER
        if self.bound_ms is None:
            return Judgement.UNBOUNDED
        if self.took_ms <= self.bound_ms:
            return Judgement.IN_TIME
        return Judgement.CROWDED if self.beside else Judgement.LATE


def recoveries(
    faults: Sequence[FaultSpan], tracks: Mapping[TopicPartition, Track], expected: Mapping[str, ExpectedRecovery]
) -> tuple[Recovery, ...]:
    """The recovery of each fault, in their order."""
    return tuple(_recovery(fault, faults, tracks, expected.get(fault.fault, ExpectedRecovery())) for fault in faults)


def _recovery(
    fault: FaultSpan, faults: Sequence[FaultSpan], tracks: Mapping[TopicPartition, Track], expected: ExpectedRecovery
) -> Recovery:
    from_ms = fault.began_ms if expected.since_strike else fault.over_ms
    took = {partition: took for partition, track in tracks.items() if (took := _took_ms(track, from_ms))}
    slowest = max(took, key=lambda partition: took[partition], default=None)
    longest_ms = 0.0 if slowest is None else took[slowest]
    until_ms = from_ms + longest_ms
    beside = {other.fault for other in faults if other is not fault and other.is_at_work(from_ms, until_ms)}
    return Recovery(
        fault=fault,
        from_ms=from_ms,
        took_ms=None if longest_ms == inf else longest_ms,
        bound_ms=expected.bound_ms,
        slowest=slowest,
        unwritten_ms=None if slowest is None or until_ms == inf else tracks[slowest].unwritten_ms(from_ms, until_ms),
        beside=tuple(sorted(beside)),
    )


def _took_ms(track: Track, from_ms: float) -> float:
    """How long a partition stands still from a moment on; 0 for one that does not."""
    ends = (
        (inf if each.to_ms is None else each.to_ms) - max(from_ms, each.from_ms)
        for each in track.stood_still_at(from_ms, HIDDEN_MS)
    )
    return max(ends, default=0.0)
