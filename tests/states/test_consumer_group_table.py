"""What the consumer group's table says of KIP-848, checked against what the Java client allows."""

from __future__ import annotations

from collections import Counter

import pytest

from kwire.states.consumer_group import CONSUMER_GROUP, FACTS, MemberEffect, MemberEvent, MemberState

S, E, F = MemberState, MemberEvent, MemberEffect

# Which states each state of the Java client's MemberState may be entered from: an oracle that is not ours.
JAVA_PREDECESSORS = {
    S.UNSUBSCRIBED: {S.PREPARE_LEAVING, S.LEAVING, S.FENCED},
    S.JOINING: {S.FENCED, S.UNSUBSCRIBED, S.STALE},
    S.RECONCILING: {S.STABLE, S.JOINING, S.ACKNOWLEDGING, S.RECONCILING},
    S.ACKNOWLEDGING: {S.RECONCILING},
    S.STABLE: {S.JOINING, S.ACKNOWLEDGING, S.RECONCILING},
    S.FENCED: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.PREPARE_LEAVING, S.LEAVING},
    S.PREPARE_LEAVING: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.UNSUBSCRIBED},
    S.LEAVING: {S.PREPARE_LEAVING},
    S.STALE: {S.LEAVING},
    S.FATAL: {
        *(S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING),
        *(S.PREPARE_LEAVING, S.LEAVING, S.UNSUBSCRIBED),
    },
}
# Moves of that client which nothing could bring about in this one.
NOT_MET = {(S.PREPARE_LEAVING, S.FENCED), (S.PREPARE_LEAVING, S.FATAL), (S.UNSUBSCRIBED, S.FATAL)}
MEMBER = {S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE}


def test_the_moves_are_those_of_the_java_client_without_three_that_cannot_happen() -> None:
    moves = {(row.source, row.target) for row in CONSUMER_GROUP.rows}
    allowed = {(source, target) for target, sources in JAVA_PREDECESSORS.items() for source in sources}
    assert moves == allowed - NOT_MET
    assert NOT_MET.issubset(allowed)
    assert len(allowed) == 34


def test_every_one_of_the_150_cells_is_argued() -> None:
    answered = [*((row.source, row.event) for row in CONSUMER_GROUP.rows), *CONSUMER_GROUP.dropped]
    counts = Counter([*answered, *CONSUMER_GROUP.impossible])
    assert set(counts) == {(state, event) for state in S for event in E}
    assert set(counts.values()) == {1}
    assert len(counts) == 150


@pytest.mark.parametrize("state", [state for state in S if state is not S.FATAL])
def test_stable_can_be_reached_from_everywhere_but_fatal(state: MemberState) -> None:
    seen, todo = {state}, [state]
    while todo:
        source = todo.pop()
        new = {row.target for row in CONSUMER_GROUP.rows if row.source is source} - seen
        seen |= new
        todo += new
    assert S.STABLE in seen
    assert S.FATAL in seen


def test_fatal_is_the_end() -> None:
    assert not [row for row in CONSUMER_GROUP.rows if row.source is S.FATAL]


def test_every_state_says_what_it_waits_for() -> None:
    assert set(FACTS) == set(S)
    assert all(facts.waits_for for facts in FACTS.values())


def test_members_heartbeat_take_targets_and_must_be_polled() -> None:
    assert {state for state in S if FACTS[state].takes_target} == MEMBER
    assert {state for state in S if FACTS[state].poll_timer} == MEMBER
    assert {state for state in S if FACTS[state].heartbeats} == {*MEMBER, S.LEAVING}


def test_joins_acknowledgements_and_leaves_do_not_wait_for_the_interval() -> None:
    assert {state for state in S if FACTS[state].at_once} == {S.JOINING, S.ACKNOWLEDGING, S.LEAVING}


def test_whoever_loses_the_membership_stops_fetching_before_the_callback_is_asked_for() -> None:
    for row in CONSUMER_GROUP.rows:
        if row.target in (S.FENCED, S.FATAL):
            assert row.effects.index(F.STOP_FETCHING) < row.effects.index(F.CALL_LOST)
            assert F.FORGET_MEMBER in row.effects
            assert F.IGNORE_ANSWERS in row.effects


def test_partitions_are_dropped_before_a_member_joins_again() -> None:
    for row in CONSUMER_GROUP.rows:
        if row.target is S.JOINING and row.source is not S.UNSUBSCRIBED:
            assert row.effects == (F.DROP_PARTITIONS, F.START_JOINING)


def test_every_way_out_of_the_membership_stops_fetching_and_forgets_the_epoch() -> None:
    leaving = [row for row in CONSUMER_GROUP.rows if row.event is E.LEAVE_WANTED and row.source in MEMBER]
    assert len(leaving) == len(MEMBER)
    assert all(row.effects == (F.STOP_FETCHING,) for row in leaving)
    assert all(F.FORGET_MEMBER in row.effects for row in CONSUMER_GROUP.rows if row.source is S.PREPARE_LEAVING)


def test_whoever_is_out_owns_nothing() -> None:
    """By the way of a farewell, or of a fence after which nobody joins again; no broker, no partitions."""
    for row in CONSUMER_GROUP.rows:
        if row.target is S.UNSUBSCRIBED and row.source is not S.PREPARE_LEAVING:
            assert row.effects == (F.DROP_PARTITIONS,)
