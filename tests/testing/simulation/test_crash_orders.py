"""Worlds of crash orders: kwire passes them, they are the same each time, and their judge finds what must not be."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest

from kwire.catch_up.token import HeadMark, Token, encode, encode_mark
from kwire.model import Cursor, TopicPartition
from kwire.testing.cluster.groups.offsets import CommittedOffset
from kwire.testing.simulation.crash_judge import CrashJudge
from kwire.testing.simulation.crash_orders import crash_in_order
from kwire.testing.simulation.crash_plan import GROUP, HEAD_GROUP, Fate, Point, draw_plan

AT = TopicPartition("lagging", 0)
TOPIC_ID = UUID(int=7)


@pytest.fixture
def judge() -> CrashJudge:
    """Of a partition of ten records, which a life has got."""
    made = CrashJudge(lambda: 0.0)
    made.sent(AT, {offset: f"value{offset}" for offset in range(10)})
    made.started("first", catches_up=True)
    made.assigned("first", [AT])
    return made


def give(judge: CrashJudge, life: str, *offsets: int, cursor: Cursor = Cursor.MAIN) -> None:
    for offset in offsets:
        judge.polled(life, AT, cursor, offset, f"value{offset}")


def process(judge: CrashJudge, *offsets: int) -> None:
    judge.processed([f"value{offset}" for offset in offsets])


def token(*undone: range, head: int, life: str = "life") -> str:
    return encode(Token(life, TOPIC_ID, undone, head))


def rules(judge: CrashJudge) -> list[str]:
    return [violation.rule for violation in judge.violations]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_in_any_order_of_crashes_nothing_is_skipped_and_only_what_is_uncommitted_comes_again(seed: int) -> None:
    outcome = crash_in_order(seed)
    assert not outcome.violations, outcome.story


@pytest.mark.slow
def test_a_seed_is_the_same_world_each_time() -> None:
    assert crash_in_order(3).digest == crash_in_order(3).digest != crash_in_order(4).digest


def test_plans_have_crashes_of_all_kinds() -> None:
    crashes = [crash for seed in range(200) for life in draw_plan(seed).lives for crash in life.crashes]
    points = Counter((crash.point, crash.is_taken, crash.fate) for crash in crashes)
    for point in (Point.GROUP_COMMIT, Point.HEAD_COMMIT):
        for is_taken in (True, False):
            for fate in Fate:
                assert points[point, is_taken, fate]


def test_what_is_in_the_log_has_to_be_processed(judge: CrashJudge) -> None:
    give(judge, "first", *range(10))
    process(judge, *range(9))
    judge.end()
    assert rules(judge) == ["unseen"]


def test_what_is_gone_from_the_log_has_not(judge: CrashJudge) -> None:
    judge.removed(AT, 4)
    process(judge, *range(4, 8))
    judge.truncated(AT, 8)
    judge.end()
    assert not rules(judge)


def test_both_cursors_together_give_an_offset_once(judge: CrashJudge) -> None:
    give(judge, "first", 5, 6)
    give(judge, "first", 4, 5, cursor=Cursor.CHILD)
    assert rules(judge) == ["overlap"]


def test_the_group_log_is_not_ahead_of_what_is_processed(judge: CrashJudge) -> None:
    process(judge, 0, 1, 2)
    judge.taken(GROUP, AT, CommittedOffset(3))
    assert not rules(judge)
    judge.taken(GROUP, AT, CommittedOffset(4))
    assert rules(judge) == ["commit-ahead", "logs-ahead"]


def test_a_token_says_what_is_not_done(judge: CrashJudge) -> None:
    process(judge, 0, 1, 2, 6, 7)
    judge.taken(GROUP, AT, CommittedOffset(3, metadata=token(range(3, 6), head=8)))
    assert not rules(judge)
    judge.taken(GROUP, AT, CommittedOffset(3, metadata=token(range(3, 5), head=8)))
    assert rules(judge) == ["logs-ahead"]


def test_the_head_log_counts_in_the_life_of_the_token_alone(judge: CrashJudge) -> None:
    process(judge, 0, 1, 2)
    judge.taken(GROUP, AT, CommittedOffset(3, metadata=token(range(3, 6), head=6)))
    judge.taken(HEAD_GROUP, AT, CommittedOffset(9, metadata=encode_mark(HeadMark("another", TOPIC_ID))))
    assert not rules(judge)
    judge.taken(HEAD_GROUP, AT, CommittedOffset(9, metadata=encode_mark(HeadMark("life", TOPIC_ID))))
    assert rules(judge) == ["logs-ahead"]


def test_committed_answers_what_is_processed(judge: CrashJudge) -> None:
    process(judge, 0, 1)
    judge.answered("first", AT, 2)
    assert not rules(judge)
    judge.answered("first", AT, 3)
    assert rules(judge) == ["answer-ahead"]


def test_what_was_committed_does_not_come_again(judge: CrashJudge) -> None:
    give(judge, "first", 0, 1)
    process(judge, 0, 1)
    judge.committed("first", ["value0"])
    judge.started("second", catches_up=True)
    judge.assigned("second", [AT])
    give(judge, "second", 1)
    assert not rules(judge)
    give(judge, "second", 0, cursor=Cursor.CHILD)
    assert rules(judge) == ["needless"]
    assert judge.repeated == 2


def test_a_client_without_the_feature_reads_again_what_lies_behind_the_low_water(judge: CrashJudge) -> None:
    judge.committed("first", ["value5"])
    judge.started("plain", catches_up=False)
    judge.assigned("plain", [AT])
    give(judge, "plain", 5)
    assert not rules(judge)


def test_a_partition_that_was_not_assigned_gives_nothing(judge: CrashJudge) -> None:
    judge.given_up("first", [AT])
    give(judge, "first", 0)
    assert rules(judge) == ["not-owned"]


def test_in_the_end_the_logs_say_that_all_is_done(judge: CrashJudge) -> None:
    process(judge, *range(10))
    judge.taken(GROUP, AT, CommittedOffset(3, metadata=token(range(3, 6), head=10)))
    assert not judge.is_settled(AT, 10)
    judge.taken(GROUP, AT, CommittedOffset(10))
    assert judge.is_settled(AT, 10)
