"""Binary Arrow columns to columns of numbers, and what else deserializers need of Arrow. The only ones that load it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numbers(column: pa.BinaryArray, form: str) -> pa.Array:
    """The numbers in a column, each as long as `form` says (a letter of numpy's and struct's), big-endian.

    Raises:
        ValueError: One has another length.
    """
    kind = np.dtype(form)
    starts = offsets_of(column)
    is_there = np.asarray(column.is_valid())
    if (np.diff(starts)[is_there] != kind.itemsize).any():
        raise ValueError(f"not all are {kind.itemsize} bytes long")
    found = np.frombuffer(data_of(column), kind.newbyteorder(">")).astype(kind)
    if not column.null_count:
        return pa.Array.from_buffers(pa.from_numpy_dtype(kind), len(column), [None, pa.py_buffer(found)])
    spread = np.zeros(len(column), kind)
    spread[is_there] = found
    validity = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(kind), len(column), [validity, pa.py_buffer(spread)])


def offsets_of(column: pa.BinaryArray) -> NDArray[np.int32]:
    """Where each value begins in the column's memory, and behind the last one where it ends."""
    _, offsets, _ = column.buffers()
    return np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]


def data_of(column: pa.BinaryArray) -> memoryview:
    """The bytes of all values, one behind the other. A null has none: Arrow's `take` makes such columns."""
    _, _, data = column.buffers()
    starts = offsets_of(column)
    return memoryview(b"") if data is None else memoryview(data)[int(starts[0]) : int(starts[-1])]


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array, cast only if it has another type. A cast of a list of structs that have a field of nulls makes an
    invalid array, also to its own type (pyarrow up to 26 at least)."""
    return array if array.type == kind else array.cast(kind)


def without_front(column: pa.BinaryArray, front_bytes: int) -> pa.BinaryArray:
    """Each value without its first bytes; those are there."""
    import pyarrow.compute as pc

    # With an end: without one pyarrow (up to 26 at least) takes the sizes of many columns for negative.
    return pc.binary_slice(column, front_bytes, 2**31 - 1)
