"""Applies the user's deserializers to the records of a partition.

Contract: a failing deserializer costs no record. The rows in front of the failing one come back deserialized, and with
them the error that names the failing one; the collector delivers the rows first and raises the error after. For a
`Processor` all rows come back, each failing one with its raw bytes and its error. Runs on the application thread.
Called by the fetch collector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from kwire.config import Deserialize, Deserializer
from kwire.errors import RecordDeserializationError
from kwire.fetching.partition_records import PartitionRecords
from kwire.interrupts import is_no_fault_of_a_record
from kwire.model import K, OffsetAndMetadata, V, leader_epoch_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kwire.model import Header

T = TypeVar("T")

IN_PROCESSOR = 'a Processor steps over such records with on_failure="skip" or a dead-letter function'


# Not slotted, for the reason given at `PartitionRecords`.
@dataclass(frozen=True, kw_only=True)
class Deserializers(Generic[K, V]):
    """The two deserializers of a consumer; None leaves bytes."""

    key: Deserialize[K] | None = None
    value: Deserialize[V] | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None


def deserialize_chunk(
    chunk: PartitionRecords[bytes, bytes], deserializers: Deserializers[K, V], *, keep_failures: bool = False
) -> tuple[PartitionRecords[K, V], RecordDeserializationError | None]:
    """Deserialize keys and values.

    Args:
        keep_failures: Whether rows that fail are kept, see `PartitionRecords.failures`; there is no error then.

    Returns:
        The rows that worked, up to the first that did not, and the error of that one, or None. When there is an
        error, `next` is the offset of the failing record, so that the position stays in front of it.
    """
    if not deserializers:
        return cast("PartitionRecords[K, V]", chunk), None  # K and V are bytes
    keys, bad_keys = _deserialize(chunk, chunk.columns.keys, deserializers.key, keep_failures=keep_failures)
    values, bad_values = _deserialize(chunk, chunk.columns.values, deserializers.value, keep_failures=keep_failures)
    whole: PartitionRecords[K, V] = PartitionRecords(
        topic_partition=chunk.topic_partition,
        columns=chunk.columns,
        next=chunk.next,
        deserialized_keys=keys,
        deserialized_values=values,
        cursor=chunk.cursor,
        epoch=chunk.epoch,
    )
    if not (bad_keys or bad_values):
        return whole, None
    # In one row the key comes first, as in Java.
    failed = {row: ("value", reason) for row, reason in bad_values.items()}
    failed |= {row: ("key", reason) for row, reason in bad_keys.items()}
    if keep_failures:
        errors = {row: _error(chunk, origin, row, reason, IN_PROCESSOR) for row, (origin, reason) in failed.items()}
        return replace(whole, failures=errors), None
    row = min(failed)
    front = replace(
        whole,
        columns=chunk.columns.slice(0, row),
        next=_position_of(chunk, row),
        deserialized_keys=None if keys is None else keys[:row],
        deserialized_values=None if values is None else values[:row],
    )
    return front, _error(chunk, failed[row][0], row, failed[row][1])


def _deserialize(
    chunk: PartitionRecords[bytes, bytes],
    read: Callable[[], list[bytes | None]],
    deserialize: Deserialize[T] | None,
    *,
    keep_failures: bool,
) -> tuple[list[T | None] | None, dict[int, Exception]]:
    """The column up to the first failure, or all of it with raw bytes where it failed; None in place of a column that
    stays bytes. And the failures by row."""
    if deserialize is None:
        return None, {}
    raw = read()
    column: list[T | None] = []
    failures: dict[int, Exception] = {}
    values = _values(chunk, raw, deserialize, column)
    while True:
        try:
            values()
        except Exception as reason:
            if is_no_fault_of_a_record(reason):
                raise
            row = len(column)
            failures[row] = reason
            if not keep_failures:
                break
            column.append(cast("T | None", raw[row]))
        else:
            break
    return column, failures


def _values(
    chunk: PartitionRecords[bytes, bytes],
    raw: Sequence[bytes | None],
    deserialize: Deserialize[T],
    column: list[T | None],
) -> Callable[[], None]:
    """What appends to the column until a row fails, and goes on behind that when it is called again."""
    if isinstance(deserialize, Deserializer):
        with_headers = zip(chunk.columns.headers(), raw, strict=True)
        return partial(_append_in_context, with_headers, column.append, deserialize, chunk.topic_partition.topic)
    return partial(_append, iter(raw), column.append, deserialize)


def _append(rows: Iterator[bytes | None], add: Callable[[T | None], None], deserialize: Callable[[bytes], T]) -> None:
    for data in rows:
        add(None if data is None else deserialize(data))


def _append_in_context(
    rows: Iterator[tuple[tuple[Header, ...], bytes | None]],
    add: Callable[[T | None], None],
    deserializer: Deserializer[T],
    topic: str,
) -> None:
    for headers, data in rows:
        add(deserializer.deserialize(topic, headers, data))


def _position_of(chunk: PartitionRecords[bytes, bytes], row: int) -> OffsetAndMetadata:
    """The row's offset as a position, with the leader epoch of the record in front of it (KIP-320)."""
    epoch = None if row == 0 else leader_epoch_or_none(int(chunk.columns.leader_epochs[row - 1]))
    return OffsetAndMetadata(int(chunk.columns.offsets[row]), leader_epoch=epoch)


def _error(
    chunk: PartitionRecords[bytes, bytes], origin: str, row: int, reason: Exception, advice: str | None = None
) -> RecordDeserializationError:
    (record,) = PartitionRecords[bytes, bytes](
        topic_partition=chunk.topic_partition, columns=chunk.columns.slice(row, row + 1), next=chunk.next
    )
    error = RecordDeserializationError(
        chunk.topic_partition,
        record.offset,
        origin=origin,
        key_data=record.key,
        value_data=record.value,
        headers=record.headers,
        timestamp=record.timestamp,
        reason=f"{type(reason).__name__}: {reason}",
        advice=advice,
    )
    error.__cause__ = reason
    return error
