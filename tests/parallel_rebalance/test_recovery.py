"""Where a new owner goes on, whatever the two logs say: nothing that was not done is skipped."""

from __future__ import annotations

from uuid import UUID

from kwire.model import ZERO_UUID, OffsetAndMetadata
from kwire.offset_set import OffsetSet
from kwire.parallel_rebalance.recovery import recover
from kwire.parallel_rebalance.token import HeadMark, Token, encode, encode_mark

TOPIC_ID, OTHER_TOPIC_ID = UUID(int=1), UUID(int=2)
TOKEN = Token("incarnation", TOPIC_ID, OffsetSet((range(100, 120),)), 120, 3, "a note")


def low(token: Token = TOKEN, offset: int = 100) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, encode(token), 3)


def head(offset: int, incarnation: str = "incarnation", topic_id: UUID = TOPIC_ID) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, encode_mark(HeadMark(incarnation, topic_id)), 4)


def test_a_commit_without_a_token_means_that_everything_behind_it_is_undone() -> None:
    """Somebody without the feature has committed: the head's log is of a time before that."""
    found = recover(OffsetAndMetadata(100, "a note", 3), head(140), TOPIC_ID)
    assert (found.undone, found.head.offset, found.low.metadata) == ((), 100, "a note")


def test_the_heads_log_is_believed_in_the_incarnation_of_the_token() -> None:
    found = recover(low(), head(140), TOPIC_ID)
    assert (found.undone, found.head) == ((range(100, 120),), OffsetAndMetadata(140, leader_epoch=4))
    assert found.low == OffsetAndMetadata(100, "a note", 3)


def test_what_a_former_owner_writes_into_the_heads_log_is_not_believed() -> None:
    found = recover(low(), head(5_000, incarnation="zombie"), TOPIC_ID)
    assert found.head == OffsetAndMetadata(120, leader_epoch=3)


def test_without_a_heads_log_the_token_knows_where_the_head_was() -> None:
    assert recover(low(), None, TOPIC_ID).head == OffsetAndMetadata(120, leader_epoch=3)


def test_a_heads_log_that_is_behind_the_token_takes_nothing_back() -> None:
    assert recover(low(), head(110), TOPIC_ID).head.offset == 120


def test_a_token_of_another_topic_of_that_name_is_void() -> None:
    found = recover(low(), head(140), OTHER_TOPIC_ID)
    assert (found.undone, found.head.offset, found.low.metadata) == ((), 100, "a note")


def test_a_head_of_another_topic_of_that_name_is_void() -> None:
    assert recover(low(), head(140, topic_id=OTHER_TOPIC_ID), TOPIC_ID).head.offset == 120


def test_brokers_without_topic_ids_are_taken_at_their_word() -> None:
    assert recover(low(), head(140), ZERO_UUID).head.offset == 140


def test_ranges_in_front_of_the_committed_offset_are_done() -> None:
    """An offset that somebody moved on by hand, and left the token."""
    assert recover(low(offset=110), None, TOPIC_ID).undone == (range(110, 120),)
