"""A member's way through groups of the consumer protocol (KIP-848), in virtual time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from kwire.epochs import Attempt
from kwire.events import CallbackCompleted, CallbackKind, EnforceRebalance, LookUpOffsets, Reply, RunCallback, Subscribe
from kwire.managers.consumer_heartbeat import MAX_INTERVAL_MS, new_member_id
from kwire.managers.unsent import Channel
from kwire.model import SubscriptionPattern, TopicPartition
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.states.consumer_group import MemberState

if TYPE_CHECKING:
    from tests.managers.consumer_scenario import (
        HEARTBEAT,
        INTERVAL_MS,
        ConsumerScenario,
        assignment,
        ids,
        owned,
        said,
        topic_id,
    )
    from tests.managers.scenario import all_at_rest
else:
    from consumer_scenario import HEARTBEAT, INTERVAL_MS, ConsumerScenario, assignment, ids, owned, said, topic_id
    from scenario import all_at_rest

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
CLICKS = TopicPartition("clicks", 0)
S = MemberState
Make = Callable[..., ConsumerScenario]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes scenarios; at the end of the test none of them may spin."""
    with all_at_rest(ConsumerScenario) as make_one:
        yield make_one


@pytest.fixture
def scenario(make: Make) -> ConsumerScenario:
    return make()


# --- joining ----------------------------------------------------------------------------------------------------


def test_nothing_happens_before_the_first_poll(scenario: ConsumerScenario) -> None:
    scenario.subscribe("orders")
    assert not scenario.pending(FindCoordinatorRequest)
    scenario.poll()
    assert scenario.pending(FindCoordinatorRequest)
    assert scenario.member_state() is S.JOINING


def test_the_first_heartbeat_says_everything(make: Make) -> None:
    scenario = make(
        client_rack="r1", group_instance_id="i1", group_remote_assignor="range", max_poll_interval_ms=60_000
    )
    scenario.start("orders", "clicks")
    first = scenario.heartbeat
    assert (first.group_id, first.member_epoch, first.instance_id, first.rack_id) == ("billing", 0, "i1", "r1")
    assert (first.rebalance_timeout_ms, first.server_assignor) == (60_000, "range")
    assert first.subscribed_topic_names == ["clicks", "orders"]
    assert first.subscribed_topic_regex is None
    assert owned(first) == {}
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", first.member_id)
    assert scenario.unsent(HEARTBEAT).destination.channel is Channel.COORDINATOR


