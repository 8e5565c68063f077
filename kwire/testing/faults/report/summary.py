"""A run in figures: what was sent and what came, how long it took to recover, and whether the client has passed.

Frozen values, and the same JSON for the same ledger in every process. `page`, `compare` and the command's exit status
are made from it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from itertools import pairwise
from statistics import median

from kwire.model import TopicPartition
from kwire.testing.faults.report.duplicates import UNEXPLAINED, duplicates
from kwire.testing.faults.report.progress import Track, follow
from kwire.testing.faults.report.recovery import Judgement, Recovery, recoveries
from kwire.testing.faults.report.run import FaultRun, MemorySample
from kwire.testing.faults.report.spans import ends_ms, fault_spans, owner_spans
from kwire.testing.invariants.ledger import Assigned, Ledger, Lost, Quiet, Raised, Revoked
from kwire.testing.invariants.logs import final_logs
from kwire.testing.invariants.violation import Violation

# Callbacks with less than this between them belong to one rebalance: Kafka's group.initial.rebalance.delay.ms.
REBALANCE_GAP_MS = 3_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The longest time a partition had unread records and brought none of them. `to_ms` is None if it never did."""

    partition: TopicPartition
    from_ms: float
    to_ms: float | None
    lasted_ms: float
    unread: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakMemory:
    """The most that a member's process ever held."""

    member: str
    resident_bytes: int
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """Counts of the records of a run.

    Args:
        received: how many different ones of those sent were polled.
        delivered: how many were polled, with those that came again.
        lost: still in the log at the end, polled by nobody, and a later one of the partition was.
        unread: still in the log at the end, behind the last that was polled.
        gone: removed by retention or an unclean election before anybody had read them; no loss of the client's.
        again: those that came again, by the reason.
    """

    sent: int
    received: int
    delivered: int
    lost: int
    unread: int
    gone: int
    again: Mapping[str, int]

    @property
    def duplicates(self) -> int:
        return sum(self.again.values())

    @property
    def unexplained(self) -> int:
        return self.again.get(UNEXPLAINED, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handovers:
    """Counts of partitions that changed hands in a run.

    Args:
        rebalances: bursts of callbacks, of one member or of several.
        moves: how often a partition came to another member than the one before.
    """

    rebalances: int
    assigned: int
    revoked: int
    lost: int
    moves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run in figures.

    Args:
        stuck: partitions that had unread records when the run ended.
        errors: how often calls raised, by their names: "poll", "commit_sync"; "run" where a whole program ended by one.
        drained_ms: from the moment when all was quiet until the last unread record came; None if it did not, or nothing
            was ever quiet.
    """

    name: str
    duration_ms: float
    records: RunRecords
    handovers: Handovers
    recoveries: tuple[Recovery, ...]
    stuck: tuple[TopicPartition, ...]
    errors: Mapping[str, int]
    drained_ms: float | None
    silences: tuple[Silence, ...]
    memory: tuple[PeakMemory, ...]
    violations: tuple[Violation, ...]
    versions: Mapping[str, str]

    @property
    def late(self) -> tuple[Recovery, ...]:
        """What took longer than its bound, or for ever."""
        return tuple(each for each in self.recoveries if each.judgement in (Judgement.LATE, Judgement.NEVER))

    @property
    def has_passed(self) -> bool:
        """Who was sent nothing has shown nothing."""
        return self.records.sent > 0 and not (self.violations or self.late or self.stuck)

    @property
    def recovery_p50_ms(self) -> float | None:
        return median(times) if (times := self._recovery_times()) else None

    @property
    def recovery_max_ms(self) -> float | None:
        return max(self._recovery_times(), default=None)

    @property
    def longest_silence(self) -> Silence | None:
        return max(self.silences, key=lambda silence: silence.lasted_ms, default=None)

    def to_json(self) -> str:
        """Everything, as text with a line end. Times in ms; what has no value is null."""
        derived = {
            "passed": self.has_passed,
            "duplicates": self.records.duplicates,
            "recovery_p50_ms": self.recovery_p50_ms,
            "recovery_max_ms": self.recovery_max_ms,
        }
        values = {**derived, **{each.name: getattr(self, each.name) for each in fields(self)}}
        return json.dumps(_plain(values), indent=2, ensure_ascii=True, allow_nan=False) + "\n"

    def _recovery_times(self) -> list[float]:
        """Of faults that were alone: of the others one cannot say what took so long."""
        return [each.took_ms for each in self.recoveries if each.took_ms is not None and not each.beside]


def summarize(run: FaultRun, tracks: Mapping[TopicPartition, Track] | None = None) -> Summary:
    """Args:
    tracks: what `follow` has made of the run's ledger, if that is known already.
    """
    tracks = follow(run.ledger) if tracks is None else tracks
    end_ms = ends_ms(run.ledger)
    return Summary(
        name=run.name,
        duration_ms=end_ms,
        records=_records(run.ledger, tracks),
        handovers=_handovers(run.ledger),
        recoveries=recoveries(fault_spans(run.ledger), tracks, run.expected),
        stuck=tuple(partition for partition, track in tracks.items() if track.unread),
        errors=Counter(event.call for event in run.ledger.of(Raised)),
        drained_ms=_drained_ms(run.ledger, tracks),
        silences=_silences(tracks, end_ms),
        memory=_peaks(run.memory),
        violations=run.violations,
        versions=run.versions,
    )


def _records(ledger: Ledger, tracks: Mapping[TopicPartition, Track]) -> RunRecords:
    lost = unread = 0
    for partition, log in final_logs(ledger).items():
        track = tracks[partition]
        missing = [each for each, value in log.values.items() if each >= log.start and value not in track.delivered]
        overtaken = sum(offset < track.last_delivered for offset in missing)
        lost += overtaken
        unread += len(missing) - overtaken
    again = duplicates(ledger)
    received = sum(track.delivered_records for track in tracks.values())
    return RunRecords(
        sent=sum(track.sent_records for track in tracks.values()),
        received=received,
        delivered=received + sum(again.values()),
        lost=lost,
        unread=unread,
        gone=sum(track.gone_unread for track in tracks.values()),
        again=again,
    )


def _handovers(ledger: Ledger) -> Handovers:
    callbacks = [event for event in ledger.events if isinstance(event, (Assigned, Revoked, Lost)) and event.partitions]
    times = [event.at_ms for event in callbacks]
    pauses = sum(later - earlier >= REBALANCE_GAP_MS for earlier, later in pairwise(times))
    kinds = Counter(type(event) for event in callbacks)
    owners: dict[TopicPartition, str] = {}
    moves = 0
    for span in owner_spans(ledger):
        moves += owners.get(span.partition, span.member) != span.member
        owners[span.partition] = span.member
    return Handovers(
        rebalances=pauses + bool(times),
        assigned=kinds[Assigned],
        revoked=kinds[Revoked],
        lost=kinds[Lost],
        moves=moves,
    )


def _drained_ms(ledger: Ledger, tracks: Mapping[TopicPartition, Track]) -> float | None:
    """Every partition is looked at in the moment of quiet: what is sent later, in a calm group, is another matter."""
    quiet = next(ledger.of(Quiet), None)
    if quiet is None:
        return None
    last_ms = quiet.at_ms
    for track in tracks.values():
        for each in track.stood_still_at(quiet.at_ms, 0.0):
            if each.to_ms is None:
                return None
            last_ms = max(last_ms, each.to_ms)
    return last_ms - quiet.at_ms


def _silences(tracks: Mapping[TopicPartition, Track], end_ms: float) -> tuple[Silence, ...]:
    found = []
    for partition, track in tracks.items():
        lengths = [(end_ms if each.to_ms is None else each.to_ms) - each.from_ms for each in track.standstills]
        if lengths:
            lasted_ms = max(lengths)
            each = track.standstills[lengths.index(lasted_ms)]
            found.append(
                Silence(
                    partition=partition,
                    from_ms=each.from_ms,
                    to_ms=each.to_ms,
                    lasted_ms=lasted_ms,
                    unread=each.unread,
                )
            )
    return tuple(found)


def _peaks(samples: Iterable[MemorySample]) -> tuple[PeakMemory, ...]:
    peaks: dict[str, MemorySample] = {}
    for sample in samples:
        if sample.member not in peaks or sample.resident_bytes > peaks[sample.member].resident_bytes:
            peaks[sample.member] = sample
    return tuple(
        PeakMemory(member=member, resident_bytes=peak.resident_bytes, at_ms=peak.at_ms)
        for member, peak in peaks.items()
    )


def _plain(value: object) -> object:
    """What JSON can say."""
    match value:
        case TopicPartition():
            return str(value)
        case Enum():
            return value.value
        case float():
            return round(value, 3)
        case Recovery():
            return {**_fields(value), "judgement": value.judgement.value}
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case str():
            return value
        case Sequence():
            return [_plain(each) for each in value]
        case _:
            return _fields(value) if is_dataclass(value) else value


def _fields(value: object) -> dict[str, object]:
    assert is_dataclass(value)
    return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
