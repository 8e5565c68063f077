"""Zigzag varints of records, a whole column at a time; and one at a time, for the few places where that is cheaper.

Contract: never reads at or behind `ends`; answers what Java's reader answers, padded and over-wide encodings included
(five bytes hold 32 bits, ten hold 64, what does not fit falls off). Called by the record modules beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kwire.lazy_numpy import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Ints: TypeAlias = "NDArray[np.int64]"
Octets: TypeAlias = "NDArray[np.uint8]"

VARINT_BYTES = 5
VARLONG_BYTES = 10
_U32 = 0xFFFFFFFF


def ints_of(numbers: Sequence[int]) -> Ints:
    """The numbers as a column."""
    return np.array(numbers, dtype=np.int64)


class DamagedRecordError(Exception):
    """The record in `row` does not decode. Internal: `record_decoding.py` makes it the batch's CorruptRecordError."""

    def __init__(self, row: int, problem: str) -> None:
        self.row = row
        self.problem = problem
        super().__init__(row, problem)


def require(ok: NDArray[np.bool_], problem: str, rows: Ints | None = None) -> None:
    """Raise for the first row that is not ok; `rows` maps the places in `ok` to row numbers, if they differ."""
    if not ok.all():
        place = int(ok.argmin())
        raise DamagedRecordError(place if rows is None else int(rows[place]), problem)


def read_varints(
    data: Octets, at: Ints, ends: Ints, *, max_bytes: int = VARINT_BYTES, rows: Ints | None = None
) -> tuple[Ints, Ints]:
    """Decode the varint at each place of `at`.

    Args:
        data: The buffer.
        at: Where each varint starts.
        ends: Where the record of each ends.
        max_bytes: 5 for Kafka's varint (32 bits), 10 for its varlong (64 bits).
        rows: Row numbers for error messages, when `at` is a selection.

    Returns:
        The values, and the place behind each varint.
    """
    require(at < ends, "it ends inside a field", rows)
    first = data[at]
    if not len(first) or first.max() < 0x80:
        return _narrow_unzigzag(first.view(np.int8)), at + 1
    # The second byte is read for all, though some have none: choosing takes longer than reading.
    goes_on, second_at = first >= 0x80, at + 1
    require((second_at < ends) | ~goes_on, "it ends inside a field", rows)
    second = data[np.minimum(second_at, len(data) - 1)]
    # What counts of it: seven bits where the first one goes on, else none. (`where` takes longer.)
    high = second & ((first >> 7) * np.uint8(0x7F))
    raw = (first & 0x7F) | high.astype(np.int16) << 7
    values, after = _narrow_unzigzag(raw), second_at + goes_on
    longer = np.flatnonzero(goes_on & (second >= 0x80))
    if longer.size:
        values[longer], after[longer] = _read_longer(data, at[longer], ends[longer], max_bytes, _numbers(longer, rows))
    return values, after


def _narrow_unzigzag(raw: NDArray[np.int8] | NDArray[np.int16]) -> Ints:
    """As `_unzigzag`, of 7 or 14 bits, in as little memory."""
    return ((raw >> 1) ^ -(raw & 1)).astype(np.int64)


def _read_longer(data: Octets, at: Ints, ends: Ints, max_bytes: int, rows: Ints) -> tuple[Ints, Ints]:
    """The few varints that are longer: byte by byte, those that go on."""
    raw, after = (data[at] & 0x7F).astype(np.int64), at + 1
    going_on = np.arange(len(at))
    for nth in range(1, max_bytes):
        place = after[going_on]
        require(place < ends[going_on], "it ends inside a field", rows[going_on])
        byte = data[place]
        raw[going_on] |= (byte & 0x7F).astype(np.int64) << (7 * nth)
        after[going_on] = place + 1
        going_on = going_on[byte >= 0x80]
        if not going_on.size:
            return _unzigzag(raw, max_bytes), after
    raise DamagedRecordError(int(rows[going_on][0]), f"a varint of more than {max_bytes} bytes")


def _numbers(selected: Ints, rows: Ints | None) -> Ints:
    return selected if rows is None else rows[selected]


def _unzigzag(raw: Ints, max_bytes: int) -> Ints:
    """0, 1, 2, 3 mean 0, -1, 1, -2; the shift must be a logical one."""
    bits = raw.view(np.uint64)
    if max_bytes == VARINT_BYTES:
        bits = bits & np.uint64(_U32)
    decoded: Ints = (bits >> np.uint64(1)).view(np.int64) ^ -(raw & 1)
    return decoded


def read_varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Decode one 32-bit varint; returns the value and the place behind it.

    Raises:
        ValueError: It runs over `end` or over five bytes.
    """
    raw = 0
    for nth in range(VARINT_BYTES):
        if at >= end:
            raise ValueError("it ends inside a field")
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << (7 * nth)
        if byte < 0x80:
            raw &= _U32
            return (raw >> 1) ^ -(raw & 1), at
    raise ValueError(f"a varint of more than {VARINT_BYTES} bytes")
