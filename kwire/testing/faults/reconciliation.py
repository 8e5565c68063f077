"""Reconciliation: it completes the ledger from the brokers' logs, which are the truth about what could be read.

    found = reconcile(recorder, logs, compacted={"orders": 20_000})
    found.lost_by_brokers

A producer does not know everything: a record may be in the log though its acknowledgement was lost, and an acknowledged
record may be gone by retention, compaction, or an unclean election. Records that brokers have lost are told apart from
records that the consumer has lost. Called by the harness once, at the end, before the group is drained.

Events of injectors (`Removed`, `Truncated`) stay as they are; the missing ones are added here. Each gets the earliest
time at which it may have happened, so that no consumer is blamed for a record that may have been gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kwire.model import TopicPartition
from kwire.testing.faults.broker_log import BrokerLog, LogRecord
from kwire.testing.faults.events import Recorder
from kwire.testing.invariants.ledger import Hidden, Ledger, Polled, Removed, Sent, Truncated, Vanished
from kwire.testing.invariants.logs import Log, final_logs

# How much earlier than the first record after it the cut of a log is placed.
JUST_BEFORE_MS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Numbers of records by partition, where there are any.

    Args:
        unacknowledged: records in the log whose acknowledgement, or offset, never reached the producer.
        compacted: acknowledged records that are missing within a compacted log.
        lost_by_brokers: acknowledged records that are missing without a reason.
    """

    unacknowledged: Mapping[TopicPartition, int]
    compacted: Mapping[TopicPartition, int]
    lost_by_brokers: Mapping[TopicPartition, int]

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks for the report."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        if self.lost_by_brokers:
            where = ", ".join(f"{count} of {partition}" for partition, count in self.lost_by_brokers.items())
            yield f"the brokers have lost acknowledged records: {where}"
        if self.unacknowledged:
            yield f"{sum(self.unacknowledged.values())} records are in the log, though never acknowledged"
        if self.compacted:
            yield f"{sum(self.compacted.values())} records were compacted away"


def reconcile(
    recorder: Recorder,
    logs: Mapping[TopicPartition, BrokerLog],
    *,
    compacted: Mapping[str, float] | None = None,
    unplaced: Mapping[str, TopicPartition] | None = None,
) -> Reconciliation:
    """Write the events that the ledger lacks.

    Args:
        compacted: the time from which each topic may have been compacted, on the run's clock.
        unplaced: values that were acknowledged without an offset.
    """
    since_ms = compacted or {}
    unacknowledged, by_compaction, lost = (
        Counter[TopicPartition](),
        Counter[TopicPartition](),
        Counter[TopicPartition](),
    )
    for sent in _never_told(recorder, logs):
        recorder.write(sent)
        unacknowledged[sent.partition] += 1
    for find in (_restarts, _cut_ends):  # each step uses the events of the one before
        for cut, records in find(recorder.ledger, logs):
            recorder.write(cut)
            lost[cut.partition] += records
    for removed in _starts(recorder.ledger, logs):
        recorder.write(removed)
    for hidden in _hidden(recorder.ledger, logs):
        recorder.write(hidden)
    for vanished in _vanished(recorder.ledger, logs, since_ms):
        recorder.write(vanished)
        counts = by_compaction if vanished.partition.topic in since_ms else lost
        counts[vanished.partition] += len(vanished.offsets)
    for value, partition in (unplaced or {}).items():
        lost[partition] += value not in {record.value for record in _records(logs, partition).values()}
    return Reconciliation(unacknowledged=unacknowledged, compacted=by_compaction, lost_by_brokers=+lost)


def _never_told(recorder: Recorder, logs: Mapping[TopicPartition, BrokerLog]) -> list[Sent]:
    """Records that are in the log, and that no producer knows of."""
    known = {event.value for event in recorder.ledger.of(Sent)}
    return [
        Sent(at_ms=recorder.at_ms(record.appended_ms), partition=partition, offset=offset, value=record.value)
        for partition, log in logs.items()
        for offset, record in log.records.items()
        if record.value not in known
    ]


