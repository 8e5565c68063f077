"""What operators are told of a group, of polls and of lags, and when: in virtual time, from what the managers know."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kwire.clock import NEVER_MS
from kwire.config import ConsumerConfig
from kwire.consumer_events import (
    ConsumerEvent,
    HeartbeatsAnswered,
    HeartbeatsUnanswered,
    LagExceeded,
    LagRecovered,
    PollOverdue,
    PollOverdueSoon,
    RebalanceBegan,
    RebalanceEnded,
)
from kwire.epochs import AssignmentEpoch
from kwire.managers.membership import MemberStatus
from kwire.managers.operator_watch import OperatorWatch
from kwire.metrics.coordinator import CoordinatorMetrics
from kwire.metrics.window import WindowSetting
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.states.partition import PartitionEvent
from kwire.subscription.partition import AssignedPartition

if TYPE_CHECKING:
    from kwire.managers.membership import Membership
    from kwire.subscription.subscription import Subscription

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
SESSION_MS = 10_000.0
POLLS_MS = 60_000.0


@dataclass
class Member:
    """As much of a membership as is looked at."""

    generation: int | None = 1
    reason: str = "it joins the group"
    blocks_coordinator: bool = False

    def status(self) -> MemberStatus:
        return MemberStatus(
            "STABLE",
            "",
            "me",
            self.generation,
            owes_callback=False,
            is_joining=False,
            awaits_poll=False,
            reason=self.reason,
        )


def partition(end: int, *, has_position: bool = True) -> AssignedPartition:
    """One of which nothing was consumed, and whose log ends here; without a position while it is being reset."""
    assigned = AssignedPartition(O0, AssignmentEpoch(1))
    assigned.machine.fire(PartitionEvent.SEEK)
    assigned.set_position(OffsetAndMetadata(0))
    assigned.ends_at(end, end)
    if not has_position:
        assigned.machine.fire(PartitionEvent.RESET_WANTED)
    return assigned


@dataclass
class Watched:
    """A watch, and what it has told."""

    member: Member = field(default_factory=Member)
    metrics: CoordinatorMetrics = field(
        default_factory=lambda: CoordinatorMetrics(WindowSetting(2, 30_000), is_classic=True)
    )
    partitions: dict[TopicPartition, AssignedPartition] = field(default_factory=dict)
    told: list[ConsumerEvent] = field(default_factory=list)
    polled_ms: float = 0.0

    def __post_init__(self) -> None:
        config = ConsumerConfig.of(
            bootstrap_servers="localhost:9092",
            group_id="billing",
            session_timeout_ms=int(SESSION_MS),
            max_poll_interval_ms=int(POLLS_MS),
            event_lag_records=100,
        )
        self.watch = OperatorWatch(
            config,
            cast("Membership", self.member),
            cast("Subscription", SimpleNamespace(partitions=self.partitions)),
            self.metrics,
            lambda: self.polled_ms,
            self.told.append,
        )

    def look(self, now_ms: float) -> float:
        """When it wants to look again."""
        result = self.watch.poll(now_ms)
        assert not result.requests
        assert result.wake_at_ms > now_ms, "the wait rule"
        return result.wake_at_ms

    def take(self) -> list[ConsumerEvent]:
        told = list(self.told)
        self.told.clear()
        return told


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_heartbeats_that_are_not_answered_are_told_of_twice_and_their_return_once(watched: Watched) -> None:
    """The second time the session may be over: the member may be a zombie, and not know it."""
    watched.metrics.heartbeat_answered_ms = 1_000.0
    watched.look(5_999.0)
    assert watched.take() == []
    watched.look(6_000.0)
    watched.look(7_000.0)
    assert watched.take() == [
        HeartbeatsUnanswered(unanswered_ms=5_000.0, session_timeout_ms=SESSION_MS, may_be_over=False)
    ]
    watched.look(11_500.0)
    watched.look(20_000.0)
    assert watched.take() == [
        HeartbeatsUnanswered(unanswered_ms=10_500.0, session_timeout_ms=SESSION_MS, may_be_over=True)
    ]
    watched.metrics.heartbeat_answered_ms = 21_000.0
    watched.look(21_000.0)
    assert watched.take() == [HeartbeatsAnswered(unanswered_ms=20_000.0, is_member=True)]


def test_a_process_that_was_stopped_for_longer_than_a_session_is_told_at_once(watched: Watched) -> None:
    watched.metrics.heartbeat_answered_ms = 1_000.0
    watched.look(1_000.0)
    watched.look(61_000.0)
    event = watched.take()[0]
    assert isinstance(event, HeartbeatsUnanswered)
    assert event.may_be_over


def test_a_group_that_has_gone_on_ends_it_too(watched: Watched) -> None:
    watched.metrics.heartbeat_answered_ms = 1_000.0
    watched.look(11_000.0)
    watched.take()
    watched.member.generation = None
    watched.look(12_000.0)
    assert watched.take() == [HeartbeatsAnswered(unanswered_ms=11_000.0, is_member=False)]


def test_an_open_join_is_a_sign_of_life(watched: Watched) -> None:
    watched.metrics.heartbeat_answered_ms = 1_000.0
    watched.member.blocks_coordinator = True
    watched.look(30_000.0)
    assert watched.take() == []


def test_the_watch_wakes_for_each_moment(watched: Watched) -> None:
    watched = Watched(partitions={})
    watched.metrics.heartbeat_answered_ms = 1_000.0
    assert watched.look(5_500.0) == 6_000.0
    assert watched.look(10_500.0) == 11_000.0


def test_a_poll_that_is_due_is_told_before_it_is_overdue(watched: Watched) -> None:
    watched.look(47_999.0)
    assert watched.take() == []
    watched.look(48_000.0)
    watched.look(59_000.0)
    assert watched.take() == [PollOverdueSoon(since_poll_ms=48_000.0, max_poll_interval_ms=POLLS_MS)]
    watched.member.generation = None  # the timer has made it leave, in the same turn
    watched.look(60_000.0)
    assert watched.take() == [PollOverdue(since_poll_ms=60_000.0, max_poll_interval_ms=POLLS_MS)]
    watched.polled_ms = 70_000.0
    watched.look(70_000.0)
    assert watched.take() == []


def test_who_is_no_member_need_not_poll(watched: Watched) -> None:
    watched.member.generation = None
    watched.look(90_000.0)
    assert watched.take() == []


def test_a_rebalance_has_a_reason_a_duration_and_an_end(watched: Watched) -> None:
    watched.member.reason = "the subscription changed"
    watched.metrics.rebalances.started(1_000.0)
    watched.look(1_000.0)
    watched.look(1_500.0)
    watched.metrics.rebalances.ended(3_000.0)
    watched.member.generation = 2
    watched.look(3_000.0)
    watched.look(4_000.0)
    assert watched.take() == [
        RebalanceBegan(reason="the subscription changed"),
        RebalanceEnded(reason="the subscription changed", duration_ms=2_000.0, succeeded=True, generation=2),
    ]


def test_one_that_is_broken_off_and_followed_by_another_ends_first(watched: Watched) -> None:
    watched.metrics.rebalances.started(1_000.0)
    watched.look(1_000.0)
    watched.take()
    watched.metrics.rebalances.broken_off(2_000.0)
    watched.metrics.rebalances.started(2_000.0)
    watched.look(2_000.0)
    ended, began = watched.take()
    assert isinstance(ended, RebalanceEnded)
    assert not ended.succeeded
    assert isinstance(began, RebalanceBegan)


def test_a_lag_is_told_of_when_it_begins_and_when_it_is_half_as_long(watched: Watched) -> None:
    """And not each time it crosses the bound."""
    watched.partitions[O0] = partition(end=100)
    watched.look(0.0)
    assert watched.take() == []
    for now_ms, end in ((1_000.0, 101), (2_000.0, 90), (3_000.0, 150), (4_000.0, 51)):
        watched.partitions[O0].ends_at(end, end)
        watched.look(now_ms)
    assert watched.take() == [LagExceeded(partition=O0, lag=101, bound=100)]
    watched.partitions[O0].ends_at(50, 50)
    watched.look(4_500.0)
    assert watched.take() == []  # looked at once a second
    watched.look(5_000.0)
    assert watched.take() == [LagRecovered(partition=O0, lag=50, bound=100)]


def test_without_a_bound_nobody_looks_at_lags() -> None:
    config = ConsumerConfig.of(bootstrap_servers="localhost:9092")
    member = Member(generation=None)
    metrics = CoordinatorMetrics(WindowSetting(2, 30_000), is_classic=True)
    nothing = cast("Subscription", SimpleNamespace(partitions={O0: partition(end=9_999)}))
    told: list[ConsumerEvent] = []
    watch = OperatorWatch(config, cast("Membership", member), nothing, metrics, lambda: 0.0, told.append)
    assert watch.poll(0.0).wake_at_ms == NEVER_MS
    assert told == []


def test_a_second_outage_is_told_of_from_its_beginning(watched: Watched) -> None:
    for answered_ms in (1_000.0, 50_000.0):
        watched.metrics.heartbeat_answered_ms = answered_ms
        watched.look(answered_ms)
        watched.take()
        watched.look(answered_ms + 5_000.0)
        assert [type(event) for event in watched.take()] == [HeartbeatsUnanswered]


def test_each_poll_begins_a_new_interval(watched: Watched) -> None:
    for polled_ms in (0.0, 100_000.0):
        watched.polled_ms = polled_ms
        watched.look(polled_ms + 47_999.0)
        assert watched.take() == []
        watched.look(polled_ms + 48_000.0)
        assert watched.take() == [PollOverdueSoon(since_poll_ms=48_000.0, max_poll_interval_ms=POLLS_MS)]


def test_without_a_heartbeat_answered_yet_there_is_nothing_to_wait_for(watched: Watched) -> None:
    watched.look(900_000.0)
    assert HeartbeatsUnanswered not in {type(event) for event in watched.take()}


def test_a_partition_that_was_taken_away_and_comes_back_is_told_of_again(watched: Watched) -> None:
    watched.partitions[O0] = partition(end=500)
    watched.look(0.0)
    watched.take()
    taken_away = watched.partitions.pop(O0)
    watched.look(1_000.0)
    watched.partitions[O0] = taken_away
    watched.look(2_000.0)
    assert watched.take() == [LagExceeded(partition=O0, lag=500, bound=100)]


@pytest.mark.parametrize("unknown", ["position", "end"])
def test_a_lag_that_is_not_known_is_told_to_nobody_and_hides_no_other(watched: Watched, unknown: str) -> None:
    watched.partitions[O0] = partition(end=500 if unknown == "position" else -1, has_position=unknown != "position")
    watched.partitions[O1] = partition(end=101)
    watched.look(0.0)
    assert watched.take() == [LagExceeded(partition=O1, lag=101, bound=100)]


def test_who_is_ahead_of_the_end_that_is_known_has_no_lag(watched: Watched) -> None:
    """The end is as old as the newest answer."""
    watched.partitions[O0] = partition(end=500)
    watched.look(0.0)
    watched.partitions[O0].consumed = OffsetAndMetadata(600)
    watched.look(1_000.0)
    assert watched.take()[1:] == [LagRecovered(partition=O0, lag=0, bound=100)]


def test_a_rebalance_that_failed_is_told_as_such(watched: Watched) -> None:
    watched.metrics.rebalances.started(1_000.0)
    watched.look(1_000.0)
    watched.metrics.rebalances.broken_off(2_500.0)
    watched.member.generation = None
    watched.look(2_500.0)
    ended = watched.take()[1]
    assert ended == RebalanceEnded(reason="it joins the group", duration_ms=1_500.0, succeeded=False, generation=None)
