"""Applies the user's deserializers to the records of a partition.

Contract: a failing deserializer costs no record. The rows in front of the failing one come back deserialized, and with
them the error that names the failing one; the collector delivers the rows first and raises the error after. For a
`Processor` all rows come back, each failing one with its raw bytes and its error, up to one that is not to blame for
its failure: a schema registry did not answer. Runs on the application thread. Called by the fetch collector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import repeat
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

from kwire.config import Deserialize, Deserializer
from kwire.errors import RecordDeserializationError, SchemaRegistryUnavailableError
from kwire.fetching.partition_records import PartitionRecords
from kwire.interrupts import is_no_fault_of_a_record
from kwire.model import K, OffsetAndMetadata, V, leader_epoch_or_none
from kwire.serialization_context import Field, SerializationContext, takes_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kwire.deserializers.failures import Failure
    from kwire.model import Header

T = TypeVar("T")

# A poll goes on behind what it has returned, so neither it nor a seek is advised then.
_AGAIN = "a poll goes on behind these records: use the same Records again"
IN_PROCESSOR = 'a Processor steps over such records with on_failure="skip" or a dead-letter function'


# Not slotted, for the reason given at `PartitionRecords`.
@dataclass(frozen=True, kw_only=True)
class Deserializers(Generic[K, V]):
    """The two deserializers of a consumer; None leaves bytes."""

    key: Deserialize[K] | None = None
    value: Deserialize[V] | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    @cached_property
    def in_context(self) -> frozenset[Field]:
        """Which of the two are functions that take a context."""
        named: tuple[tuple[Field, object], ...] = (("key", self.key), ("value", self.value))
        return frozenset(name for name, each in named if not isinstance(each, Deserializer) and takes_context(each))


class _Failed(NamedTuple):
    """A key or value that could not be deserialized."""

    origin: Field
    cause: Exception
    why: Failure


def deserialize_chunk(
    chunk: PartitionRecords[bytes, bytes],
    deserializers: Deserializers[K, V],
    *,
    keep_failures: bool = False,
    is_returned: bool = False,
) -> tuple[PartitionRecords[K, V], RecordDeserializationError | None]:
    """Deserialize keys and values.

    Args:
        keep_failures: Whether rows that fail are kept, see `PartitionRecords.failures`; there is no error then.
        is_returned: Whether a poll has returned these records already, as bytes.

    Returns:
        The rows that worked, up to the first that did not, and the error of that one, or None. When there is an
        error, `next` is the offset of the failing record, so that the position stays in front of it.
    """
    if not deserializers:
        return cast("PartitionRecords[K, V]", chunk), None  # K and V are bytes
    keys, bad_keys = _deserialize(chunk, deserializers, "key", deserializers.key, keep_failures=keep_failures)
    values, bad_values = _deserialize(chunk, deserializers, "value", deserializers.value, keep_failures=keep_failures)
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
    failed = bad_values | bad_keys
    ends = [row for row, each in failed.items() if not (keep_failures and each.why.blames_record)]
    row = min(ends, default=len(chunk))
    errors = {at: _error(chunk, at, each, IN_PROCESSOR) for at, each in failed.items() if at < row}
    if not ends:
        return replace(whole, failures=errors), None
    front = replace(
        whole,
        columns=chunk.columns.slice(0, row),
        next=_position_of(chunk, row),
        deserialized_keys=None if keys is None else keys[:row],
        deserialized_values=None if values is None else values[:row],
        failures=errors or None,
    )
    return front, _error(chunk, row, failed[row], _to_use_again(failed[row].why) if is_returned else None)


def registry_failure(
    chunk: PartitionRecords[K, V], origin: Field, deserialize: object, cause: Exception
) -> RecordDeserializationError | None:
    """The error to raise for a whole column of what a poll has returned, if a schema registry is to blame, or how it is
    asked. It names the first record."""
    raw = cast("PartitionRecords[bytes, bytes]", replace(chunk, deserialized_keys=None, deserialized_values=None))
    why = _why(raw, 0, origin, deserialize, cause)
    return None if why.blames_record else _error(raw, 0, _Failed(origin, cause, why), _to_use_again(why))


def _why(
    chunk: PartitionRecords[bytes, bytes], row: int, origin: Field, deserialize: object, cause: Exception
) -> Failure:
    from kwire.deserializers.failures import failure_of  # loaded by who needs it
    from kwire.deserializers.registry import asked_by

    (record,) = _one(chunk, row)
    topic = chunk.topic_partition.topic
    context = SerializationContext(topic, origin, list(record.headers))
    return failure_of(cause, topic, asked_by(deserialize, record.key if origin == "key" else record.value, context))


def _deserialize(
    chunk: PartitionRecords[bytes, bytes],
    deserializers: Deserializers[K, V],
    origin: Field,
    deserialize: Deserialize[T] | None,
    *,
    keep_failures: bool,
) -> tuple[list[T | None] | None, dict[int, _Failed]]:
    """The column up to the first failure, or all of it with raw bytes where it failed; None in place of a column that
    stays bytes. And the failures by row."""
    if deserialize is None:
        return None, {}
    raw = chunk.columns.keys() if origin == "key" else chunk.columns.values()
    column: list[T | None] = []
    failures: dict[int, _Failed] = {}
    takes = origin if origin in deserializers.in_context else None
    values = _values(chunk, raw, deserialize, column, takes)
    while True:
        try:
            values()
        except Exception as cause:
            if is_no_fault_of_a_record(cause):
                raise
            row = len(column)
            failures[row] = _Failed(origin, cause, _why(chunk, row, origin, deserialize, cause))
            if not (keep_failures and failures[row].why.blames_record):
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
    takes_context_of: Field | None,
) -> Callable[[], None]:
    """A function that appends to the column until a row fails, and goes on behind that row when it is called again."""
    if takes_context_of is not None:
        contexts = _contexts(chunk, takes_context_of)
        with_context = cast("Callable[[bytes, SerializationContext], T]", deserialize)
        return partial(_append_with_context, zip(raw, contexts, strict=False), column.append, with_context)
    if isinstance(deserialize, Deserializer):
        with_headers = zip(chunk.columns.headers(), raw, strict=True)
        return partial(_append_in_context, with_headers, column.append, deserialize, chunk.topic_partition.topic)
    return partial(_append, iter(raw), column.append, cast("Callable[[bytes], T]", deserialize))


def _append(rows: Iterator[bytes | None], add: Callable[[T | None], None], deserialize: Callable[[bytes], T]) -> None:
    for data in rows:
        add(None if data is None else deserialize(data))


def _append_with_context(
    rows: Iterator[tuple[bytes | None, SerializationContext]],
    add: Callable[[T | None], None],
    deserialize: Callable[[bytes, SerializationContext], T],
) -> None:
    for data, context in rows:
        add(None if data is None else deserialize(data, context))


def _contexts(chunk: PartitionRecords[bytes, bytes], field: Field) -> Iterable[SerializationContext]:
    """One for all where there are no headers, which is the rule."""
    topic = chunk.topic_partition.topic
    if chunk.columns.headers_at is None:
        return repeat(SerializationContext(topic, field))
    return (SerializationContext(topic, field, list(headers)) for headers in chunk.columns.headers())


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
    epoch = None if row == 0 else leader_epoch_or_none(chunk.columns.epoch_at(row - 1))
    return OffsetAndMetadata(chunk.columns.offset_at(row), leader_epoch=epoch)


def _to_use_again(why: Failure) -> str:
    if why.is_outage:
        return f"{_AGAIN} when it answers"
    if why.advice is not None:
        return f"{why.advice}; {_AGAIN}"
    return f"{_AGAIN}, without this function to have the bytes, or with one that makes something of these as well"


def _one(chunk: PartitionRecords[bytes, bytes], row: int) -> PartitionRecords[bytes, bytes]:
    return PartitionRecords(
        topic_partition=chunk.topic_partition, columns=chunk.columns.slice(row, row + 1), next=chunk.next
    )


def _error(
    chunk: PartitionRecords[bytes, bytes], row: int, failed: _Failed, advice: str | None = None
) -> RecordDeserializationError:
    (record,) = _one(chunk, row)
    kind = SchemaRegistryUnavailableError if failed.why.is_outage else RecordDeserializationError
    error = kind(
        chunk.topic_partition,
        record.offset,
        origin=failed.origin,
        key_data=record.key,
        value_data=record.value,
        headers=record.headers,
        timestamp=record.timestamp,
        reason=failed.why.reason,
        advice=advice or failed.why.advice,
    )
    error.__cause__ = failed.cause
    return error
