"""Records as columns: what decoding makes and what everything above works on.

Contract: immutable; keys, values and headers stay places in one buffer until asked for, a slice shares all arrays.
Made by `record_decoding.py`, `record_packed.py`, `record_few.py` and `records_legacy.py`, used by `kwire.fetching`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, fields, replace
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakKeyDictionary

from kwire.lazy_numpy import np
from kwire.model import Header
from kwire.protocol.record_copies import Fields, are_same, copy_in_stretches, copy_spans, same_number, span_of_all
from kwire.protocol.record_headers import HeaderColumns, HeaderSpan, join_headers, no_headers
from kwire.protocol.text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from kwire.protocol.record_batch import Buffer
    from kwire.protocol.record_varints import Ints

# From this many headers of each record on, numpy's calls for each take longer than what they save.
_MANY_HEADERS = 16


class Constants(NamedTuple):
    """What is the same in all rows; None where it is not."""

    timestamp_type: int | None
    leader_epoch: int | None
    key_length: int | None
    value_length: int | None


class Row(NamedTuple):
    """What `RecordColumns` says of one record; its headers are none of the columns."""

    offset: int
    timestamp: int
    timestamp_type: int
    leader_epoch: int
    key_start: int
    key_length: int
    value_start: int
    value_length: int
    headers: Sequence[HeaderSpan] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class RecordColumns:
    """Records in offset order, as arrays of one length.

    `timestamp_types` holds the values of `TimestampType`, `leader_epochs` -1 where there is none; a length of -1 is
    a null key or value. `headers_at` is None when no record has headers. A slice says what it is `part_of`, and from
    which row on.
    """

    buffer: Buffer
    offsets: Ints
    timestamps: Ints
    timestamp_types: NDArray[np.int8]
    leader_epochs: NDArray[np.int32]
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints
    headers_at: HeaderColumns | None = None
    part_of: tuple[RecordColumns, int] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def __copy__(self) -> RecordColumns:
        """The same object: it never changes, and may have arrays that are not made yet."""
        return self

    def __deepcopy__(self, _memo: object) -> RecordColumns:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """For another process: with the bytes of these rows only, of a buffer that may have many more."""
        headers = None if self.headers_at is None else join_headers([self.headers_at], [0])
        places = [(self.key_starts, self.key_lengths), (self.value_starts, self.value_lengths)]
        if headers is not None:
            places += [(headers.key_starts, headers.key_lengths), (headers.value_starts, headers.value_lengths)]
        start, stop = span_of_all(*map(np.concatenate, zip(*places, strict=True)))
        arrays = {name: getattr(self, name) for name in _ARRAYS} | _moved(self, start, stop)
        if headers is not None:
            headers = replace(headers, **_moved(headers, start, stop))
        return _unpickled, (bytes(self.buffer[start:stop]), headers, arrays)

    @property
    def few_rows(self) -> Sequence[Row] | None:
        """The records, where they are so few that they were read as rows."""
        return None

    def offset_at(self, row: int) -> int:
        """The offset of the record in this row."""
        return self.offsets.item(row)

    def epoch_at(self, row: int) -> int:
        """The leader epoch of the record in this row."""
        return self.leader_epochs.item(row)

    @property
    def first_offset(self) -> int:
        """The offset of the first record. There must be one."""
        return self.offset_at(0)

    @property
    def last_position(self) -> tuple[int, int]:
        """Offset and leader epoch of the last record. There must be one."""
        last = len(self) - 1
        return self.offset_at(last), self.epoch_at(last)

    def row_of(self, offset: int) -> int:
        """The first row with this offset, or a greater one; as many rows as there are if none has."""
        if len(self):
            row = offset - self.first_offset  # as a rule no offset is missing in front of it
            if 0 <= row < len(self) and self.offset_at(row) == offset:
                return row
        return bisect_left(range(len(self)), offset, key=self.offset_at)

    def offset_list(self, start: int = 0, stop: int | None = None) -> list[int]:
        """The offsets of these rows."""
        return cast("list[int]", self.offsets[start:stop].tolist())

    def epoch_list(self, start: int = 0, stop: int | None = None) -> list[int]:
        """The leader epochs of these rows."""
        return cast("list[int]", self.leader_epochs[start:stop].tolist())

    def rows_in_order(self) -> int:
        """How many of the first rows have offsets that ascend: all, unless a broker is broken."""
        backwards = self.offsets[1:] <= self.offsets[:-1]
        return int(backwards.argmax()) + 1 if backwards.any() else len(self)

    def slice(self, start: int, stop: int) -> RecordColumns:
        """Rows `start` to `stop`, as views. The bounds work as in `list[start:stop]`."""
        count = len(self)
        if start == 0 and stop >= count:
            return self
        start, stop, _ = slice(start, stop).indices(count)
        return self.part(start, max(0, stop - start))

    def part(self, start: int, count: int) -> RecordColumns:
        """As `slice`, of rows that must be there."""
        part_of = self.part_of
        return _Slice(self, start, count) if part_of is None else _Slice(part_of[0], part_of[1] + start, count)

    def constants(self) -> Constants:
        """What is the same in all rows, or in all of the columns that these are part of. There must be rows.

        Asking numpy costs as much as ten rows do, so it is asked once for all slices.
        """
        whole = self if self.part_of is None else self.part_of[0]
        found = _constants.get(whole)
        if found is None:
            found = _constants[whole] = Constants(
                timestamp_type=same_number(whole.timestamp_types),
                leader_epoch=same_number(whole.leader_epochs),
                key_length=same_number(whole.key_lengths),
                value_length=same_number(whole.value_lengths),
            )
        return found

    def arrays(self) -> tuple[Buffer | NDArray[np.integer], ...]:
        """The buffer and all columns, those of headers last, as `kwire/_speedups.c` takes them."""
        at = self.headers_at
        headers = () if at is None else (at.first, at.key_starts, at.key_lengths, at.value_starts, at.value_lengths)
        return (
            self.buffer,
            self.offsets,
            self.timestamps,
            self.timestamp_types,
            self.leader_epochs,
            self.key_starts,
            self.key_lengths,
            self.value_starts,
            self.value_lengths,
            *headers,
        )

    def keys(self, start: int = 0, stop: int | None = None) -> list[bytes | None]:
        """The keys of these rows, each as its own bytes object."""
        return copy_spans(self.buffer, self.key_starts[start:stop], self.key_lengths[start:stop])

    def values(self, start: int = 0, stop: int | None = None) -> list[bytes | None]:
        """The values of these rows, each as its own bytes object."""
        return copy_spans(self.buffer, self.value_starts[start:stop], self.value_lengths[start:stop])

    def keys_and_values(self) -> Iterator[list[list[bytes | None]]]:
        """Both, some hundred rows at a time. There must be rows."""
        same = self.constants()
        keys = Fields(self.buffer, self.key_starts, self.key_lengths, same.key_length)
        values = Fields(self.buffer, self.value_starts, self.value_lengths, same.value_length)
        return copy_in_stretches(self.buffer, keys, values)

    def size_bytes(self, start: int = 0, stop: int | None = None) -> int:
        """The lengths of the keys and values of these rows together; that of a null is -1."""
        return int(self.key_lengths[start:stop].sum()) + int(self.value_lengths[start:stop].sum())

    def header_counts(self) -> Ints:
        """How many headers each record has."""
        if self.headers_at is None:
            return np.zeros(len(self), dtype=np.int64)
        return np.diff(self.headers_at.first)

    def headers(self) -> list[tuple[Header, ...]]:
        """Every record's headers. Records without any share one empty tuple.

        Header keys are UTF-8; what is not becomes U+FFFD, as in Java.
        """
        at = self.headers_at
        if at is None or at.first[0] == at.first[-1]:
            return [()] * len(self)
        first, behind = int(at.first[0]), int(at.first[-1])
        counts = self.header_counts()
        each = int(counts[0])
        if each <= _MANY_HEADERS and (counts == each).all():
            # As a rule the nth header of all records has the same key, and often the same length: column by column.
            return list(zip(*(self._headers(at, first + nth, behind, each) for nth in range(each)), strict=True))
        headers = tuple(self._headers(at, first, behind))
        edges: list[int] = (at.first - first).tolist()
        return [headers[start:stop] for start, stop in pairwise(edges)]

    def _headers(self, at: HeaderColumns, start: int, stop: int, step: int = 1) -> Iterable[Header]:
        """Each `step`th header, one after the other."""
        chosen = slice(start, stop, step)
        names = self._header_names(at.key_starts[chosen], at.key_lengths[chosen])
        starts, lengths = at.value_starts[chosen], at.value_lengths[chosen]
        if not isinstance(names, list) and are_same(self.buffer, starts, lengths):
            (value,) = copy_spans(self.buffer, starts[:1], lengths[:1])
            return repeat(Header(next(names), value), len(starts))
        values = copy_spans(self.buffer, starts, lengths)
        return cast("Iterator[Header]", map(tuple.__new__, repeat(Header), zip(names, values, strict=False)))

    def _header_names(self, starts: Ints, lengths: Ints) -> list[str] | repeat[str]:
        """A topic has few, and often one."""
        if are_same(self.buffer, starts, lengths):
            return repeat(_text(copy_spans(self.buffer, starts[:1], lengths[:1])[0]))
        raw = copy_spans(self.buffer, starts, lengths)
        texts = {name: _text(name) for name in set(raw)}
        return list(map(texts.__getitem__, raw))


class _Slice(RecordColumns):
    """Some of the rows of others. Each array is a view of theirs, made when somebody asks for it: of a small poll most
    are never asked for, and eight views take longer than all the rest of it."""

    __slots__ = ("_count",)

    _count: int

    def __init__(self, whole: RecordColumns, start: int, count: int) -> None:
        _set(self, "buffer", whole.buffer)
        _set(self, "part_of", (whole, start))
        _set(self, "_count", count)

    def __getattr__(self, name: str) -> object:
        """Make a view that nobody has asked for yet."""
        if name not in _VIEWS:
            raise AttributeError(name)
        whole, start = self._place
        stop = start + self._count
        if name == "headers_at":
            view = None if whole.headers_at is None else whole.headers_at.slice(start, stop)
        else:
            view = getattr(whole, name)[start:stop]
        _set(self, name, view)
        return view

    @property
    def _place(self) -> tuple[RecordColumns, int]:
        assert self.part_of is not None
        return self.part_of

    def __len__(self) -> int:
        return self._count

    def offset_at(self, row: int) -> int:
        whole, start = self._place
        return whole.offset_at(start + row)

    def epoch_at(self, row: int) -> int:
        whole, start = self._place
        return whole.epoch_at(start + row)

    def offset_list(self, start: int = 0, stop: int | None = None) -> list[int]:
        return self._place[0].offset_list(*self._rows(start, stop))

    def epoch_list(self, start: int = 0, stop: int | None = None) -> list[int]:
        return self._place[0].epoch_list(*self._rows(start, stop))

    def size_bytes(self, start: int = 0, stop: int | None = None) -> int:
        return self._place[0].size_bytes(*self._rows(start, stop))

    def keys(self, start: int = 0, stop: int | None = None) -> list[bytes | None]:
        return self._place[0].keys(*self._rows(start, stop))

    def values(self, start: int = 0, stop: int | None = None) -> list[bytes | None]:
        return self._place[0].values(*self._rows(start, stop))

    def _rows(self, start: int, stop: int | None) -> tuple[int, int]:
        """Which rows of the whole these are."""
        chosen = range(self._count)[start:stop]
        at = self._place[1]
        return at + chosen.start, at + chosen.stop


def _moved(columns: RecordColumns | HeaderColumns, start: int, stop: int) -> dict[str, Ints]:
    """Where keys and values start in the part of the buffer from `start` to `stop`. A null's may lie anywhere."""
    places = {"key_starts": columns.key_starts, "value_starts": columns.value_starts}
    return {name: np.clip(starts - start, 0, stop - start) for name, starts in places.items()}


