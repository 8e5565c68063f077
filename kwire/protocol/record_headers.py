"""Record headers (KIP-82), checked and located for all records at once.

Contract: what comes back lies inside its record and ends exactly with it. All records' first headers are read in one
go, then all second ones, and so on; when few records are left with more, a plain loop finishes them. Called by
`record_fields.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kwire.lazy_numpy import np
from kwire.protocol.record_copies import same_in_all
from kwire.protocol.record_varints import DamagedRecordError, Ints, Octets, read_varint, read_varints, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.protocol.record_batch import Buffer

# Below this many records a round of numpy calls costs more than looping.
_LOOP_BELOW_RECORDS = 40

# Headers that are longer are not compared with each other.
_MAX_ALIKE_BYTES = 1024

MAX_HEADERS = 1_000_000
"""The most that one record may have: as many elements as Kafka's readers take of any array."""

# This many are read before they become columns: as Python's numbers they take five times the memory.
_READ_AT_ONCE = 4096


HeaderSpan: TypeAlias = tuple[int, int, int, int]
"""Where a header's key starts, its length, and the same of its value; a null value has length -1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeaderColumns:
    """All headers of some records, in order: row r has `first[r]` to `first[r + 1]`. A null value has length -1."""

    first: Ints
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints

    def slice(self, start: int, stop: int) -> HeaderColumns:
        """The headers of rows `start` to `stop`; the header arrays are shared."""
        return HeaderColumns(
            first=self.first[start : stop + 1],
            key_starts=self.key_starts,
            key_lengths=self.key_lengths,
            value_starts=self.value_starts,
            value_lengths=self.value_lengths,
        )


def columns_of_spans(first: Ints, spans: Ints) -> HeaderColumns:
    """Columns of an array with four rows: key starts, key lengths, value starts, value lengths."""
    key_starts, key_lengths, value_starts, value_lengths = spans
    return HeaderColumns(
        first=first,
        key_starts=key_starts,
        key_lengths=key_lengths,
        value_starts=value_starts,
        value_lengths=value_lengths,
    )


def no_headers(rows: int) -> HeaderColumns:
    """The columns of `rows` records without headers."""
    nothing = np.empty(0, dtype=np.int64)
    return HeaderColumns(
        first=np.zeros(rows + 1, dtype=np.int64),
        key_starts=nothing,
        key_lengths=nothing,
        value_starts=nothing,
        value_lengths=nothing,
    )


def join_headers(parts: Sequence[HeaderColumns], shifts: Sequence[int]) -> HeaderColumns:
    """The headers of all parts, in order, whose buffers move by `shifts` bytes."""
    firsts = [np.zeros(1, dtype=np.int64)]
    for part in parts:
        firsts.append(part.first[1:] - part.first[0] + firsts[-1][-1])
    used = [(part, slice(int(part.first[0]), int(part.first[-1])), by) for part, by in zip(parts, shifts, strict=True)]
    return HeaderColumns(
        first=np.concatenate(firsts),
        key_starts=np.concatenate([part.key_starts[rows] + by for part, rows, by in used]),
        key_lengths=np.concatenate([part.key_lengths[rows] for part, rows, _ in used]),
        value_starts=np.concatenate([part.value_starts[rows] + by for part, rows, by in used]),
        value_lengths=np.concatenate([part.value_lengths[rows] for part, rows, _ in used]),
    )


def read_headers(buffer: Buffer, data: Octets, at: Ints, ends: Ints) -> HeaderColumns | None:
    """Read the header counts at `at` and the headers behind them; None when no record has any."""
    require(at < ends, "it ends inside a field")
    if not data[at].any():
        require(at + 1 == ends, "bytes remain behind its headers")
        return None
    alike = _headers_alike(buffer, at, ends)
    if alike is not None:
        return alike
    counts, places = read_varints(data, at, ends)
    require(counts >= 0, "a negative number of headers")
    # A header has a key length and a value length, one byte each at least; so the arrays below stay in bounds.
    require(counts * 2 <= ends - places, "more headers than it has room for")
    require(counts <= MAX_HEADERS, f"more than {MAX_HEADERS} headers")
    first = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
    walk = _Walk(buffer, data, ends, first)
    walk.run(places, counts)
    return walk.columns()


def _headers_alike(buffer: Buffer, at: Ints, ends: Ints) -> HeaderColumns | None:
    """The headers of many records, if all have the same keys as the first one, and values of the same lengths.

    Those that frameworks write do, as a rule. Then the headers of one record are read, and the bytes between their
    values are compared in all others: two passes, however many headers there are. None: they differ, or are damaged.
    """
    start, size = int(at[0]), int(ends[0] - at[0])
    if len(at) < _LOOP_BELOW_RECORDS or size > _MAX_ALIKE_BYTES or not (ends - at == size).all():
        return None
    try:
        spans = read_all_headers(buffer, start, start + size)
    except ValueError:
        return None
    place = start
    for _, _, value_start, value_length in [*spans, (0, 0, start + size, 0)]:
        # The bytes in front of a value are the key, its length, and the value's length.
        if not same_in_all(buffer, at + (place - start), value_start - place):
            return None
        place = value_start + max(0, value_length)
    key_starts, key_lengths, value_starts, value_lengths = np.array(spans, dtype=np.int64).reshape(-1, 4).T
    shifts = (at - start)[:, np.newaxis]
    return HeaderColumns(
        first=np.arange(len(at) + 1) * len(spans),
        key_starts=(shifts + key_starts).ravel(),
        key_lengths=np.tile(key_lengths, len(at)),
        value_starts=(shifts + value_starts).ravel(),
        value_lengths=np.tile(value_lengths, len(at)),
    )


def read_all_headers(buffer: Buffer, at: int, end: int) -> list[HeaderSpan]:
    """The spans of one record's headers, which end where it does.

    Raises:
        ValueError: They do not.
    """
    count, at = read_varint(buffer, at, end)
    if not 0 <= count * 2 <= end - at:
        raise ValueError("an impossible number of headers")
    spans: list[HeaderSpan] = []
    for _ in range(count):
        span, at = _read_header(buffer, at, end)
        spans.append(span)
    if at != end:
        raise ValueError("its headers do not end where it does")
    return spans


class _Walk:
    """Reads the headers of all records into columns."""

    def __init__(self, buffer: Buffer, data: Octets, ends: Ints, first: Ints) -> None:
        self._buffer = buffer
        self._data = data
        self._ends = ends
        self._first = first
        self._spans = np.empty((4, int(first[-1])), dtype=np.int64)

    def columns(self) -> HeaderColumns:
        return columns_of_spans(self._first, self._spans)

    def run(self, places: Ints, counts: Ints) -> None:
        """Walk all headers; `places` moves along and must arrive at the records' ends."""
        nth = 0
        rows = np.flatnonzero(counts > 0)
        while rows.size >= _LOOP_BELOW_RECORDS:
            places[rows] = self._round(rows, places[rows], nth)
            nth += 1
            rows = rows[counts[rows] > nth]
        for row in rows.tolist():
            places[row] = self._rest(row, int(places[row]), nth)
        require(places == self._ends, "its headers do not end where it does")

    def _round(self, rows: Ints, at: Ints, nth: int) -> Ints:
        """The nth header of each of `rows`."""
        ends = self._ends[rows]
        key_lengths, key_starts = read_varints(self._data, at, ends, rows=rows)
        require(key_lengths >= 0, "a header without a key", rows)
        value_lengths, value_starts = read_varints(self._data, key_starts + key_lengths, ends, rows=rows)
        self._spans[:, self._first[rows] + nth] = key_starts, key_lengths, value_starts, np.maximum(value_lengths, -1)
        after: Ints = value_starts + np.maximum(value_lengths, 0)
        require(after <= ends, "a header value longer than what is left", rows)
        return after

    def _rest(self, row: int, at: int, nth: int) -> int:
        """The nth and all later headers of one row."""
        end = int(self._ends[row])
        first, behind = int(self._first[row]) + nth, int(self._first[row + 1])
        try:
            for place in range(first, behind, _READ_AT_ONCE):
                spans: list[HeaderSpan] = []
                for _ in range(min(_READ_AT_ONCE, behind - place)):
                    span, at = _read_header(self._buffer, at, end)
                    spans.append(span)
                self._spans[:, place : place + len(spans)] = np.array(spans, dtype=np.int64).T
        except ValueError as error:
            raise DamagedRecordError(row, str(error)) from error
        return at


def _read_header(buffer: Buffer, at: int, end: int) -> tuple[HeaderSpan, int]:
    """One header's span and the place behind it."""
    key_length, key_start = read_varint(buffer, at, end)
    if key_length < 0:
        raise ValueError("a header without a key")
    value_length, value_start = read_varint(buffer, key_start + key_length, end)
    at = value_start + max(value_length, 0)
    if at > end:
        raise ValueError("a header value longer than what is left")
    return (key_start, key_length, value_start, max(value_length, -1)), at
