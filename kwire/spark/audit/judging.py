"""What is left of a history, back to events, and judged by the very rules that judge whole ones."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame, Row

from kwire.testing.invariants.ledger import Event, Polled, Sent
from kwire.testing.invariants.lines import event_of, partition_of


def events_of_rows(rows: DataFrame) -> Iterator[Event]:
    """The events of `thinned`, a part of them in memory at a time."""
    return map(event_of_row, rows.toLocalIterator(prefetchPartitions=True))


def event_of_row(row: Row) -> Event:
    if row.line is not None:
        return event_of(row.line)
    partition = partition_of(row.partition)
    if row.records is None:
        return Sent(at_ms=row.at_ms, partition=partition, offset=row.offset, value=row.value)
    return Polled(
        at_ms=row.at_ms,
        member=row.member,
        partition=partition,
        offsets=tuple(record.offset for record in row.records),
        values=tuple(record.value for record in row.records),
    )