def _unpickled(buffer: bytes, headers: HeaderColumns | None, arrays: dict[str, Any]) -> RecordColumns:
    return RecordColumns(buffer=buffer, headers_at=headers, **arrays)


_set = object.__setattr__
_VIEWS = {each.name for each in fields(RecordColumns)} - {"buffer", "part_of"}
_ARRAYS = sorted(_VIEWS - {"headers_at"})

# By the columns that slices are part of, for as long as any of those is in use.
_constants: WeakKeyDictionary[RecordColumns, Constants] = WeakKeyDictionary()


def _text(name: bytes | None) -> str:
    return text_of(name or b"")


def join_columns(parts: Sequence[RecordColumns]) -> RecordColumns:
    """One RecordColumns of several, in order; the buffers are copied into one, unless all have the same."""
    if len(parts) == 1:
        return parts[0]
    buffer, shifts = _one_buffer([part.buffer for part in parts])
    headers = None
    if any(part.headers_at is not None for part in parts):
        headers = join_headers([part.headers_at or no_headers(len(part)) for part in parts], shifts)
    return RecordColumns(
        buffer=buffer,
        offsets=np.concatenate([part.offsets for part in parts]),
        timestamps=np.concatenate([part.timestamps for part in parts]),
        timestamp_types=np.concatenate([part.timestamp_types for part in parts]),
        leader_epochs=np.concatenate([part.leader_epochs for part in parts]),
        key_starts=np.concatenate([part.key_starts + shift for part, shift in zip(parts, shifts, strict=True)]),
        key_lengths=np.concatenate([part.key_lengths for part in parts]),
        value_starts=np.concatenate([part.value_starts + shift for part, shift in zip(parts, shifts, strict=True)]),
        value_lengths=np.concatenate([part.value_lengths for part in parts]),
        headers_at=headers,
    )


def _one_buffer(buffers: Sequence[Buffer]) -> tuple[Buffer, list[int]]:
    """All bytes, and where those of each begin."""
    if all(buffer is buffers[0] for buffer in buffers):
        return buffers[0], [0] * len(buffers)
    return b"".join(buffers), list(accumulate(map(len, buffers[:-1]), initial=0))
