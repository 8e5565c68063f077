"""Copies fields of many records out of the buffer they lie in, each as its own `bytes`.

Slicing `bytes` makes `bytes`, and slicing anything else takes three times as long. So the stretch of a few hundred
records is copied as a whole, and cut while it lies in the processor's cache. Fields of one length are gathered by one
numpy call. Contract: fields ascend in the buffer, as records do. Called by `record_columns.py` and by the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.lazy_numpy import np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kwire.protocol.record_batch import Buffer
    from kwire.protocol.record_varints import Ints

# Up to this length equal-sized fields are copied out by one numpy call, 10 ns each instead of 110 (measured); above it
# the time goes into copying the bytes, and the intermediate copy no longer pays.
_GATHER_BELOW_BYTES = 4096
# So much at a time: the intermediate copy shall still lie in the processor's nearest cache when it is copied again.
_GATHER_BYTES = 128 * 1024
_STRETCH_BYTES = 512 * 1024
# From this size of a record on, its bytes take longer to copy than a call does.
_CUT_BELOW_BYTES = 1536
# A stretch of large records has a few at least: what is done once for each takes as long as copying some of them.
_MIN_ROWS = 8
# So few are copied one by one: asking numpy how they lie takes longer than that.
_FEW_ROWS = 16
# Longer fields are not worth the look whether all are the same.
_SAME_BELOW_BYTES = 64


class _Stretch(NamedTuple):
    """Bytes of the buffer from `start` on: a copy, or the buffer itself."""

    data: Buffer
    start: int = 0

    def cut(self, starts: Ints, lengths: Ints) -> list[bytes | None]:
        """The bytes at each start."""
        data = self.data
        firsts = starts - self.start if self.start else starts
        spans = zip(firsts.tolist(), (firsts + lengths).tolist(), strict=True)
        if not isinstance(data, bytes):
            return [bytes(data[first:end]) if end >= first else None for first, end in spans]
        if len(lengths) > _FEW_ROWS and lengths.min() >= 0:
            return [data[first:end] for first, end in spans]
        return [data[first:end] if end >= first else None for first, end in spans]


class Fields:
    """The keys, or values, of some records: at least one.

    Args:
        buffer: Where they lie.
        starts: Where each starts.
        lengths: Their lengths; a negative one is null.
        length: That of all of them; None if they differ.
    """

    def __init__(self, buffer: Buffer, starts: Ints, lengths: Ints, length: int | None) -> None:
        self.starts = starts
        self.lengths = lengths
        self._buffer = buffer
        self._length = _GATHER_BELOW_BYTES + 1 if length is None else length
        self.are_equal = self._length <= _GATHER_BELOW_BYTES

    def copy(self, rows: slice, stretch: _Stretch) -> list[bytes | None]:
        """Copies of the fields of these rows. If they have to be cut, they lie in the stretch."""
        starts = self.starts[rows]
        if not self.are_equal:
            return stretch.cut(starts, self.lengths[rows])
        if self._length > 0:
            return self._gather(starts)
        return [None if self._length < 0 else b""] * len(starts)

    def _gather(self, starts: Ints) -> list[bytes | None]:
        windows = windows_of(self._buffer, self._length)
        step = max(1, _GATHER_BYTES // self._length)
        copies: list[bytes | None] = []
        for first in range(0, len(starts), step):
            copies += windows[starts[first : first + step]].tolist()
        return copies

    def end(self, row: int) -> int:
        """Where the field of this row ends."""
        return int(self.starts[row]) + max(0, int(self.lengths[row]))


def copy_spans(buffer: Buffer, starts: Ints, lengths: Ints) -> list[bytes | None]:
    """The bytes at each start, or None where the length is negative."""
    if len(starts) <= _FEW_ROWS:
        return _Stretch(buffer).cut(starts, lengths)
    copies: list[bytes | None] = []
    for (each,) in copy_in_stretches(buffer, Fields(buffer, starts, lengths, same_number(lengths))):
        copies += each
    return copies


def span_of_all(starts: Ints, lengths: Ints) -> tuple[int, int]:
    """Where the first of these begins, and the last one ends; a length of -1 is of nothing."""
    starts, lengths = starts[lengths >= 0], lengths[lengths >= 0]
    if not len(starts):
        return 0, 0
    return int(starts.min()), int((starts + lengths).max())


def copy_in_stretches(buffer: Buffer, *fields: Fields) -> Iterator[list[list[bytes | None]]]:
    """Copies of several fields of the same records, some hundred rows at a time: of each field a list.

    What one stretch takes still lies in the cache when it is used, and is free for the next one if it is not kept.
    """
    first, last = fields[0], fields[-1]
    rows = len(first.starts)
    spread_bytes = last.end(-1) - int(first.starts[0])
    is_cut = spread_bytes <= _CUT_BELOW_BYTES * rows and not all(each.are_equal for each in fields)
    step = max(_MIN_ROWS, rows * _STRETCH_BYTES // max(_STRETCH_BYTES, spread_bytes))
    for at in range(0, rows, step):
        part = slice(at, min(at + step, rows))
        stretch = _Stretch(buffer)
        if is_cut and not isinstance(buffer, bytes):
            start = int(first.starts[at])
            stretch = _Stretch(bytes(buffer[start : last.end(part.stop - 1)]), start)
        yield [each.copy(part, stretch) for each in fields]


def same_number(numbers: NDArray[np.integer]) -> int | None:
    """The number that all of these are equal to; None if they differ. There must be one at least."""
    first = numbers[0]
    return int(first) if (numbers == first).all() else None


def same_in_all(buffer: Buffer, starts: Ints, length: int) -> bool:
    """Whether this many bytes are the same at each of these places. There is at least one."""
    if not length:
        return True
    spans = windows_of(buffer, length)[starts].tobytes()
    return spans == spans[:length] * len(starts)


def are_same(buffer: Buffer, starts: Ints, lengths: Ints) -> bool:
    """Whether all these fields are the same: header names mostly are, and some values. Long ones are not looked at."""
    length = int(lengths[0])
    if length > _SAME_BELOW_BYTES or not (lengths == length).all():
        return False
    return same_in_all(buffer, starts, max(0, length))


def windows_of(buffer: Buffer, length: int) -> NDArray[np.void]:
    """An array whose element i is the `length` bytes at i: taking the starts of spans out of it is one copy in C."""
    return np.ndarray((len(buffer) - length + 1,), dtype=f"V{length}", buffer=buffer, strides=(1,))