def _restarts(ledger: Ledger, _logs: Mapping[TopicPartition, BrokerLog]) -> Iterator[tuple[Truncated, int]]:
    """Truncations, found by offsets that were given out twice, with the number of records that were lost."""
    replayed: dict[TopicPartition, Log] = {}
    for event in ledger.events:
        if not isinstance(event, (Sent, Removed, Truncated)):
            continue
        log = replayed.setdefault(event.partition, Log())
        if isinstance(event, Sent) and log.values.get(event.offset, event.value) != event.value:
            cut = Truncated(at_ms=event.at_ms - JUST_BEFORE_MS, partition=event.partition, to=event.offset)
            before = len(log.values)
            log.apply(cut)
            yield cut, before - len(log.values)
        log.apply(event)


def _cut_ends(ledger: Ledger, logs: Mapping[TopicPartition, BrokerLog]) -> Iterator[tuple[Truncated, int]]:
    """Truncations, found by logs that end before an acknowledged record, or do not exist any more."""
    times_ms = _last_times_ms(ledger)
    for partition, log in final_logs(ledger).items():
        end = logs[partition].end if partition in logs else 0
        cut = [value for offset, value in log.values.items() if offset >= end]
        if cut:
            at_ms = max(times_ms[value] for value in cut)
            yield Truncated(at_ms=at_ms, partition=partition, to=end), len(cut)


def _starts(ledger: Ledger, logs: Mapping[TopicPartition, BrokerLog]) -> Iterator[Removed]:
    """Removals, found by logs that begin later than is known."""
    times_ms = _last_times_ms(ledger)
    known = final_logs(ledger)
    for partition, log in logs.items():
        before = known.get(partition, Log())
        if log.start > before.start:
            gone = [times_ms[value] for offset, value in before.values.items() if offset < log.start]
            yield Removed(at_ms=max(gone, default=0.0), partition=partition, before=log.start)


def _hidden(ledger: Ledger, logs: Mapping[TopicPartition, BrokerLog]) -> Iterator[Hidden]:
    """Missing offsets that never had a record to read: transaction markers and aborted records."""
    known = final_logs(ledger)
    for partition, log in logs.items():
        written = known.get(partition, Log()).values
        holes = [at for at in range(log.start, log.end) if at not in log.records and at not in written]
        if holes:
            yield Hidden(at_ms=0.0, partition=partition, offsets=tuple(holes))


def _vanished(
    ledger: Ledger, logs: Mapping[TopicPartition, BrokerLog], since_ms: Mapping[str, float]
) -> Iterator[Vanished]:
    """Missing offsets of records. Those that were removed at the same time make one event."""
    times_ms = _last_times_ms(ledger)
    for partition, log in final_logs(ledger).items():
        holds = _records(logs, partition)
        gone: dict[float, list[int]] = {}
        for offset, value in log.values.items():
            if offset >= log.start and (offset not in holds or holds[offset].value != value):
                at_ms = max(times_ms[value], since_ms.get(partition.topic, 0.0))
                gone.setdefault(at_ms, []).append(offset)
        for at_ms, offsets in gone.items():
            yield Vanished(at_ms=at_ms, partition=partition, offsets=tuple(sorted(offsets)))


def _records(logs: Mapping[TopicPartition, BrokerLog], partition: TopicPartition) -> Mapping[int, LogRecord]:
    return logs[partition].records if partition in logs else {}


def _last_times_ms(ledger: Ledger) -> Mapping[str, float]:
    """The time at which each record was last known to exist: when it was sent, or polled."""
    times_ms: dict[str, float] = {}
    for event in ledger.events:
        if isinstance(event, Sent):
            times_ms[event.value] = max(event.at_ms, times_ms.get(event.value, 0.0))
        elif isinstance(event, Polled):
            times_ms.update(dict.fromkeys(event.values, event.at_ms))
    return times_ms
