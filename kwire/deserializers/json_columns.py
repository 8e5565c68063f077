"""JSON to an Arrow column, read by Arrow in one go."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kwire.deserializers.arrow_columns import as_type, data_of
from kwire.deserializers.json_typed import INEXACT_FROM, exact_number, fitted

_NAME = "value"
_NOT_READ = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
_SAMPLE_ROWS = 64


def column_of(column: pa.BinaryArray, wanted: pa.DataType | None) -> pa.Array:
    """The documents of a column, null where it is null.

    Arrow's reader takes a stream of objects, and would not notice where one value ends and the next begins. So each
    value becomes the one field of an object, on a line of its own: what is not one document then breaks that line.

    Raises:
        ValueError: Some value is not JSON, or they have no type in common.
    """
    there = column.drop_null() if column.null_count else column
    if not len(there):
        return pa.nulls(len(column), wanted or pa.null())
    try:
        found = _inferred(there) if wanted is None else as_type(_read(there, wanted), wanted)
    except _NOT_READ:
        found = _read_one_by_one(there, wanted)
    if not column.null_count:
        return found
    rows = np.cumsum(np.asarray(column.is_valid())) - 1
    return found.take(pa.array(rows, pa.int64(), mask=np.asarray(column.is_null())))


def _inferred(documents: pa.BinaryArray) -> pa.Array:
    """What JSON itself says: text stays text, though Arrow's reader takes some for times; whole numbers stay exact,
    though it makes floats of those beyond 64 bits, and beside floats.

    Raises:
        pa.ArrowInvalid: It cannot read them, or not without a loss.
    """
    sample = _read(documents[:_SAMPLE_ROWS], None)  # most fields show here what they are: then one reading will do
    is_all = len(sample) == len(documents)
    found = sample if is_all else _read(documents, _texts(sample.type) if _has_times(sample.type) else None)
    if _has_times(found.type):
        found = _read(documents, _texts(found.type))
    if _may_be_rounded(found):
        raise pa.ArrowInvalid("whole numbers that a float does not hold")
    return found


def _texts(kind: pa.DataType) -> pa.DataType | None:
    """The parts of a type that are text, or were taken for times, all as text; None if it has none."""
    if pa.types.is_timestamp(kind) or pa.types.is_string(kind):
        return pa.string()
    if pa.types.is_list(kind):
        items = _texts(kind.value_type)
        return None if items is None else pa.list_(items)
    if pa.types.is_struct(kind):
        fields = [(field.name, text) for field in kind if (text := _texts(field.type)) is not None]
        return pa.struct(fields) if fields else None
    return None


def _has_times(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or any(_has_times(kind.field(i).type) for i in range(kind.num_fields))


def _may_be_rounded(found: pa.Array) -> bool:
    """Whether it has floats that may have been whole numbers of more digits."""
    if pa.types.is_floating(found.type):
        return bool(pc.any(pc.greater_equal(pc.abs(found), INEXACT_FROM)).as_py())
    if pa.types.is_list(found.type):
        return _may_be_rounded(found.flatten())
    return pa.types.is_struct(found.type) and any(map(_may_be_rounded, found.flatten()))


def _read(documents: pa.BinaryArray, explicit: pa.DataType | None, *, others: str = "infer") -> pa.Array:
    """The column of them.

    Args:
        explicit: The type of what it names.
        others: What becomes of the fields that it does not name. "infer" reads them as well, so that one that breaks
            out of its value is seen; "ignore" is for what is known to be one document each.
    """
    texts = documents.cast(pa.string())  # says so if it is not UTF-8
    lines = pc.binary_join_element_wise(pa.scalar(f'{{"{_NAME}":'), texts, pa.scalar("}\n"), pa.scalar(""))
    stream = data_of(lines)
    options = pj.ReadOptions(use_threads=False, block_size=max(1, len(stream)))
    parsing = pj.ParseOptions(
        newlines_in_values=True,
        explicit_schema=None if explicit is None else pa.schema({_NAME: explicit}),
        unexpected_field_behavior=others,
    )
    table = pj.read_json(io.BytesIO(stream), read_options=options, parse_options=parsing)
    if table.num_rows != len(documents) or table.column_names != [_NAME]:
        raise pa.ArrowInvalid("a value is more than one document")
    read = table.column(0)
    read.validate()  # Arrow's reader drops what is null in a list of objects, and counts it nevertheless
    found: pa.Array = read.combine_chunks()
    return found


def _read_one_by_one(documents: pa.BinaryArray, wanted: pa.DataType | None) -> pa.Array:
    """For what Arrow's reader does not take and Python's does: NaN, maps, fields that the type leaves out and that are
    text here and numbers there. Raises what is wrong with the first one."""
    if wanted is None:
        return pa.array([json.loads(document) for document in documents.to_pylist()])
    values = [json.loads(document, parse_float=exact_number) for document in documents.to_pylist()]
    with contextlib.suppress(*_NOT_READ):
        return as_type(_read(documents, wanted, others="ignore"), wanted)
    return pa.array([fitted(value, wanted) for value in values], wanted)
