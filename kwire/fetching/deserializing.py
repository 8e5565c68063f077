"""Applies the user's deserializers to the records of a partition.

Contract: a failing deserializer costs no record. The rows in front of the failing one come back deserialized, and with
them the error that names the failing one; the collector delivers the rows first and raises the error after. Runs on the
application thread. Called by the fetch collector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from kwire.config import Deserialize, Deserializer
from kwire.errors import RecordDeserializationError
from kwire.fetching.partition_records import PartitionRecords, epoch_or_none
from kwire.model import K, OffsetAndMetadata, V

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


# Not slotted, for the reason given at `PartitionRecords`.
@dataclass(frozen=True, kw_only=True)
class Deserializers(Generic[K, V]):
    """The two deserializers of a consumer; None leaves bytes."""

    key: Deserialize[K] | None = None
    value: Deserialize[V] | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None


def deserialize_chunk(
    chunk: PartitionRecords[bytes, bytes], deserializers: Deserializers[K, V]
) -> tuple[PartitionRecords[K, V], RecordDeserializationError | None]:
    """Deserialize keys and values.

    Returns:
        The rows that worked, up to the first that did not, and the error of that one, or None. When there is an
        error, `next` is the offset of the failing record, so that the position stays in front of it.
    """
    if not deserializers:
        return cast("PartitionRecords[K, V]", chunk), None  # K and V are bytes
    keys, bad_key = _deserialize(chunk, chunk.columns.keys, deserializers.key)
    values, bad_value = _deserialize(chunk, chunk.columns.values, deserializers.value)
    failed = _first_failure(bad_key, bad_value)
    if failed is None:
        good: PartitionRecords[K, V] = PartitionRecords(
            topic_partition=chunk.topic_partition,
            columns=chunk.columns,
            next=chunk.next,
            deserialized_keys=keys,
            deserialized_values=values,
            cursor=chunk.cursor,
            epoch=chunk.epoch,
        )
        return good, None
    origin, row, reason = failed
    good = PartitionRecords(
        topic_partition=chunk.topic_partition,
        columns=chunk.columns.slice(0, row),
        next=_position_of(chunk, row),
        deserialized_keys=None if keys is None else keys[:row],
        deserialized_values=None if values is None else values[:row],
        cursor=chunk.cursor,
        epoch=chunk.epoch,
    )
    return good, _error(chunk, origin, row, reason)


@dataclass(frozen=True, slots=True)
class _Failure:
    row: int
    reason: Exception


def _deserialize(
    chunk: PartitionRecords[bytes, bytes], read: Callable[[], list[bytes | None]], deserialize: Deserialize[T] | None
) -> tuple[list[T | None] | None, _Failure | None]:
    """The column up to the first failure; None in place of the column when it stays bytes."""
    if deserialize is None:
        return None, None
    if isinstance(deserialize, Deserializer):
        return _deserialize_in_context(chunk, read(), deserialize)
    column: list[T | None] = []
    add = column.append
    try:
        for data in read():
            add(None if data is None else deserialize(data))
    except Exception as reason:  # noqa: BLE001  the user's code may raise anything; it is reported with its cause
        return column, _Failure(len(column), reason)
    return column, None


def _deserialize_in_context(
    chunk: PartitionRecords[bytes, bytes], raw: Sequence[bytes | None], deserializer: Deserializer[T]
) -> tuple[list[T | None], _Failure | None]:
    topic = chunk.topic_partition.topic
    column: list[T | None] = []
    try:
        for headers, data in zip(chunk.columns.headers(), raw, strict=True):
            column.append(deserializer.deserialize(topic, headers, data))
    except Exception as reason:  # noqa: BLE001  as above
        return column, _Failure(len(column), reason)
    return column, None


def _first_failure(bad_key: _Failure | None, bad_value: _Failure | None) -> tuple[str, int, Exception] | None:
    """The failure in the earlier row; in one row the key comes first, as in Java."""
    if bad_key is not None and (bad_value is None or bad_key.row <= bad_value.row):
        return "key", bad_key.row, bad_key.reason
    if bad_value is not None:
        return "value", bad_value.row, bad_value.reason
    return None


def _position_of(chunk: PartitionRecords[bytes, bytes], row: int) -> OffsetAndMetadata:
    """The row's offset as a position, with the leader epoch of the record in front of it (KIP-320)."""
    epoch = None if row == 0 else epoch_or_none(int(chunk.columns.leader_epochs[row - 1]))
    return OffsetAndMetadata(int(chunk.columns.offsets[row]), leader_epoch=epoch)


def _error(
    chunk: PartitionRecords[bytes, bytes], origin: str, row: int, reason: Exception
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
    )
    error.__cause__ = reason
    return error
