"""JSON to an Arrow column, read by Arrow in one go."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kwire.deserializers.arrow_columns import data_of

_NAME = "value"


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
        found = _read(there, wanted)
    except pa.ArrowInvalid:
        found = _read_one_by_one(there, wanted)
    if not column.null_count:
        return found
    rows = np.cumsum(np.asarray(column.is_valid())) - 1
    return found.take(pa.array(rows, pa.int64(), mask=np.asarray(column.is_null())))


def _read(documents: pa.BinaryArray, wanted: pa.DataType | None) -> pa.Array:
    """Reads the fields that the type leaves out as well, so that one that breaks out of its value is seen."""
    texts = documents.cast(pa.string())  # says so if it is not UTF-8
    lines = pc.binary_join_element_wise(pa.scalar(f'{{"{_NAME}":'), texts, pa.scalar("}\n"), pa.scalar(""))
    stream = data_of(lines)
    options = pj.ReadOptions(use_threads=False, block_size=max(1, len(stream)))
    parsing = pj.ParseOptions(
        newlines_in_values=True,
        explicit_schema=None if wanted is None else pa.schema({_NAME: wanted}),
        unexpected_field_behavior="infer",
    )
    table = pj.read_json(io.BytesIO(stream), read_options=options, parse_options=parsing)
    if table.num_rows != len(documents) or table.column_names != [_NAME]:
        raise pa.ArrowInvalid("a value is more than one document")
    found: pa.Array = table.column(0).combine_chunks()
    return found if wanted is None else found.cast(wanted)


def _read_one_by_one(documents: pa.BinaryArray, wanted: pa.DataType | None) -> pa.Array:
    """For what Arrow's reader does not take and Python's does: NaN, say. Raises what is wrong with the first one."""
    return pa.array([json.loads(document) for document in documents.to_pylist()], wanted)
