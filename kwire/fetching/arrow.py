"""Columns to Arrow, in the schema of Spark's Kafka source, without a Python object per record.

Contract: keys and values are copied once out of the fetch buffer; everything else is arrays already. pyarrow
is optional (`kwire[arrow]`) and imported here first, which says so. Called by `Records` and by the Spark data source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from kwire import speedups
from kwire.errors import CorruptRecordError
from kwire.protocol.record_copies import same_number, windows_of
from kwire.protocol.text import text_of
from kwire.switch_interval import ShortSwitchInterval

try:
    import pyarrow as pa
except ImportError as error:  # pragma: no cover  the tests have it
    raise ImportError("Arrow output needs pyarrow; install it with: pip install 'kwire[arrow]'") from error

from kwire.fetching.arrow_deserializing import deserialized_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    import pandas as pd
    import polars as pl
    from numpy.typing import NDArray

    from kwire.config import AnyDeserializer
    from kwire.fetching.partition_records import PartitionRecords
    from kwire.model import K, V
    from kwire.protocol.record_batch import Buffer
    from kwire.protocol.record_columns import RecordColumns
    from kwire.protocol.record_headers import HeaderColumns
    from kwire.protocol.record_varints import Ints
    from kwire.serialization_context import Field

_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_HEADERS = pa.list_(pa.field("element", _HEADER))

# Names, order, types and nullability are those Spark compares with (`spark.read.format("kafka")`, includeHeaders).
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", _HEADERS),
    ]
)

# Spark takes binary columns with 32-bit offsets only, so one batch spans at most this much of the buffer.
_MAX_SPAN_BYTES = 2**31 - 1
_US_PER_MS = 1000
# A chunk of this share of its portion, or less, is cut from the batch of the whole.
_CUT_SHARE = 0.5
_MAX_TIMESTAMP_MS = (2**63 - 1) // _US_PER_MS


def to_table(
    chunks: Sequence[PartitionRecords[K, V]],
    key: AnyDeserializer | None = None,
    value: AnyDeserializer | None = None,
) -> pa.Table:
    """All chunks as one table, a record batch for each (more for one of over 2 GiB); with `key` and `value` in place of
    the bytes what those make."""
    batches = [batch for chunk in chunks for batch in to_batches(chunk)]
    table = pa.Table.from_batches(batches, schema=SCHEMA)
    if key is None and value is None:
        return table
    wanted: tuple[tuple[Field, AnyDeserializer | None], ...] = (("key", key), ("value", value))
    for place, (field, deserialize) in enumerate(wanted):
        if deserialize is not None:
            column = deserialized_column(chunks, table.column(place), field, deserialize)
            table = table.set_column(place, pa.field(field, column.type), column)
    return table


def to_pandas(
    chunks: Sequence[PartitionRecords[K, V]], key: AnyDeserializer | None, value: AnyDeserializer | None
) -> pd.DataFrame:
    """`to_table` for pandas. Whole numbers beside nulls stay what they are, also in structs and lists: as floats they
    would be rounded from 2^53 on, so that different ids become equal."""
    try:
        import pandas as pd  # noqa: F401  pyarrow needs it; asking first gives the clear error
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas; install it with: pip install 'kwire[pandas]'") from error
    return to_table(chunks, key, value).to_pandas(integer_object_nulls=True)


def to_polars(
    chunks: Sequence[PartitionRecords[K, V]], key: AnyDeserializer | None, value: AnyDeserializer | None
) -> pl.DataFrame:
    """`to_table` for polars."""
    try:
        import polars as pl
    except ImportError as error:
        raise ImportError("to_polars() needs polars; install it with: pip install 'kwire[polars]'") from error
    return pl.DataFrame(to_table(chunks, key, value))


def to_batches(chunk: PartitionRecords[K, V], *, max_span_bytes: int = _MAX_SPAN_BYTES) -> Iterator[pa.RecordBatch]:
    """The chunk as record batches of `SCHEMA`; none when it has no records.

    Raises:
        CorruptRecordError: A timestamp that Arrow's microseconds cannot hold.
    """
    cut = _cut_from_portion(chunk, max_span_bytes)
    if cut is not None:
        yield cut
        return
    for columns in portions(chunk.columns, max_span_bytes):
        yield _batch(chunk, columns)


# By the columns that were decoded in one go, for as long as something of them is in use.
_portions: WeakKeyDictionary[RecordColumns, pa.RecordBatch] = WeakKeyDictionary()


def _cut_from_portion(chunk: PartitionRecords[K, V], max_span_bytes: int) -> pa.RecordBatch | None:
    """The chunk cut from the batch of the portion that it was decoded in, which is made once.

    A batch takes some twenty calls of Arrow and numpy, whatever its size. So polls of 500 records would take twice as
    long as those of 10,000. None: the chunk is most of its portion, or another record of the portion
    cannot be converted.
    """
    columns = chunk.columns
    if columns.part_of is None or not len(columns):
        return None
    whole, row = columns.part_of
    batch = _portions.get(whole)
    if batch is None:
        if len(columns) > len(whole) * _CUT_SHARE or not _fits(whole, max_span_bytes):
            return None
        try:
            batch = _portions[whole] = _batch(chunk, whole)
        except CorruptRecordError:
            return None
    return batch.slice(row, len(columns))


def portions(columns: RecordColumns, max_span_bytes: int) -> Iterator[RecordColumns]:
    """Halves, until each spans little enough of the buffer; one record always does, its length being an int32."""
    rows = len(columns)
    if not rows:
        return
    if rows == 1 or _fits(columns, max_span_bytes):
        yield columns
        return
    yield from portions(columns.slice(0, rows // 2), max_span_bytes)
    yield from portions(columns.slice(rows // 2, rows), max_span_bytes)


def _fits(columns: RecordColumns, max_span_bytes: int) -> bool:
    behind_last = int(columns.value_starts[-1]) + max(int(columns.value_lengths[-1]), 0)
    return behind_last - int(columns.key_starts[0]) <= max_span_bytes


def _batch(chunk: PartitionRecords[K, V], columns: RecordColumns) -> pa.RecordBatch:
    rows = len(columns)
    check_timestamps(chunk, columns)
    with ShortSwitchInterval():
        arrays = [
            binary_column(columns.buffer, columns.key_starts, columns.key_lengths),
            binary_column(columns.buffer, columns.value_starts, columns.value_lengths),
            pa.repeat(text_scalar(chunk.topic_partition.topic), rows),
            number_column(np.full(rows, chunk.topic_partition.partition, np.int32), pa.int32()),
            number_column(columns.offsets, pa.int64()),
            number_column(columns.timestamps * _US_PER_MS, pa.timestamp("us", tz="UTC")),
            number_column(columns.timestamp_types.astype(np.int32), pa.int32()),
            header_column(columns),
        ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def check_timestamps(chunk: PartitionRecords[K, V], columns: RecordColumns) -> None:
    impossible = (columns.timestamps > _MAX_TIMESTAMP_MS) | (columns.timestamps < -_MAX_TIMESTAMP_MS)
    if impossible.any():
        row = int(impossible.argmax())
        raise CorruptRecordError(
            f"its timestamp {columns.timestamps[row]} ms does not fit Arrow's microseconds; "
            "read such records by iteration, or their times with records.timestamps()",
            topic=chunk.topic_partition.topic,
            partition=chunk.topic_partition.partition,
            offset=int(columns.offsets[row]),
        )


def binary_column(buffer: Buffer, starts: Ints, lengths: Ints) -> pa.BinaryArray:
    """A binary column of spans that ascend in the buffer.

    The buffer itself, cut at every start and end, is an Arrow array already: gap, span, gap, span. Taking every second
    element lets Arrow do the copying. Where all spans have one length, numpy does it in half the time (measured). The
    module in C copies one by one, which takes less than either.
    """
    length = same_number(lengths) if len(lengths) else -1
    if length is not None and length < 0:
        return pa.nulls(len(starts), pa.binary())
    if speedups.module is not None:
        return _gathered(speedups.module, buffer, starts, lengths)
    if length:
        return _equal_spans(buffer, starts, length)
    origin = int(starts[0])
    edges = np.empty(2 * len(starts), dtype=np.int32)
    edges[0::2] = starts - origin
    edges[1::2] = starts - origin + np.maximum(lengths, 0)
    data = pa.py_buffer(memoryview(buffer)[origin : origin + int(edges[-1])])
    spans = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), data])
    return spans.take(number_column(np.arange(0, len(edges), 2), pa.int64(), is_there=lengths >= 0))


def _gathered(module: ModuleType, buffer: Buffer, starts: Ints, lengths: Ints) -> pa.BinaryArray:
    is_there = lengths >= 0
    edges = np.empty(len(starts) + 1, dtype=np.int32)
    data = np.empty(int(lengths.sum(where=is_there)), dtype=np.uint8)
    module.gather(buffer, np.ascontiguousarray(starts), np.ascontiguousarray(lengths), edges, data)
    validity = None if is_there.all() else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(starts), [validity, pa.py_buffer(edges), pa.py_buffer(data)])


def _equal_spans(buffer: Buffer, starts: Ints, length: int) -> pa.BinaryArray:
    edges = np.arange(0, (len(starts) + 1) * length, length, dtype=np.int32)
    data = windows_of(buffer, length)[starts].view(np.uint8)
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(edges), pa.py_buffer(data)])


def text_scalar(text: str) -> pa.StringScalar:
    data = text.encode()
    edges = np.array([0, len(data)], np.int32)
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])[0]


def number_column(
    numbers: Ints | NDArray[np.int32], kind: pa.DataType, is_there: NDArray[np.bool_] | None = None
) -> pa.Array:
    """The numbers as a column, where they are. (`pa.array` and `pa.scalar` import pandas if they can: 0.3 s, once.)"""
    validity = None if is_there is None else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(np.ascontiguousarray(numbers))])


def header_column(columns: RecordColumns) -> pa.ListArray:
    """Null for a record without headers, as Spark has it; never an empty list."""
    at = columns.headers_at
    if at is None:
        return pa.nulls(len(columns), _HEADERS)
    used = slice(int(at.first[0]), int(at.first[-1]))
    values = binary_column(columns.buffer, at.value_starts[used], at.value_lengths[used])
    pairs = pa.StructArray.from_arrays([_names(columns.buffer, at, used), values], fields=list(_HEADER))
    edges = (at.first - at.first[0]).astype(np.int32)
    validity = np.packbits(columns.header_counts() > 0, bitorder="little")
    buffers = [pa.py_buffer(validity), pa.py_buffer(edges)]
    return pa.Array.from_buffers(_HEADERS, len(columns), buffers, children=[pairs])


def _names(buffer: Buffer, at: HeaderColumns, used: slice) -> pa.StringArray:
    names = binary_column(buffer, at.key_starts[used], at.key_lengths[used])
    texts = pa.Array.from_buffers(pa.string(), len(names), names.buffers())  # `cast` loads pyarrow.compute: 60 ms
    try:
        texts.validate(full=True)
        return texts
    except pa.ArrowInvalid:
        # Not UTF-8: U+FFFD stands in for what does not decode, here as in `RecordColumns.headers`.
        return pa.array([text_of(name) for name in names.to_pylist()], pa.string())
