"""Worlds of crash orders: kwire passes them, they are the same each time, and their judge finds what must not be."""

from __future__ import annotations

import re
from collections import Counter
from uuid import UUID

import pytest

from kwire.model import Cursor, TopicPartition
from kwire.offset_set import OffsetSet
from kwire.parallel_rebalance.token import HeadMark, Token, encode, encode_mark
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
    return encode(Token(life, TOPIC_ID, OffsetSet(undone), head))


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
            for fate in (Fate.KILLED, Fate.FROZEN, Fate.UNANSWERED):
                assert points[point, is_taken, fate]


def test_lives_end_between_the_commits_to_the_two_logs() -> None:
    crashes = [crash for seed in range(200) for life in draw_plan(seed).lives for crash in life.crashes]
    between = Counter((crash.point, crash.then.point) for crash in crashes if crash.then is not None)
    assert between[Point.GROUP_COMMIT, Point.HEAD_COMMIT]
    assert between[Point.HEAD_COMMIT, Point.GROUP_COMMIT]


def test_children_share_lags_that_are_long_by_their_gaps() -> None:
    plans = [draw_plan(seed) for seed in range(200)]
    assert any(plan.has_gaps and plan.children > 2 for plan in plans)


@pytest.mark.slow
def test_several_children_are_at_work_on_one_lag() -> None:
    """What they return is not in order then, in one life with one assignment."""
    plan = next(plan for plan in map(draw_plan, range(1, 200)) if plan.has_gaps and plan.children > 2)
    reached: dict[str, int] = {}
    out_of_order = 0
    for line in crash_in_order(plan.seed).lines:
        if "is assigned" in line:
            reached.clear()
        if (chunk := re.search(r"(client\d child: lagging-\d)@(\d+)", line)) is not None:
            out_of_order += int(chunk[2]) < reached.get(chunk[1], 0)
            reached[chunk[1]] = int(chunk[2])
    assert out_of_order


def test_what_is_in_the_log_has_to_be_processed(judge: CrashJudge) -> None:
    give(judge, "first", *range(10))
    process(judge, *range(9))
    judge.end()
    assert rules(judge) == ["unseen"]


def test_what_is_gone_from_the_log_has_not(judge: CrashJudge) -> None:
    judge.removed(AT, 4)
    process(judge, *range(4, 8))
    judge.truncated(AT, 8, 10)
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
    judge.started("plain", catches_up=False)
    judge.committed("first", ["value5"])
    judge.given_up("first", [AT])
    judge.assigned("plain", [AT])
    give(judge, "plain", 5)
    judge.given_up("plain", [AT])
    judge.assigned("first", [AT])
    give(judge, "first", 5)
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


def test_who_still_has_the_topic_that_was_may_take_the_group_back_in_the_end(judge: CrashJudge) -> None:
    judge.unsettled(AT, 10, was_settled=True)
    assert rules(judge) == ["unsettled"]
    judge.recreated(AT, 10)
    judge.unsettled(AT, 10, was_settled=True)
    assert rules(judge) == ["unsettled"]
    judge.unsettled(AT, 10, was_settled=False)
    assert rules(judge) == ["unsettled", "unsettled"]


@pytest.mark.parametrize(("leader_epoch", "expected"), [(-1, []), (0, ["unseen", "unseen"])])
def test_without_a_leader_epoch_a_successor_cannot_know_that_the_log_was_cut(
    judge: CrashJudge, leader_epoch: int, expected: list[str]
) -> None:
    process(judge, *range(10))
    judge.taken(GROUP, AT, CommittedOffset(10, leader_epoch))
    judge.truncated(AT, 8, 10)
    judge.assigned("second", [AT])
    judge.sent(AT, {8: "another8", 9: "another9"})
    judge.end()
    assert rules(judge) == expected


def test_who_begins_behind_the_end_of_a_log_that_was_cut_reads_it_from_its_beginning(judge: CrashJudge) -> None:
    process(judge, *range(10))
    judge.taken(GROUP, AT, CommittedOffset(7, metadata=token(range(7, 8), head=10)))
    judge.truncated(AT, 8, 10)
    judge.assigned("second", [AT])
    give(judge, "second", 7, cursor=Cursor.CHILD)
    judge.committed("second", ["value7"])
    give(judge, "second", *range(8))
    assert not rules(judge)


def test_the_end_of_a_transaction_is_cut_as_well(judge: CrashJudge) -> None:
    """Who has not noticed yet commits the offset behind it, and does not know the record that is there now."""
    process(judge, *range(10))
    judge.truncated(AT, 8, 11)
    judge.sent(AT, dict.fromkeys(range(8, 11), "another"))
    judge.taken(GROUP, AT, CommittedOffset(11))
    assert not rules(judge)


def test_who_has_noticed_the_cut_and_said_so_leaves_no_excuse(judge: CrashJudge) -> None:
    process(judge, *range(10))
    judge.taken(GROUP, AT, CommittedOffset(10))
    judge.truncated(AT, 8, 10)
    judge.taken(GROUP, AT, CommittedOffset(8, 1))
    judge.assigned("second", [AT])
    judge.sent(AT, {8: "another8", 9: "another9"})
    judge.end()
    assert rules(judge) == ["unseen", "unseen"]
    assert judge.lost == 2


def test_a_log_that_is_cut_twice_is_no_better_known(judge: CrashJudge) -> None:
    process(judge, *range(10))
    judge.taken(GROUP, AT, CommittedOffset(10))
    judge.truncated(AT, 6, 10)
    judge.sent(AT, {6: "another6", 7: "another7", 8: "another8"})
    judge.truncated(AT, 8, 9)
    judge.assigned("second", [AT])
    judge.end()
    assert not rules(judge)
