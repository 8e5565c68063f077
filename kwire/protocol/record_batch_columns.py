"""Headers of many batches, kept as columns.

A producer that does not wait writes a batch for each record. Reading a header in Python takes longer than decoding a
record of a large batch, so numpy reads many headers at once, and a `Batch` is made only on demand.

Contract: `read_batches` returns the batches and the error of `iter_batches`. `column` returns one field of all headers,
from a list of batches or from `BatchColumns`. Called by `fetching/` and `record_decoding.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from kwire.errors import CorruptRecordError
from kwire.protocol.record_batch import (
    CONTROL_BIT,
    MIN_LENGTH_BYTES,
    Batch,
    Buffer,
    find_batches,
    iter_batches,
    size_of_first,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kwire.protocol.record_varints import Ints

MANY_BATCHES = 48
"""From this number of batches on, columns take less time than a loop in Python (measured)."""

# The fields of a `Batch` behind `data` and `position`.
_NUMPY_TYPES = dict.fromkeys(Batch._fields[2:], ">i4") | {
    "base_offset": ">i8",
    "magic": "i1",
    "crc": ">u4",
    "attributes": ">i2",
    "base_timestamp": ">i8",
    "max_timestamp": ">i8",
    "producer_id": ">i8",
    "producer_epoch": ">i2",
}
_HEADER = np.dtype(list(_NUMPY_TYPES.items()))
# Of an offset that a batch begins with: what is added must not leave 64 bits.
_GREATEST_OFFSET = 2**62


class BatchColumns(Sequence[Batch]):
    """Batches of magic 2 in one buffer.

    Args:
        data: The record set.
        positions: Where each of them begins.
        headers: What the header of each says, field by field.
    """

    __slots__ = ("_headers", "data", "positions")

    def __init__(self, data: Buffer, positions: Ints, headers: NDArray[np.void]) -> None:
        self.data = data
        self.positions = positions
        self._headers = headers

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> BatchColumns: ...
    def __getitem__(self, index: int | slice) -> Batch | BatchColumns:
        if isinstance(index, slice):
            return self.where(index)
        return Batch(self.data, int(self.positions[index]), *self._headers[index].item())

    def where(self, chosen: slice | NDArray[np.bool_] | Ints) -> BatchColumns:
        """The chosen ones of these batches."""
        return BatchColumns(self.data, self.positions[chosen], self._headers[chosen])

    def column(self, field: str) -> Ints:
        """A field of all headers."""
        return self._headers[field].astype(np.int64)


def read_batches(data: Buffer, *, check_crcs: bool) -> tuple[Sequence[Batch], CorruptRecordError | None]:
    """All whole, sound batches of a record set, and the damage behind them, if any.

    Args:
        data: The record set; it may end in the middle of a batch.
        check_crcs: Whether to verify the checksums.
    """
    columns = _columns(data, check_crcs) if len(data) >= MANY_BATCHES * size_of_first(data) else None
    start = columns[-1].end if columns else 0
    behind: list[Batch] = []
    error = None
    try:
        # One by one: what lies in front of a damaged one is good.
        for batch in iter_batches(data, check_crcs=check_crcs, start=start):
            behind.append(batch)  # noqa: PERF402  what was appended stays, though the next one raises
    except CorruptRecordError as damage:
        error = damage
    if not columns:
        return behind, error
    # Another format, which a log keeps from the time before: those are few, and read one by one.
    return [*columns, *behind] if behind else columns, error


def _columns(data: Buffer, check_crcs: bool) -> BatchColumns | None:
    """The sound batches of magic 2 at the start. None: there is none, or an offset is too great to be added to."""
    positions = np.asarray(find_batches(data, check_crcs=check_crcs), dtype=np.int64)
    if not len(positions):
        return None
    # An array with a header at each byte, of which those at `positions` are real.
    everywhere = np.ndarray(len(data) - _HEADER.itemsize + 1, _HEADER, data, strides=(1,))
    columns = BatchColumns(data, positions, everywhere[positions])
    return columns if int(columns.column("base_offset").max()) <= _GREATEST_OFFSET else None


def column(batches: Sequence[Batch], field: str) -> Ints:
    """A field of all these batches, named as in `Batch`."""
    if isinstance(batches, BatchColumns):
        return batches.positions if field == "position" else batches.column(field)
    return np.array([getattr(batch, field) for batch in batches], dtype=np.int64)


def without_control_batches(batches: Sequence[Batch]) -> Sequence[Batch]:
    """The batches that hold records of producers."""
    if isinstance(batches, BatchColumns):
        has_records = batches.column("attributes") & CONTROL_BIT == 0
        return batches if has_records.all() else batches.where(has_records)
    return [batch for batch in batches if not batch.attributes & CONTROL_BIT]


def choose(batches: Sequence[Batch], indices: Sequence[int]) -> Sequence[Batch]:
    """The batches at these indices."""
    if isinstance(batches, BatchColumns):
        return batches.where(np.array(indices, dtype=np.int64))
    return [batches[index] for index in indices]


def total(batches: Sequence[Batch], field: str) -> int:
    """A field of all these batches together."""
    if isinstance(batches, BatchColumns):
        return int(batches.column(field).sum())
    return sum([getattr(batch, field) for batch in batches])


def payload_bytes(batches: Sequence[Batch]) -> int:
    """What they take without their headers."""
    return total(batches, "length_bytes") - len(batches) * MIN_LENGTH_BYTES


def are_of_one_buffer(batches: Sequence[Batch]) -> bool:
    """Whether all of them lie in the same bytes."""
    if isinstance(batches, BatchColumns):
        return True
    data = batches[0].data
    return all(batch.data is data for batch in batches)
