"""Headers of many batches, kept as columns.

A producer that does not wait writes a batch for each record. Reading a header in Python takes longer than decoding a
record of a large batch, so the module in C, or numpy, reads many headers at once, and a `Batch` is made only on demand.

Contract: `read_batches` returns the batches and the error of `iter_batches`. `column` and `numbers_of` return one field
of all headers, from a list of batches or from `BatchColumns`. Called by `fetching/` and `record_decoding.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from kwire import speedups
from kwire.errors import CorruptRecordError
from kwire.lazy_numpy import np
from kwire.protocol.record_batch import (
    BATCH_NUMBERS,
    CONTROL_BIT,
    MIN_LENGTH_BYTES,
    Batch,
    Buffer,
    find_batches,
    iter_batches,
    read_batches_in_c,
    size_of_first,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.protocol.record_varints import Ints

MANY_BATCHES = 48 if speedups.module is None else 4
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
# Where a field is among the numbers of a batch.
_NUMBERS = {field: nth for nth, field in enumerate(Batch._fields[1:])}
# Of an offset that a batch begins with: what is added must not leave 64 bits.
_GREAT_OFFSET_BIT = 1 << 62


class BatchColumns(Sequence[Batch]):
    """Batches of magic 2 in one buffer.

    Args:
        data: The record set.
        numbers: int64, `BATCH_NUMBERS` of each batch, one batch after the other: what a `Batch` has behind `data`.
    """

    __slots__ = ("data", "numbers")

    def __init__(self, data: Buffer, numbers: memoryview) -> None:
        self.data = data
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers) // BATCH_NUMBERS

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> BatchColumns: ...
    def __getitem__(self, index: int | slice) -> Batch | BatchColumns:
        chosen = range(len(self))[index]
        if isinstance(chosen, int):
            return Batch(self.data, *self._numbers_of(chosen))
        if chosen.step == 1:
            return BatchColumns(self.data, self.numbers[chosen.start * BATCH_NUMBERS : chosen.stop * BATCH_NUMBERS])
        return self.where(chosen)

    def where(self, chosen: Iterable[int]) -> BatchColumns:
        """The batches at these indices."""
        return BatchColumns(self.data, memoryview(b"".join(map(self._numbers_of, chosen))).cast("q"))

    def _numbers_of(self, index: int) -> memoryview:
        return self.numbers[index * BATCH_NUMBERS : (index + 1) * BATCH_NUMBERS]

    def each(self, field: str) -> memoryview:
        """A number of all batches, named as in `Batch`."""
        return self.numbers[_NUMBERS[field] :: BATCH_NUMBERS]

    def column(self, field: str) -> Ints:
        """The same for numpy."""
        return np.frombuffer(self.numbers, dtype=np.int64)[_NUMBERS[field] :: BATCH_NUMBERS]

    def sum_and_union(self, field: str) -> tuple[int, int]:
        """The sum of a number of all batches, and the bits that are set in any of them."""
        if speedups.module is not None:
            found: tuple[int, int] = speedups.module.sum_and_union(self.numbers, _NUMBERS[field], BATCH_NUMBERS)
            return found
        column = self.column(field)
        return int(column.sum()), int(np.bitwise_or.reduce(column))


def in_columns(batches: Sequence[Batch]) -> BatchColumns | None:
    """The same batches as columns. None: there are none, or not all are of magic 2 and lie in the same bytes."""
    if isinstance(batches, BatchColumns):
        return batches
    if not batches or not are_of_one_buffer(batches) or any(batch.magic != 2 for batch in batches):
        return None
    numbers = array("q", [number for batch in batches for number in batch[1:]])
    return BatchColumns(batches[0].data, memoryview(numbers))


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
    if speedups.module is not None:
        columns = BatchColumns(data, read_batches_in_c(speedups.module, data, check_crcs=check_crcs))
    else:
        columns = _columns_with_numpy(data, check_crcs)
    _, bits = columns.sum_and_union("base_offset")
    return columns if len(columns) and not bits & _GREAT_OFFSET_BIT else None


def _columns_with_numpy(data: Buffer, check_crcs: bool) -> BatchColumns:
    positions = np.asarray(find_batches(data, check_crcs=check_crcs), dtype=np.int64)
    if not len(positions):
        return BatchColumns(data, memoryview(b"").cast("q"))
    header = np.dtype(list(_NUMPY_TYPES.items()))
    # An array with a header at each byte, of which those at `positions` are real.
    headers = np.ndarray(len(data) - header.itemsize + 1, header, data, strides=(1,))[positions]
    numbers = np.array([positions, *(headers[field].astype(np.int64) for field in _NUMPY_TYPES)], dtype=np.int64)
    return BatchColumns(data, memoryview(numbers.T.tobytes()).cast("q"))


def column(batches: Sequence[Batch], field: str) -> Ints:
    """A field of all these batches, named as in `Batch`."""
    if isinstance(batches, BatchColumns):
        return batches.column(field)
    return np.array(numbers_of(batches, field), dtype=np.int64)


def numbers_of(batches: Sequence[Batch], field: str) -> Sequence[int]:
    """The same, for who needs no array."""
    return batches.each(field) if isinstance(batches, BatchColumns) else [getattr(batch, field) for batch in batches]


def without_control_batches(batches: Sequence[Batch]) -> Sequence[Batch]:
    """The batches that hold records of producers."""
    if isinstance(batches, BatchColumns):
        if not batches.sum_and_union("attributes")[1] & CONTROL_BIT:
            return batches
        attributes = enumerate(batches.each("attributes"))
        return batches.where(index for index, bits in attributes if not bits & CONTROL_BIT)
    return [batch for batch in batches if not batch.attributes & CONTROL_BIT]


def choose(batches: Sequence[Batch], indices: Sequence[int]) -> Sequence[Batch]:
    """The batches at these indices."""
    return batches.where(indices) if isinstance(batches, BatchColumns) else [batches[index] for index in indices]


def total(batches: Sequence[Batch], field: str) -> int:
    """A field of all these batches together."""
    if isinstance(batches, BatchColumns):
        return batches.sum_and_union(field)[0]
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
