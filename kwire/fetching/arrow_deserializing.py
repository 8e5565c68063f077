"""Binary columns to columns of what a deserializer makes, many chunks at a time.

Contract: a column has one type. What fails is looked for record by record, so that the error names it. Called by
`Records.to_arrow` with the columns that it has made.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from kwire.config.deserializers import is_class_of_deserializers
from kwire.errors import InvalidArgumentError
from kwire.fetching.deserializing import Deserializers, deserialize_chunk, outage
from kwire.interrupts import is_no_fault_of_a_record
from kwire.serialization_context import SerializationContext, takes_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kwire.config import AnyDeserializer
    from kwire.fetching.partition_records import PartitionRecords
    from kwire.model import K, V
    from kwire.serialization_context import Field


def deserialized_column(
    chunks: Sequence[PartitionRecords[K, V]], column: pa.ChunkedArray, field: Field, deserialize: AnyDeserializer
) -> pa.ChunkedArray:
    """The column with `deserialize` done to it.

    Raises:
        RecordDeserializationError: The first record that it fails over.
        InvalidArgumentError: The values have no type in common, or `deserialize` is a class of deserializers.
    """
    if is_class_of_deserializers(deserialize):
        raise InvalidArgumentError(f"{field}={deserialize!r} is a class; give an object of it")
    make = getattr(deserialize, "to_arrow", None)
    try:
        if make is None:
            return pa.chunked_array([pa.array(_one_by_one(chunks, field, deserialize))])
        return _joined(list(_arrays(chunks, column, field, make)))
    except Exception as error:
        if is_no_fault_of_a_record(error):
            raise
        for _ in _one_by_one(chunks, field, deserialize):
            pass  # raises, if one record is to blame
        if isinstance(error, InvalidArgumentError):
            raise
        if (unavailable := outage(next(filter(len, chunks)), field, error)) is not None:
            raise unavailable from error  # it answers again by now
        raise InvalidArgumentError(
            f"the {field}s make no column of one type: {error}; give {type(deserialize).__name__} the type to make, or "
            "read them by iteration"
        ) from error


def _arrays(
    chunks: Sequence[PartitionRecords[K, V]], column: pa.ChunkedArray, field: Field, make: Callable[..., pa.Array]
) -> Iterator[pa.Array]:
    """One array for all chunks; if `make` wants the topic, one for each run of chunks of the same topic."""
    if not takes_context(make):
        yield make(_combined(column))
        return
    start = 0
    for topic, rows in _stretches(chunks):
        yield make(_combined(column.slice(start, rows)), SerializationContext(topic, field))
        start += rows


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
        raise InvalidArgumentError("over 2 GiB at a time make no column; give the consumer a lower max_poll_records")
    return found


def _joined(arrays: list[pa.Array]) -> pa.ChunkedArray:
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"topics have different types, {' and '.join(map(str, kinds))}; make a table of each topic's records"
        )
    kind = next(iter(kinds), pa.null())
    return pa.chunked_array([array.cast(kind) for array in arrays], kind)


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