def test_a_member_hands_out_what_it_is_assigned_and_acknowledges_it(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.accept(3, assignment(O0, O1))
    assert scenario.member_state() is S.RECONCILING
    assert not scenario.flowing()
    callback = scenario.run_callback()
    assert (callback.kind, set(callback.partitions)) == (CallbackKind.ASSIGNED, {O0, O1})
    assert scenario.member_state() is S.STABLE
    assert scenario.flowing() == {O0, O1}
    acknowledgement = scenario.heartbeat
    assert acknowledgement.member_epoch == 3
    assert owned(acknowledgement) == ids(O0, O1)
    assert said(acknowledgement) == {"owned"}


def test_group_metadata_names_the_epoch_and_the_member(scenario: ConsumerScenario) -> None:
    scenario.own(O0, epoch=7)
    group = scenario.subscription.view.group
    assert group is not None
    assert (group.generation_id, len(group.member_id)) == (7, 22)
    scenario.unsubscribe()
    group = scenario.subscription.view.group
    assert group is not None
    assert (group.generation_id, group.member_id) == (-1, "")


def test_a_member_that_gets_nothing_hears_so_once(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.accept(1, assignment())
    callback = scenario.run_callback()
    assert (callback.kind, callback.partitions) == (CallbackKind.ASSIGNED, frozenset())
    assert scenario.member_state() is S.STABLE
    scenario.accept(1)
    scenario.beat()
    scenario.accept(2, assignment())
    assert not scenario.callbacks
    assert scenario.member_state() is S.STABLE


def test_a_broker_that_says_nothing_of_an_assignment_is_believed(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.accept(1, None)
    assert scenario.member_state() is S.STABLE
    assert not scenario.callbacks


def test_the_interval_is_the_brokers(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(1, interval_ms=700)
    scenario.advance(699)
    assert not scenario.pending(HEARTBEAT)
    scenario.advance(1)
    assert said(scenario.heartbeat) == set()


def test_only_one_heartbeat_is_in_flight(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.advance(3 * INTERVAL_MS)
    assert len(scenario.pending(HEARTBEAT)) == 1


def test_an_interval_of_days_is_no_reason_to_be_silent(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(1, interval_ms=2**31 - 1)
    scenario.advance(MAX_INTERVAL_MS)
    assert said(scenario.heartbeat) == set()


def test_an_absurd_interval_is_ignored(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(1, interval_ms=0)
    scenario.advance(INTERVAL_MS - 1)
    assert not scenario.pending(HEARTBEAT)


# --- what a heartbeat carries -----------------------------------------------------------------------------------


def test_a_failed_heartbeat_makes_the_next_one_say_everything_but_the_rack(make: Make) -> None:
    scenario = make(client_rack="r1")
    scenario.own(O0)
    scenario.beat()
    scenario.fail(HEARTBEAT)
    scenario.advance(100)
    scenario.serve()
    assert said(scenario.heartbeat) == {"timeout", "names", "owned"}
    assert owned(scenario.heartbeat) == ids(O0)


def test_a_lost_acknowledgement_is_made_up_for(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.accept(1, assignment(O0))
    scenario.run_callback()
    scenario.fail(HEARTBEAT)
    scenario.advance(100)
    scenario.serve()
    assert owned(scenario.heartbeat) == ids(O0)


def test_an_acknowledgement_waits_for_the_heartbeat_in_flight(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(2, assignment(O0, O1))
    scenario.beat()
    scenario.run_callback()
    assert scenario.member_state() is S.ACKNOWLEDGING
    assert owned(scenario.heartbeat) is None
    scenario.accept(2)
    assert scenario.member_state() is S.STABLE
    assert owned(scenario.heartbeat) == ids(O0, O1)


def test_a_changed_subscription_is_told_at_once(scenario: ConsumerScenario) -> None:
    scenario.topics["clicks"] = (1,)
    scenario.own(O0)
    scenario.subscribe("orders", "clicks")
    assert scenario.heartbeat.subscribed_topic_names == ["clicks", "orders"]
    assert said(scenario.heartbeat) == {"names"}
    scenario.serve()


def test_what_is_no_longer_subscribed_stops_before_the_broker_takes_it(scenario: ConsumerScenario) -> None:
    scenario.topics["clicks"] = (1,)
    scenario.own(O0, CLICKS)
    scenario.subscribe("clicks")
    assert scenario.flowing() == {CLICKS}
    scenario.subscribe("clicks", "orders")
    assert scenario.flowing() == {CLICKS, O0}
    scenario.accept(1)
    scenario.accept(1)


def test_an_expression_for_the_broker_is_sent_and_taken_back(scenario: ConsumerScenario) -> None:
    scenario.post(Subscribe(pattern=SubscriptionPattern("or.*"), reply=Reply()))
    scenario.poll()
    scenario.serve()
    first = scenario.unsent(HEARTBEAT)
    assert first.min_version == 1
    assert (scenario.heartbeat.subscribed_topic_regex, scenario.heartbeat.subscribed_topic_names) == ("or.*", [])
    scenario.accept(1, assignment())
    scenario.run_callback()
    scenario.accept(1)
    scenario.subscribe("orders")
    assert scenario.heartbeat.subscribed_topic_regex == ""
    assert scenario.heartbeat.subscribed_topic_names == ["orders"]
    # The heartbeat that took it back may be lost, so the next full one does it again.
    scenario.fail(HEARTBEAT)
    scenario.advance(100)
    scenario.serve()
    assert scenario.heartbeat.subscribed_topic_regex == ""


def test_a_member_that_has_left_has_no_expression_to_take_back(scenario: ConsumerScenario) -> None:
    scenario.post(Subscribe(pattern=SubscriptionPattern("or.*"), reply=Reply()))
    scenario.poll()
    scenario.serve()
    scenario.accept(1, assignment())
    scenario.run_callback()
    scenario.accept(1)
    scenario.unsubscribe()
    scenario.accept(-1)
    scenario.start("orders")
    assert scenario.heartbeat.subscribed_topic_regex is None


def test_topics_by_their_names_need_no_newer_version(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    assert scenario.unsent(HEARTBEAT).min_version is None


def test_topics_of_an_expression_are_found_by_id(scenario: ConsumerScenario) -> None:
    scenario.post(Subscribe(pattern=SubscriptionPattern("or.*"), reply=Reply()))
    scenario.poll()
    scenario.serve()
    scenario.accept(1, assignment(O0))
    lookup = scenario.unsent(MetadataRequest)
    assert lookup.min_version == 12
    asked = scenario.request(MetadataRequest).topics
    assert asked is not None
    assert [(topic.topic_id, topic.name) for topic in asked] == [(topic_id("orders"), None)]
    scenario.serve()
    assert set(scenario.run_callback().partitions) == {O0}
    scenario.accept(1)
    scenario.serve()
    scenario.answer_committed({O0: 4})
    scenario.serve()
    assert scenario.pending(FetchRequest)


def test_topics_of_an_expression_are_never_created(scenario: ConsumerScenario) -> None:
    """Nobody has named them: one that was deleted came back at once, empty, and no operator could delete it."""
    scenario.post(Subscribe(pattern=SubscriptionPattern("or.*"), reply=Reply()))
    scenario.poll()
    scenario.serve()
    scenario.accept(1, assignment(O0))
    scenario.serve()
    scenario.run_callback()
    scenario.managers.metadata.request_update()
    scenario.advance(1_000)
    asked = scenario.request(MetadataRequest)
    assert [topic.name for topic in asked.topics or ()] == ["orders"]
    assert not asked.allow_auto_topic_creation
    assert scenario.unsent(MetadataRequest).min_version == 4
    scenario.serve()
    scenario.post(LookUpOffsets({CLICKS: -1}, Reply()))
    assert scenario.request(MetadataRequest).allow_auto_topic_creation, "the user has named this one"


def test_a_pattern_waits_for_all_topics_and_follows_new_ones(scenario: ConsumerScenario) -> None:
    scenario.topics |= {"orders-eu": (1,), "clicks": (1,)}
    scenario.post(Subscribe(pattern=re.compile("^orders"), reply=Reply()))
    scenario.poll()
    assert scenario.member_state() is S.UNSUBSCRIBED
    scenario.serve()
    assert scenario.heartbeat.subscribed_topic_names == ["orders", "orders-eu"]
    scenario.accept(1, assignment())
    scenario.run_callback()
    scenario.accept(1)
    scenario.topics["orders-us"] = (1,)
    scenario.managers.metadata.request_update()
    scenario.advance(1_000)
    scenario.serve()
    assert scenario.heartbeat.subscribed_topic_names == ["orders", "orders-eu", "orders-us"]


def test_going_over_to_a_pattern_does_not_unsubscribe_in_between(scenario: ConsumerScenario) -> None:
    scenario.topics["orders-eu"] = (1,)
    scenario.own(O0)
    scenario.post(Subscribe(pattern=re.compile("^orders"), reply=Reply()))
    assert not scenario.pending(HEARTBEAT)
    assert scenario.flowing() == {O0}
    scenario.serve()
    assert scenario.heartbeat.subscribed_topic_names == ["orders", "orders-eu"]


def test_enforce_rebalance_only_warns(scenario: ConsumerScenario, caplog: pytest.LogCaptureFixture) -> None:
    scenario.own(O0)
    scenario.post(EnforceRebalance("because"))
    assert not scenario.pending(HEARTBEAT)
    assert "does nothing" in caplog.text


# --- reconciliation ---------------------------------------------------------------------------------------------


def test_what_is_kept_flows_while_the_rest_is_given_back(scenario: ConsumerScenario) -> None:
    scenario.own(O0, O1)
    epoch = scenario.subscription.view.epochs[O0]
    scenario.beat()
    scenario.accept(2, assignment(O0))
    assert scenario.flowing() == {O0}
    revoked = scenario.run_callback()
    assert (revoked.kind, set(revoked.partitions)) == (CallbackKind.REVOKED, {O1})
    assert set(scenario.subscription.partitions) == {O0}
    assert not scenario.pending(HEARTBEAT)
    assigned = scenario.run_callback()
    assert (assigned.kind, assigned.partitions) == (CallbackKind.ASSIGNED, frozenset())
    assert owned(scenario.heartbeat) == ids(O0)
    assert scenario.subscription.view.epochs[O0] == epoch


def test_only_what_is_new_is_handed_out(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(2, assignment(O0, O1))
    assert scenario.flowing() == {O0}
    assert set(scenario.run_callback().partitions) == {O1}
    assert scenario.flowing() == {O0, O1}
    assert owned(scenario.heartbeat) == ids(O0, O1)
    scenario.answer_committed({O1: 5})


def test_what_was_delivered_is_committed_when_more_is_coming(make: Make) -> None:
    """As in Java, and nobody waits for it. Only partitions that were given back had a commit in front."""
    scenario = make(enable_auto_commit=True, auto_commit_interval_ms=600_000)
    scenario.own(O0)
    scenario.delivered(O0, 12)
    scenario.beat()
    scenario.accept(2, assignment(O0, O1))
    (topic,) = scenario.request(OffsetCommitRequest).topics
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 12)]
    assert set(scenario.run_callback().partitions) == {O1}
    assert scenario.member_state() is S.STABLE


@pytest.mark.parametrize(
    ("auto_commit", "target"),
    [(False, (O0, O1)), (True, (O0,)), (True, (O1,)), (True, ())],
    ids=["without auto-commit", "the same", "another one", "nothing"],
)
def test_a_target_makes_no_commit_of_its_own(make: Make, auto_commit: bool, target: tuple[TopicPartition, ...]) -> None:
    """What is given back is committed by the application thread, in front of the callback."""
    scenario = make(enable_auto_commit=auto_commit, auto_commit_interval_ms=600_000)
    scenario.own(O0)
    scenario.delivered(O0, 12)
    scenario.beat()
    scenario.accept(2, assignment(*target))
    assert not scenario.pending(OffsetCommitRequest)


def test_giving_back_comes_before_taking(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(2, assignment(O1))
    assert [callback.kind for callback in scenario.callbacks] == [CallbackKind.REVOKED]
    assert O1 not in scenario.subscription.partitions
    scenario.run_callback()
    assert [callback.kind for callback in scenario.callbacks] == [CallbackKind.ASSIGNED]
    scenario.run_callback()
    assert owned(scenario.heartbeat) == ids(O1)
    scenario.answer_committed({O1: 5})


def test_heartbeats_go_on_while_the_application_runs_its_callback(scenario: ConsumerScenario) -> None:
    scenario.own(O0, O1)
    scenario.beat()
    scenario.accept(2, assignment(O0))
    scenario.beat()
    assert scenario.member_state() is S.RECONCILING
    assert scenario.heartbeat.member_epoch == 2
    assert owned(scenario.heartbeat) is None


def test_a_newer_target_replaces_the_one_that_waits(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(2, assignment())
    scenario.beat()
    scenario.accept(3, assignment(O1))
    assert scenario.run_callback().kind is CallbackKind.REVOKED
    assert set(scenario.run_callback().partitions) == {O1}
    assert owned(scenario.heartbeat) == ids(O1)
    assert scenario.heartbeat.member_epoch == 3
    scenario.answer_committed({O1: 5})


def test_a_target_that_came_during_the_assigned_callback_follows_the_acknowledgement(
    scenario: ConsumerScenario,
) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(2, assignment(O0, O1))
    scenario.beat()
    scenario.accept(3, assignment(O0))
    scenario.run_callback()
    assert owned(scenario.heartbeat) == ids(O0, O1)
    assert scenario.member_state() is S.RECONCILING
    revoked = scenario.run_callback()
    assert (revoked.kind, set(revoked.partitions)) == (CallbackKind.REVOKED, {O1})
    scenario.accept(3)
    scenario.run_callback()
    assert owned(scenario.heartbeat) == ids(O0)


def test_a_target_that_comes_before_the_acknowledgement_is_sent_is_remembered(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(2, assignment(O0, O1))
    scenario.beat()
    scenario.run_callback()
    assert scenario.member_state() is S.ACKNOWLEDGING
    scenario.accept(3, assignment())
    assert scenario.member_state() is S.RECONCILING
    assert owned(scenario.heartbeat) == ids(O0, O1)
    assert set(scenario.run_callback().partitions) == {O0, O1}
    scenario.run_callback()
    scenario.accept(3)


def test_the_same_target_again_means_nothing(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(2, assignment(O0))
    assert scenario.member_state() is S.STABLE
    assert not scenario.callbacks


def test_what_is_known_by_name_is_taken_and_the_rest_waits(scenario: ConsumerScenario) -> None:
    scenario.start("orders", "clicks")
    scenario.accept(1, assignment(O0, CLICKS))
    assert set(scenario.run_callback().partitions) == {O0}
    assert owned(scenario.heartbeat) == ids(O0)
    assert scenario.member_state() is S.RECONCILING
    scenario.accept(1)
    scenario.topics["clicks"] = (1,)
    scenario.advance(3_000)
    scenario.serve()
    assert set(scenario.run_callback().partitions) == {CLICKS}
    assert owned(scenario.heartbeat) == ids(CLICKS, O0)
    assert scenario.member_state() is S.STABLE
    scenario.accept(1)


def test_a_new_member_is_not_told_of_an_assignment_without_known_topics(scenario: ConsumerScenario) -> None:
    scenario.start("clicks")
    scenario.accept(1, assignment(CLICKS))
    assert not scenario.callbacks
    for _ in range(3):
        scenario.serve()
        assert owned(scenario.beat()) is None
        scenario.accept(1)
    assert scenario.member_state() is S.RECONCILING


def test_another_unknown_topic_does_not_wait_for_the_back_off_of_the_first(scenario: ConsumerScenario) -> None:
    scenario.start("clicks", "views")
    scenario.accept(1, assignment(CLICKS))
    for _ in range(3):
        scenario.serve()
        scenario.advance(1_000)
    scenario.serve()
    assert not scenario.pending(MetadataRequest)
    scenario.beat()
    scenario.serve()
    scenario.accept(2, assignment(TopicPartition("views", 0)))
    asked = [topic.topic_id for r in scenario.requests(MetadataRequest) for topic in r.topics or []]
    assert topic_id("views") in asked
    scenario.serve()


def test_a_target_that_is_told_again_does_not_hurry_the_search_for_its_topics(scenario: ConsumerScenario) -> None:
    scenario.start("clicks")
    scenario.accept(1, assignment(CLICKS))
    for _ in range(3):
        scenario.serve()
        scenario.advance(1_000)
    scenario.serve()
    scenario.turn()
    assert not scenario.pending(MetadataRequest)


def test_unknown_topics_that_are_taken_away_again_leave_nothing_to_do(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.beat()
    scenario.accept(2, assignment(O0, CLICKS))
    assert scenario.member_state() is S.RECONCILING
    scenario.beat()
    scenario.accept(3, assignment(O0))
    assert scenario.member_state() is S.STABLE
    assert not scenario.callbacks
    scenario.serve()


def test_a_topic_that_was_recreated_is_given_back_first(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    before = scenario.subscription.view.epochs[O0]
    scenario.incarnations["orders"] = 2
    scenario.beat()
    scenario.accept(2, assignment(O0, incarnation=2))
    assert scenario.run_callback().kind is CallbackKind.REVOKED
    assert scenario.run_callback().partitions == frozenset()
    assert owned(scenario.heartbeat) == {}
    scenario.accept(2)
    scenario.serve()
    assert scenario.run_callback().partitions == {O0}
    assert owned(scenario.heartbeat) == {topic_id("orders", 2): [0]}
    assert scenario.subscription.view.epochs[O0] > before
    scenario.answer_committed({O0: 0})


def test_owned_topics_keep_their_name_when_metadata_loses_them(scenario: ConsumerScenario) -> None:
    scenario.own(O0, O1)
    del scenario.topics["orders"]
    scenario.managers.metadata.request_update()
    scenario.turn()
    scenario.serve()
    scenario.beat()
    scenario.accept(2, assignment(O0))
    assert set(scenario.run_callback().partitions) == {O1}
    assert set(scenario.subscription.partitions) == {O0}


def test_positions_are_looked_up_as_this_member(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.accept(4, assignment(O0))
    scenario.run_callback()
    group = scenario.request(OffsetFetchRequest).groups[0]
    assert (group.member_id, group.member_epoch) == (scenario.member.identity().member_id, 4)


def test_the_end_of_a_callback_nobody_waits_for_changes_nothing(scenario: ConsumerScenario) -> None:
    scenario.own(O0)
    scenario.post(CallbackCompleted(Attempt(99)))
    assert scenario.member_state() is S.STABLE


def test_ids_never_begin_with_a_dash() -> None:
    candidates = iter([UUID(bytes=b"\xf8" + bytes(15)), UUID(bytes=b"\x00" * 15 + b"\x01")])
    assert new_member_id(lambda: next(candidates)) == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_callbacks_carry_the_epoch_of_the_subscription(scenario: ConsumerScenario) -> None:
    scenario.start("orders")
    scenario.accept(1, assignment(O0))
    callback = scenario.take_event(RunCallback)
    assert callback.subscription_epoch == scenario.subscription.epoch


def test_a_refused_topic_lookup_is_tried_again(scenario: ConsumerScenario) -> None:
    scenario.start("clicks")
    scenario.accept(1, assignment(CLICKS))
    scenario.serve()
    failures = 0
    while failures < 3:
        scenario.advance(1_000)
        if scenario.pending(MetadataRequest):
            scenario.fail(MetadataRequest)
            failures += 1
    scenario.topics["clicks"] = (1,)
    scenario.advance(2_000)
    scenario.serve()
    assert scenario.run_callback().partitions == {CLICKS}
    assert not scenario.errors
