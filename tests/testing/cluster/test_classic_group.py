"""Classic groups of the in-process cluster: joining, syncing, living and leaving, as Kafka's coordinator does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.leave_group import MemberIdentity

if TYPE_CHECKING:
    from tests.testing.cluster.classic_scene import REBALANCE_MS, SESSION_MS, is_open, scene, synced
else:
    from classic_scene import REBALANCE_MS, SESSION_MS, is_open, scene, synced


def test_the_first_member_leads_generation_1() -> None:
    at = scene()
    only = at.member().join()
    answer = only.joined
    assert (answer.generation_id, answer.leader, answer.protocol_name) == (1, only.member_id, "range")
    assert [told.member_id for told in answer.members] == [only.member_id]


def test_a_member_id_is_handed_out_first_and_does_not_hold_up_the_group_for_longer_than_a_session() -> None:
    """KIP-394: who never comes back with its id counts as somebody to wait for, until its session is over."""
    at = scene()
    first = at.member()
    at.stable(first)
    answer = at.member().ask_to_join()
    assert answer is not None
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id in at.group.roster.pending_joins

    first.join()  # the leader: a new rebalance
    assert first.waits
    at.after(SESSION_MS)
    assert first.joined.generation_id == 2


def test_before_version_4_nobody_has_to_ask_twice() -> None:
    at = scene()
    old = at.member(version=3)
    assert old.ask_to_join() is not None
    assert old.joined.generation_id == 1


def test_a_join_is_answered_when_everybody_has_come_back() -> None:
    at = scene()
    first, second = at.member(), at.member()
    at.stable(first)
    second.join()
    assert second.waits
    assert first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    first.join()
    assert (first.joined.generation_id, second.joined.generation_id) == (2, 2)
    assert second.joined.members == []
    assert {told.member_id for told in first.joined.members} == {first.member_id, second.member_id}


def test_shares_wait_for_the_leader() -> None:
    at = scene()
    leader, follower = at.member(), at.member()
    at.stable(leader)
    follower.join()
    leader.join()
    assert follower.joined.leader == leader.joined.member_id
    share = follower.sync()
    assert is_open(share)
    leader.sync({follower.member_id: b"yours"})
    assert synced(share).assignment == b"yours"
    assert share in at.notified


def test_a_stable_group_hands_out_a_share_again() -> None:
    at = scene()
    only = at.member()
    at.stable(only)
    again = only.sync()
    assert synced(again).assignment == only.member_id.encode()


def test_who_does_not_come_back_in_time_is_out() -> None:
    at = scene()
    slow, new = at.member(), at.member()
    at.stable(slow)
    new.join()
    for _ in range(7):
        at.after(REBALANCE_MS / 8)
        assert slow.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert new.waits
    at.after(REBALANCE_MS / 8)
    assert new.joined.leader == new.member_id
    assert slow.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_silent_for_a_session_is_out() -> None:
    at = scene()
    silent, alive = at.member(), at.member()
    at.stable(silent, alive)
    at.after(SESSION_MS * 0.75)
    assert alive.heartbeat() is ErrorCode.NONE
    at.after(SESSION_MS * 0.5)
    assert alive.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(at.group.members) == {alive.member_id}


def test_who_waits_for_a_rebalance_needs_no_heartbeats() -> None:
    at = scene()
    waiting, slow = at.member(), at.member()
    at.stable(waiting, slow)
    waiting.join()  # it leads, so this is a rebalance
    for _ in range(3):
        at.after(SESSION_MS * 0.75)
        assert slow.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.waits
    slow.join()
    assert waiting.joined.generation_id == slow.joined.generation_id


def test_who_joined_and_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    at = scene()
    leader, stuck = at.member(), at.member()
    at.stable(leader)
    stuck.join()
    leader.join()
    assert leader.joined.generation_id == stuck.joined.generation_id == 2
    leader.sync(at.shares())
    while at.now_ms < REBALANCE_MS:
        assert stuck.heartbeat() is ErrorCode.NONE
        assert leader.heartbeat() is ErrorCode.NONE
        at.after(SESSION_MS / 2)
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert stuck.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_everybody_synced_and_nobody_is_thrown_out() -> None:
    at = scene()
    only = at.member()
    at.stable(only)
    for _ in range(20):
        at.after(REBALANCE_MS / 10)
        assert only.heartbeat() is ErrorCode.NONE


def test_a_sync_is_refused_once_the_next_rebalance_begins() -> None:
    at = scene()
    first, second = at.member(), at.member()
    at.stable(first)
    second.join()
    first.join()
    assert first.joined.generation_id == second.joined.generation_id == 2
    waiting = second.sync()
    at.member().join()
    assert synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    late = first.sync(at.shares())
    assert synced(late).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_another_generation_or_a_stranger_is_refused_by_everything() -> None:
    at = scene()
    only = at.member()
    at.stable(only)
    only.generation += 1
    sync = only.sync()
    assert synced(sync).error_code == ErrorCode.ILLEGAL_GENERATION
    assert only.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert only.commit_error() is ErrorCode.ILLEGAL_GENERATION
    stranger = at.member(member_id="stranger", generation=1)
    sync = stranger.sync()
    assert synced(sync).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.commit_error() is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.leave() == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.ask_to_join() is not None
    assert stranger.join_answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("is_leader", [True, False])
def test_joining_again_unchanged_is_a_rebalance_only_for_the_leader(is_leader: bool) -> None:
    """A follower may have lost the answer; a leader wants to assign anew, for example because a topic has grown."""
    at = scene()
    leader, follower = at.member(), at.member()
    at.stable(leader, follower)
    (leader if is_leader else follower).ask_to_join()
    assert at.group.state_name == ("PreparingRebalance" if is_leader else "Stable")


def test_another_subscription_is_a_rebalance() -> None:
    at = scene()
    leader, follower = at.member(), at.member()
    at.stable(leader, follower)
    follower.topics = ["orders", "refunds"]
    follower.ask_to_join()
    assert follower.waits
    leader.join()
    at.settle(leader, follower)
    assert at.group.subscribed_topics == frozenset({"orders", "refunds"})


def test_the_protocol_is_the_one_that_most_like_best_among_those_that_all_have() -> None:
    at = scene()
    first = at.member(protocols=("a", "b", "c"))
    others = [at.member(protocols=("c", "b")), at.member(protocols=("b", "c")), at.member(protocols=("b", "x", "c"))]
    at.stable(first)
    for other in others:
        other.join()
    first.join()
    assert first.joined.protocol_name == "b"


def test_a_member_without_a_common_protocol_is_refused() -> None:
    at = scene()
    at.stable(at.member(protocols=("a", "b")))
    other = at.member(protocols=("c",))
    other.ask_to_join()
    assert other.join_answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    nothing = scene().member(protocols=())
    nothing.ask_to_join()
    assert nothing.join_answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_lets_nobody_in() -> None:
    at = scene(group_max_size=1)
    at.stable(at.member())
    other = at.member()
    other.ask_to_join()
    assert other.join_answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_leaving_is_a_rebalance_for_the_others_and_an_end_for_the_last() -> None:
    at = scene()
    first, second = at.member(), at.member()
    at.stable(first, second)
    assert first.leave() == ErrorCode.NONE
    assert second.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert at.group.roster.leader_id == second.member_id
    assert second.leave() == ErrorCode.NONE
    assert (at.group.state_name, at.group.generation) == ("Empty", 3)
    assert at.group.next_timer_ms() == float("inf")


def test_the_first_rebalance_waits_and_waits_longer_when_somebody_came() -> None:
    at = scene(group_initial_rebalance_delay_ms=3_000)
    first, second = at.member(rebalance_timeout_ms=8_000).join(), at.member(rebalance_timeout_ms=8_000)
    at.after(2_000)
    second.join()
    at.after(3_000)
    assert first.waits
    at.after(1_000)
    assert first.joined.generation_id == second.joined.generation_id == 1


def test_commits_are_taken_except_while_the_leader_assigns() -> None:
    at = scene()
    first, second = at.member(), at.member()
    assert at.member().commit_error(generation=-1) is ErrorCode.NONE
    at.stable(first)
    assert at.member().commit_error(generation=-1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert at.member().commit_error(generation=-1, is_transactional=True) is ErrorCode.NONE
    second.join()
    assert first.commit_error() is ErrorCode.NONE  # the old generation, as long as joins are awaited
    first.join()
    assert first.joined.generation_id == 2
    assert first.commit_error() is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.commit_error(is_transactional=True) is ErrorCode.NONE


def test_a_new_coordinator_knows_what_was_assigned_and_nothing_of_the_rebalance_under_way() -> None:
    at = scene()
    known, new = at.member(), at.member()
    at.stable(known)
    new.join()
    at.group.coordinator_moved(at.now_ms)
    assert new.join_answer.error_code == ErrorCode.NOT_COORDINATOR
    assert (at.group.state_name, at.group.generation) == ("Stable", 1)
    assert known.heartbeat() is ErrorCode.NONE
    share = known.sync()
    assert synced(share).assignment == known.member_id.encode()
    new.ask_to_join()
    assert new.join_answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    at.after(SESSION_MS)
    assert at.group.is_empty


def test_a_new_coordinator_takes_back_a_generation_that_was_never_assigned() -> None:
    at = scene()
    only = at.member()
    at.stable(only)
    only.join()
    assert only.joined.generation_id == 2
    at.group.coordinator_moved(at.now_ms)
    assert only.heartbeat() is ErrorCode.ILLEGAL_GENERATION


# --- static members (KIP-345) ----------------------------------------------------------------------------------------


def test_a_static_member_comes_back_without_a_rebalance_and_fences_its_predecessor() -> None:
    at = scene()
    other, before = at.member(), at.member(instance_id="till-1")
    at.stable(other, before)
    after = at.member(instance_id="till-1")
    after.ask_to_join()
    answer = after.joined
    assert (answer.generation_id, answer.skip_assignment, answer.leader) == (2, False, other.member_id)
    assert after.member_id != before.member_id
    share = after.sync()
    assert synced(share).assignment == before.member_id.encode()
    assert before.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert before.commit_error() is ErrorCode.FENCED_INSTANCE_ID
    assert other.heartbeat() is ErrorCode.NONE


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_that_comes_back_is_kept_from_assigning(version: int) -> None:
    """KIP-814; before, it was told that its predecessor leads."""
    at = scene()
    before = at.member(instance_id="till-1")
    at.stable(before)
    after = at.member(instance_id="till-1", version=version)
    after.ask_to_join()
    answer = after.joined
    if version == 9:
        assert (answer.leader, answer.skip_assignment, len(answer.members)) == (after.member_id, True, 1)
    else:
        assert (answer.leader, answer.skip_assignment, answer.members) == (before.member_id, False, [])


def test_a_static_member_that_comes_back_during_a_rebalance_fences_the_open_join() -> None:
    at = scene()
    leader, before = at.member(), at.member(instance_id="till-1")
    at.stable(leader)
    before.join()
    after = at.member(instance_id="till-1")
    after.ask_to_join()
    assert before.join_answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert after.waits
    leader.join()
    assert after.joined.generation_id == 2


def test_a_static_member_that_comes_back_before_the_assignment_begins_the_rebalance_again() -> None:
    at = scene()
    leader, before = at.member(), at.member(instance_id="till-1")
    at.stable(leader)
    before.join()
    leader.join()
    assert leader.joined.generation_id == before.joined.generation_id == 2
    after = at.member(instance_id="till-1")
    after.ask_to_join()
    assert at.group.state_name == "PreparingRebalance"
    leader.join()
    assert after.joined.generation_id == leader.joined.generation_id == 3


def test_an_absent_static_member_stays_in_the_group_until_its_session_ends() -> None:
    at = scene()
    leader, absent = at.member(rebalance_timeout_ms=5_000), at.member(instance_id="till-1", rebalance_timeout_ms=5_000)
    at.stable(leader, absent)
    leader.join()
    at.after(5_000)
    assert {told.member_id for told in leader.joined.members} == {leader.member_id, absent.member_id}


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    at = scene()
    at.stable(at.member(instance_id="till-1"))
    gone, unknown = MemberIdentity(group_instance_id="till-1"), MemberIdentity(group_instance_id="till-2")
    assert at.leave(unknown, gone) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert at.group.is_empty
