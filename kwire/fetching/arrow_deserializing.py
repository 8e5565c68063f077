"""Binary columns to columns of what a deserializer makes, many chunks at a time.

Contract: a column has one type. What fails is looked for record by record, so that the error names it. Called by
`Records.to_arrow` with the columns that it has made.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from kwire.config.deserializers import is_class_of_deserializers
from kwire.deserializers.arrow_columns import as_type
from kwire.deserializers.registry import ID_HEADERS, FrameError, RegistryDeserializer
from kwire.errors import InvalidArgumentError
from kwire.fetching.deserializing import Deserializers, deserialize_chunk, registry_failure
from kwire.interrupts import is_no_fault_of_a_record
from kwire.serialization_context import SerializationContext, takes_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kwire.config import AnyDeserializer
    from kwire.fetching.partition_records import PartitionRecords
    from kwire.model import Header, K, V
    from kwire.serialization_context import Field

# What Arrow, and code that makes Python values, raises over a value of another type than those before it.
_OF_TYPES = (pa.ArrowException, ValueError, TypeError, OverflowError)


def deserialized_column(
    chunks: Sequence[PartitionRecords[K, V]], column: pa.ChunkedArray, field: Field, deserialize: AnyDeserializer
) -> pa.ChunkedArray:
    """The column with `deserialize` done to it.

    Raises:
        RecordDeserializationError: The first record that it fails over.
        InvalidArgumentError: The values have no type in common, a header names the schema of one, or `deserialize` is a
            class of deserializers.
    """
    if is_class_of_deserializers(deserialize):
        raise InvalidArgumentError(f"{field}={deserialize!r} is a class; give an object of it")
    make = getattr(deserialize, "to_arrow", None)
    if not any(map(len, chunks)):
        return _of_no_rows(column, field, make)
    if make is not None:
        _check_headers(chunks, field, deserialize)
    try:
        if make is None:
            return pa.chunked_array([pa.array(_one_by_one(chunks, field, deserialize))])
        return _joined(list(_arrays(chunks, column, field, make)))
    except Exception as error:
        if is_no_fault_of_a_record(error):
            raise
        values = list(_one_by_one(chunks, field, deserialize))  # raises, if one record is to blame
        if isinstance(error, InvalidArgumentError):
            raise
        if (failure := registry_failure(next(filter(len, chunks)), field, deserialize, error)) is not None:
            raise failure from error  # it answers again by now

        def make_first(rows: int) -> object:
            cut = column.slice(0, rows)
            return pa.array(values[:rows]) if make is None else list(_arrays(chunks, cut, field, make))

        raise _no_column(f"the {field}s", _where(chunks, make_first), error, deserialize) from error


def _no_column(what: str, where: str, error: Exception, deserialize: AnyDeserializer) -> InvalidArgumentError:
    """The error when each record can be read, and no column be made of them."""
    if isinstance(error, FrameError):
        return InvalidArgumentError(f"{what} make no column{where}: {error}")
    if not isinstance(error, _OF_TYPES):
        return InvalidArgumentError(f"{what} make no column{where}: {type(error).__name__}: {error}")
    return InvalidArgumentError(f"{what} make no column of one type{where}: {error}; {_advice(deserialize)}")


def _check_headers(chunks: Sequence[PartitionRecords[K, V]], field: Field, deserialize: AnyDeserializer) -> None:
    """A column is made of its bytes alone. Without the header, the first of them may pass for the frame of another
    schema.

    Raises:
        InvalidArgumentError: A header names the schema of a record.
    """
    if not isinstance(deserialize, RegistryDeserializer):
        return
    name = ID_HEADERS[field]
    for chunk in chunks:
        columns = chunk.columns
        if columns.headers_at is None:
            continue
        named = [row for row, headers in enumerate(columns.headers()) if _names_schema(headers, name)]
        data = (columns.keys() if field == "key" else columns.values()) if named else []
        if (row := next((row for row in named if data[row] is not None), None)) is not None:
            raise InvalidArgumentError(
                f"the {field}s make no column, from {chunk.topic_partition} offset {columns.offsets[row]} on: the "
                f"header {name} names the schema; let the consumer deserialize such records: {field}_deserializer=..."
            )


def _names_schema(headers: Sequence[Header], name: str) -> bool:
    return any(header.key == name and header.value is not None for header in headers)


def _of_no_rows(column: pa.ChunkedArray, field: Field, make: Callable[..., pa.Array] | None) -> pa.ChunkedArray:
    """An empty column, of the type that the user has given, if there is one."""
    found = pa.nulls(0)
    with suppress(Exception):  # a `to_arrow` of the user's may want a topic, or a first row
        if make is not None:
            found = _made(make, column, "", field)
    return pa.chunked_array([found])


def _where(chunks: Sequence[PartitionRecords[K, V]], make_first: Callable[[int], object]) -> str:
    """From which record on no column can be made. `make_first` makes one of this many rows at the beginning."""

    def fails(rows: int) -> bool:
        try:
            make_first(rows)
        except Exception:  # noqa: BLE001  which one does not matter
            return True
        return False

    rows = sum(map(len, chunks))
    row = bisect_left(range(1, rows + 1), True, key=fails)
    for chunk in chunks:
        if row < len(chunk):
            return f", from {chunk.topic_partition} offset {chunk.columns.offsets[row]} on"
        row -= len(chunk)
    return ""


def _advice(deserialize: AnyDeserializer) -> str:
    if not hasattr(deserialize, "to_arrow"):
        return (
            "a column is of numbers, text, bytes, lists or dictionaries: give a function that returns such, all alike"
        )
    if (argument := getattr(deserialize, "column_type_argument", None)) is not None:
        return f"give {type(deserialize).__name__} a type that all fit ({argument}=...), or read them by iteration"
    return "read them by iteration"


def _arrays(
    chunks: Sequence[PartitionRecords[K, V]], column: pa.ChunkedArray, field: Field, make: Callable[..., pa.Array]
) -> Iterator[pa.Array]:
    """One array for all chunks; if `make` wants the topic, one for each run of chunks of the same topic."""
    start = 0
    for topic, rows in _stretches(chunks) if takes_context(make) else [("", len(column))]:
        yield _made(make, column.slice(start, rows), topic, field)
        start += rows


def _made(make: Callable[..., pa.Array], column: pa.ChunkedArray, topic: str, field: Field) -> pa.Array:
    context = (SerializationContext(topic, field),) if takes_context(make) else ()
    return make(_combined(column), *context)


def _stretches(chunks: Sequence[PartitionRecords[K, V]]) -> list[tuple[str, int]]:
    """Topics, and how many records follow each other of it."""
    found: list[tuple[str, int]] = []
    for chunk in filter(len, chunks):
        topic, rows = chunk.topic_partition.topic, len(chunk)
        if found and found[-1][0] == topic:
            rows += found.pop()[1]
        found.append((topic, rows))
    return found


def _combined(column: pa.ChunkedArray) -> pa.BinaryArray:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):  # over 2 GiB
        raise InvalidArgumentError(
            "over 2 GiB at a time make no column; poll fewer records at once, by max_records or max_poll_records"
        )
    return found


def _joined(arrays: list[pa.Array]) -> pa.ChunkedArray:
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"topics have different types, {' and '.join(map(str, kinds))}; make a table of each topic's records"
        )
    kind = next(iter(kinds), pa.null())
    return pa.chunked_array([as_type(array, kind) for array in arrays], kind)


def _one_by_one(
    chunks: Sequence[PartitionRecords[K, V]], field: Field, deserialize: AnyDeserializer
) -> Iterator[object]:
    """What it makes of each. Raises the error of the first that it fails over."""
    deserializers: Deserializers[object, object] = Deserializers(
        key=deserialize if field == "key" else None, value=deserialize if field == "value" else None
    )
    for chunk in chunks:
        raw = replace(chunk, deserialized_keys=None, deserialized_values=None)
        found, error = deserialize_chunk(cast("PartitionRecords[bytes, bytes]", raw), deserializers, is_returned=True)
        if error is not None:
            raise error
        yield from chain(found.keys() if field == "key" else found.values())
