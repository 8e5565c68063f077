"""What the two commit logs carry beside an offset."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.commit_metadata import LAG_PREFIX, LIMIT_CHARS, MAP_PREFIX, users_metadata
from kwire.offset_set import OffsetSet
from kwire.parallel_rebalance.token import (
    HeadMark,
    Token,
    decode,
    decode_mark,
    encode,
    encode_mark,
    incarnation_of,
)

TOPIC_ID = UUID(int=7 << 90)
INCARNATION = incarnation_of(UUID(int=5 << 80))
many_ranges = st.lists(
    st.tuples(st.integers(0, 2**50), st.integers(1, 2**20)).map(lambda each: range(each[0], sum(each))), max_size=500
).map(OffsetSet)


@given(many_ranges.filter(lambda ranges: len(ranges) < 150), st.integers(0, 2**60), st.none() | st.integers(0, 2**31))
def test_a_token_says_what_it_was_made_of(undone: OffsetSet, head: int, epoch: int | None) -> None:
    token = Token(INCARNATION, TOPIC_ID, undone, head, epoch, "the user's own\nin two lines")
    assert decode(encode(token)) == token


@given(many_ranges)
def test_a_token_that_is_too_long_loses_detail_and_never_a_range(undone: OffsetSet) -> None:
    written = encode(Token(INCARNATION, TOPIC_ID, undone, 2**60))
    assert len(written) <= LIMIT_CHARS
    read = decode(written)
    assert read is not None
    assert undone - read.undone == ()


def test_a_processors_map_that_leaves_no_room_is_left_out() -> None:
    """It knew nothing of ranges, and took all the room there is: the claim must not be refused for that."""
    undone = OffsetSet(range(start, start + 5) for start in range(70, 470, 10))
    written = encode(Token(INCARNATION, TOPIC_ID, undone, 500, None, MAP_PREFIX + "x" * 4000))
    assert written.startswith(LAG_PREFIX)
    assert decode(written) == Token(INCARNATION, TOPIC_ID, undone, 500, None, "")
    short = Token(INCARNATION, TOPIC_ID, undone, 500, None, MAP_PREFIX + "x" * 1000)
    assert decode(encode(short)) == short


def test_of_ranges_that_do_not_fit_the_nearest_are_joined() -> None:
    undone = OffsetSet((range(10), range(12, 20), range(1000, 1010)))
    fits_two = len(encode(Token(INCARNATION, TOPIC_ID, OffsetSet((range(20), range(1000, 1010))), 2000)))
    read = decode(encode(Token(INCARNATION, TOPIC_ID, undone, 2000), limit_chars=fits_two))
    assert read is not None
    assert read.undone == (range(20), range(1000, 1010))


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "a note",
        "kwire-lag1:",
        "kwire-lag1:zzz:life,x,y",
        "kwire1:abc",
        encode_mark(HeadMark(INCARNATION, TOPIC_ID)),
    ],
)
def test_what_is_somebody_elses_is_no_token(metadata: str) -> None:
    assert decode(metadata) is None


def test_a_damaged_token_is_not_believed() -> None:
    written = encode(Token(INCARNATION, TOPIC_ID, OffsetSet((range(70, 120),)), 120))
    for place in range(len(written)):
        other = "1" if written[place] != "1" else "2"
        assert decode(written[:place] + other + written[place + 1 :]) is None


def test_the_users_metadata_comes_back_from_both_logs() -> None:
    token = encode(Token(INCARNATION, TOPIC_ID, OffsetSet((range(70, 120),)), 120, metadata="a note"))
    mark = encode_mark(HeadMark(INCARNATION, TOPIC_ID, "another"))
    assert [users_metadata(each) for each in (token, mark, "plain", "")] == ["a note", "another", "plain", ""]
    assert decode_mark(mark) == HeadMark(INCARNATION, TOPIC_ID, "another")
    assert decode_mark(token) is None


def test_lives_have_names_of_their_own() -> None:
    assert incarnation_of(UUID(int=1 << 64)) != incarnation_of(UUID(int=2 << 64))
    assert len(INCARNATION) == 11
