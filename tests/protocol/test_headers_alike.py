"""Headers that all records have in the same form are read at once, and differences are seen wherever they are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.protocol.record_headers import HeaderColumns, read_headers
from kwire.protocol.record_varints import DamagedRecordError

Pairs = list[tuple[bytes, bytes | None]]

RECORDS = 50


def encoded(pairs: Pairs) -> bytes:
    """As a record ends; all lengths below 64."""
    parts = [bytes([2 * len(pairs)])]
    for name, value in pairs:
        parts += [bytes([2 * len(name)]), name, b"\x01" if value is None else bytes([2 * len(value)]) + value]
    return b"".join(parts)


def read(tails: list[bytes]) -> tuple[bytes, HeaderColumns | None]:
    """The headers of records that end with these bytes."""
    buffer, at, ends = bytearray(), [], []
    for tail in tails:
        buffer += b"key and value"
        at.append(len(buffer))
        buffer += tail
        ends.append(len(buffer))
    whole = bytes(buffer)
    places = np.array(at, dtype=np.int64), np.array(ends, dtype=np.int64)
    return whole, read_headers(whole, np.frombuffer(whole, dtype=np.uint8), *places)


def pairs_of(buffer: bytes, columns: HeaderColumns) -> list[Pairs]:
    spans = zip(
        columns.key_starts.tolist(),
        columns.key_lengths.tolist(),
        columns.value_starts.tolist(),
        columns.value_lengths.tolist(),
        strict=True,
    )
    all_pairs = [
        (buffer[key : key + key_length], buffer[value : value + length] if length >= 0 else None)
        for key, key_length, value, length in spans
    ]
    edges = columns.first.tolist()
    return [all_pairs[start:stop] for start, stop in pairwise(edges)]


def same_form(number: int) -> Pairs:
    return [(b"trace", b"%08d" % number), (b"shop", None), (b"", b""), (b"shop", b"x%03d" % number)]


def test_headers_of_one_form_are_read() -> None:
    records = [same_form(number) for number in range(RECORDS)]
    buffer, columns = read([encoded(pairs) for pairs in records])
    assert columns is not None
    assert pairs_of(buffer, columns) == records


@pytest.mark.parametrize(
    "other",
    [
        [(b"trace", b"%08d" % 7), (b"shop", None), (b"", b""), (b"sho_", b"x007")],
        [(b"trace", b"%08d" % 7), (b"shop", None), (b"shop", b"x007"), (b"", b"")],
        [(b"trace", b"%09d" % 7), (b"sho", None), (b"", b""), (b"shop", b"x007")],
        [(b"trace", b"%08d" % 7), (b"shop", b""), (b"", b""), (b"shop", b"x007")],
        [(b"n" * 26, b"")],
        [],
    ],
    ids=["other-name", "other-order", "other-lengths", "empty-for-null", "one-header", "none"],
)
@pytest.mark.parametrize("row", [0, 20, RECORDS - 1])
def test_a_record_of_another_form_is_read_as_it_is(other: Pairs, row: int) -> None:
    records = [same_form(number) for number in range(RECORDS)]
    records[row] = other
    buffer, columns = read([encoded(pairs) for pairs in records])
    assert columns is not None
    assert pairs_of(buffer, columns) == records


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from([b"a", b"bc"]), st.sampled_from([None, b"", b"1", b"2"])), max_size=2),
        min_size=RECORDS,
        max_size=RECORDS + 5,
    )
)
def test_headers_of_any_form_are_read(records: list[Pairs]) -> None:
    buffer, columns = read([encoded(pairs) for pairs in records])
    assert pairs_of(buffer, columns) == records if columns is not None else not any(records)


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (encoded(same_form(7))[:-1] + b"", "a header value longer than what is left"),
        (encoded(same_form(7)) + b"!", "its headers do not end where it does"),
        (b"\x7f" + encoded(same_form(7))[1:], "more headers than it has room for|a negative number of headers"),
    ],
    ids=["short", "long", "count"],
)
@pytest.mark.parametrize("row", [0, RECORDS - 1])
def test_damage_among_headers_of_one_form_is_named(damaged: bytes, problem: str, row: int) -> None:
    tails = [encoded(same_form(number)) for number in range(RECORDS)]
    tails[row] = damaged
    with pytest.raises(DamagedRecordError, match=problem) as raised:
        read(tails)
    assert raised.value.row == row


def test_damage_that_all_have_is_that_of_the_first() -> None:
    with pytest.raises(DamagedRecordError, match="more headers than it has room for") as raised:
        read([b"\x10\x02a"] * RECORDS)
    assert raised.value.row == 0
