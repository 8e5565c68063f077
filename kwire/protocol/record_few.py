"""Few records: what a consumer that keeps up gets, one answer after the other with a record or two.

Two dozen calls of numpy cost the same for one record as for thousands, which is most of what such a record takes from
the socket to the application. So few records are read in Python, as rows, and become arrays when somebody asks for
columns. Contract: returns exactly what the decoding of many would, or None where a record is not of the ordinary kind
(damage, above all). Then `record_decoding.py`, which calls this, decodes it as it does many: that knows all cases, and
names what is wrong.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from kwire.lazy_numpy import np
from kwire.model import Header
from kwire.protocol.record_columns import RecordColumns, Row
from kwire.protocol.record_headers import HeaderColumns, HeaderSpan, columns_of_spans, read_all_headers
from kwire.protocol.text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kwire.protocol.record_batch import Batch, Buffer

MAX_FEW_RECORDS = 48
"""Measured: at about this many the two ways take the same time, where records are asked for one by one."""

# From 64 headers on, the varint of their number begins with this byte or a greater one. So many would take much memory
# as tuples.
_MANY_HEADERS = 0x80
# Of an offset or a time that a batch begins with: what is added must not leave 64 bits.
_GREATEST_BASE = 2**62

_set = object.__setattr__


class FewColumns(RecordColumns):
    """Columns of a few records, which are rows until somebody asks for one of the arrays."""

    __slots__ = ("few_rows",)

    few_rows: Sequence[Row]

    def __init__(self, buffer: Buffer, rows: Sequence[Row]) -> None:
        _set(self, "buffer", buffer)
        _set(self, "few_rows", rows)
        _set(self, "part_of", None)

    def __getattr__(self, name: str) -> object:
        """Make all the arrays, as somebody asks for the first of them."""
        if name not in _ARRAYS:
            raise AttributeError(name)
        # One array with a row for each column: numpy is called once, not eight times.
        numbers = np.array(list(zip(*self.few_rows, strict=True))[:-1], dtype=np.int64)
        for array, numbers_of_one in zip(_ARRAYS, numbers, strict=False):
            _set(self, array, numbers_of_one.astype(_KINDS.get(array, "int64"), copy=False))
        _set(self, "headers_at", _header_columns([row.headers for row in self.few_rows]))
        return getattr(self, name)

    def __len__(self) -> int:
        return len(self.few_rows)

    def offset_at(self, row: int) -> int:
        return self.few_rows[row].offset

    def epoch_at(self, row: int) -> int:
        return self.few_rows[row].leader_epoch

    def offset_list(self, start: int = 0, stop: int | None = None) -> list[int]:
        return [row.offset for row in self.few_rows[start:stop]]

    def epoch_list(self, start: int = 0, stop: int | None = None) -> list[int]:
        return [row.leader_epoch for row in self.few_rows[start:stop]]

    def size_bytes(self, start: int = 0, stop: int | None = None) -> int:
        return sum(row.key_length + row.value_length for row in self.few_rows[start:stop])

    def rows_in_order(self) -> int:
        in_front = -(2**63)
        for count, row in enumerate(self.few_rows):
            if row.offset <= in_front:
                return count
            in_front = row.offset
        return len(self.few_rows)

    def part(self, start: int, count: int) -> RecordColumns:
        rows = self.few_rows[start : start + count]
        return FewColumns(self.buffer, rows) if rows else super().part(start, count)

    def keys(self, start: int = 0, stop: int | None = None) -> list[bytes | None]:
        return [_copied(self.buffer, row.key_start, row.key_length) for row in self.few_rows[start:stop]]

    def values(self, start: int = 0, stop: int | None = None) -> list[bytes | None]:
        return [_copied(self.buffer, row.value_start, row.value_length) for row in self.few_rows[start:stop]]

    def headers(self) -> list[tuple[Header, ...]]:
        return [tuple(_header(self.buffer, *span) for span in row.headers) for row in self.few_rows]


# In the order of the fields of a row.
_ARRAYS = (
    "offsets",
    "timestamps",
    "timestamp_types",
    "leader_epochs",
    "key_starts",
    "key_lengths",
    "value_starts",
    "value_lengths",
    "headers_at",
)
_KINDS = {"timestamp_types": "int8", "leader_epochs": "int32"}


def _header_columns(spans: Sequence[Sequence[HeaderSpan]]) -> HeaderColumns | None:
    if not any(spans):
        return None
    first = np.array(list(accumulate(map(len, spans), initial=0)), dtype=np.int64)
    return columns_of_spans(first, np.array([span for of_record in spans for span in of_record], dtype=np.int64).T)


def _copied(buffer: Buffer, start: int, length: int) -> bytes | None:
    return bytes(buffer[start : start + length]) if length >= 0 else None


def _header(buffer: Buffer, key_start: int, key_length: int, value_start: int, value_length: int) -> Header:
    name = text_of(bytes(buffer[key_start : key_start + key_length]))
    return Header(name, _copied(buffer, value_start, value_length))


def few_columns(buffer: Buffer, payloads: Iterable[tuple[Batch, int, int]]) -> FewColumns | None:
    """The records of these batches.

    Args:
        buffer: Holds all payloads.
        payloads: The batches, and where the records of each start and end.
    """
    rows: list[Row] = []
    try:
        for batch, start, end in payloads:
            rows += _rows(buffer, batch, start, end)
    except (IndexError, ValueError):
        return None
    return FewColumns(buffer, rows)


def _rows(buffer: Buffer, batch: Batch, at: int, end: int) -> Iterator[Row]:
    """The records of one batch.

    Raises:
        IndexError, ValueError: Not of the ordinary kind.
    """
    appended = batch.is_log_append_time  # KIP-32: all have the time the broker appended them, the max timestamp
    base_offset, base_timestamp, epoch = batch.base_offset, batch.base_timestamp, batch.partition_leader_epoch
    if max(base_offset, abs(base_timestamp)) > _GREATEST_BASE:
        raise ValueError("it may wrap around")
    for _ in range(batch.record_count):
        length, at = _varint(buffer, at)
        record_end = at + length
        timestamp_delta, at = _varint(buffer, at + 1)  # behind the attributes, which have no meaning
        offset_delta, at = _varint(buffer, at)
        key_length, key_start = _varint(buffer, at)
        value_length, value_start = _varint(buffer, key_start + max(0, key_length))
        at = value_start + max(0, value_length)
        if count := buffer[at]:
            if count >= _MANY_HEADERS:
                raise ValueError("many headers")
            headers: Sequence[HeaderSpan] = read_all_headers(buffer, at, record_end)
        elif at + 1 == record_end:
            headers = ()
        else:
            raise ValueError("something lies behind its headers")
        if record_end > end:
            raise ValueError("longer than its batch")
        at = record_end
        yield Row(
            base_offset + offset_delta,
            batch.max_timestamp if appended else base_timestamp + timestamp_delta,
            int(appended),
            epoch,
            key_start,
            max(-1, key_length),  # any negative length is null
            value_start,
            max(-1, value_length),
            headers,
        )
    if at != end:
        raise ValueError("something lies behind the records")


def _varint(buffer: Buffer, at: int) -> tuple[int, int]:
    """A zigzag varint, and the place behind it. Those of more than four bytes are left to the decoding of many: padded
    ones, and values of 28 bits or more, where 32 and 64 bits differ."""
    raw = buffer[at]
    if raw >= 0x80:
        raw &= 0x7F
        for shift in (7, 14, 21):
            at += 1
            byte = buffer[at]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise ValueError("a long varint")
    return (raw >> 1) ^ -(raw & 1), at + 1
