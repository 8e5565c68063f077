"""What the user wants, what was assigned, and the views the application thread gets of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from random import Random
from typing import TYPE_CHECKING

import pytest

from kwire.config import OffsetReset, ResetKind
from kwire.epochs import AssignmentEpoch
from kwire.errors import IllegalTransitionError
from kwire.events import AssignmentView
from kwire.holds import HOLD_FACTS, Hold
from kwire.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, leader_epoch_or_none
from kwire.states.partition import PartitionEvent, PartitionState
from kwire.subscription.partition import AssignedPartition
from kwire.subscription.subscription import Subscription, SubscriptionKind

if TYPE_CHECKING:
    from tests.instruction_counts import instructions_of
else:
    from instruction_counts import instructions_of

A, B, C = (TopicPartition("orders", number) for number in range(3))
AT_TEN = OffsetAndMetadata(10, "note", 4)
EARLIEST = OffsetReset(ResetKind.EARLIEST)


class Watched:
    """A subscription with everything it publishes and drops."""

    def __init__(self) -> None:
        self.views: list[AssignmentView] = []
        self.dropped: list[set[TopicPartition]] = []
        self.subscription = Subscription(self.views.append, self._drop)

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self.dropped.append(set(partitions))

    def assign(self, *partitions: TopicPartition) -> Subscription:
        self.subscription.assign_manually(frozenset(partitions))
        return self.subscription

    @property
    def view(self) -> AssignmentView:
        return self.views[-1]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_each_act_of_the_user_is_a_new_generation(watched: Watched) -> None:
    subscription = watched.subscription
    subscription.subscribe(frozenset({"orders"}), None)
    watched.assign(A)
    subscription.unsubscribe()
    assert [view.subscription_epoch for view in watched.views] == [1, 2, 3]
    assert [view.subscribed for view in watched.views] == [True, True, False]
    assert [view.is_group for view in watched.views] == [True, False, False]


def test_each_change_of_topics_or_partitions_is_a_new_version_and_nothing_else_is(watched: Watched) -> None:
    subscription = watched.subscription
    versions = [subscription.version]
    for change in (
        lambda: subscription.subscribe(frozenset({"orders"}), None),
        lambda: subscription.add(frozenset({A})),
        lambda: subscription.remove({A}),
        subscription.unsubscribe,
        lambda: watched.assign(A),
    ):
        change()
        assert subscription.version not in versions
        versions.append(subscription.version)
    subscription.hold({A}, Hold.USER_PAUSED)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    subscription.publish()
    assert subscription.version == versions[-1]


def test_subscribing_keeps_partitions_until_the_rebalance_takes_them(watched: Watched) -> None:
    watched.subscription.subscribe(frozenset({"orders"}), None)
    watched.subscription.add(frozenset({A}))
    watched.subscription.subscribe(frozenset({"clicks"}), None)
    assert set(watched.view.epochs) == {A}
    assert watched.view.topics == {"clicks"}


def test_a_pattern_tells_whether_its_topics_changed(watched: Watched) -> None:
    subscription = watched.subscription
    subscription.subscribe(frozenset(), re.compile("click|ord"))
    assert subscription.kind is SubscriptionKind.PATTERN
    assert subscription.match_pattern(["orders", "other"])
    assert not subscription.match_pattern(["orders", "another"])
    assert subscription.match_pattern(["orders", "my-clicks"])  # found anywhere in the name, as with Java's matcher
    assert watched.view.topics == {"orders", "my-clicks"}
    subscription.subscribe(frozenset({"orders"}), None)
    assert not subscription.match_pattern(["clicks"])


def test_what_stays_assigned_keeps_its_position_and_its_records(watched: Watched) -> None:
    subscription = watched.assign(A, B)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    epoch = subscription.partitions[A].epoch
    watched.assign(A, C)
    assert subscription.partitions[A].epoch == epoch
    assert subscription.partitions[A].fetch_offset == 10
    assert watched.dropped == [{B}]
    assert subscription.initializing == {C}


def test_a_partition_that_comes_back_has_another_epoch(watched: Watched) -> None:
    first = watched.assign(A).partitions[A].epoch
    watched.assign(B)
    assert watched.assign(A).partitions[A].epoch > first


def test_what_a_group_gave_is_withheld_until_its_callback_has_run(watched: Watched) -> None:
    subscription = watched.subscription
    subscription.subscribe(frozenset({"orders"}), None)
    subscription.add(frozenset({A, B}))
    assert watched.view.withheld == {A, B}
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    assert not subscription.partitions[A].fetchable(0.0)
    subscription.unhold({A, C}, Hold.CALLBACK_PENDING)
    assert watched.view.withheld == {B}
    assert subscription.partitions[A].fetchable(0.0)


def test_paused_partitions_are_withheld_and_not_fetched(watched: Watched) -> None:
    subscription = watched.assign(A)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    subscription.hold({A, C}, Hold.USER_PAUSED)
    assert (watched.view.paused, watched.view.withheld) == (frozenset({A}), frozenset({A}))
    assert not subscription.partitions[A].fetchable(0.0)
    subscription.unhold({A}, Hold.USER_PAUSED)
    assert (watched.view.paused, watched.view.withheld) == (frozenset(), frozenset())


def test_every_change_of_a_partition_marks_it_as_touched(watched: Watched) -> None:
    subscription = watched.assign(A, B)
    acts: list[Callable[[], None]] = [
        lambda: subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN),
        lambda: subscription.hold({A}, Hold.USER_PAUSED),
        lambda: subscription.hold({A}, Hold.CALLBACK_PENDING),
        lambda: subscription.unhold({A}, Hold.CALLBACK_PENDING),
        lambda: subscription.remove({A}),
    ]
    for act in acts:
        subscription.touched.clear()
        act()
        assert subscription.touched == {A}


def test_views_do_not_change_after_they_were_published(watched: Watched) -> None:
    watched.assign(A)
    before = watched.view
    watched.assign(A, B)
    watched.subscription.hold({A}, Hold.USER_PAUSED)
    assert set(before.epochs) == {A}
    assert before.paused == frozenset()


def test_group_metadata_is_published_when_it_changes(watched: Watched) -> None:
    group = ConsumerGroupMetadata(group_id="billing", generation_id=3)
    watched.subscription.set_group(group)
    watched.subscription.set_group(group)
    assert len(watched.views) == 1
    assert watched.view.group == group


# --- positions --------------------------------------------------------------------------------------------------


def test_a_position_takes_the_offset_and_the_epoch_but_not_the_metadata_of_a_commit(watched: Watched) -> None:
    subscription = watched.assign(A)
    subscription.fire(A, PartitionEvent.COMMITTED_OFFSET_FOUND, position=AT_TEN)
    assert subscription.consumed() == {A: OffsetAndMetadata(10, "", 4)}
    assert subscription.all_have_positions


def test_partitions_are_kept_track_of_on_their_way_to_a_position(watched: Watched) -> None:
    subscription = watched.assign(A)
    assert (subscription.initializing, subscription.awaiting_reset) == ({A}, set())
    subscription.fire(A, PartitionEvent.NO_COMMITTED_OFFSET, reset=EARLIEST)
    assert (subscription.initializing, subscription.awaiting_reset) == (set(), {A})
    assert subscription.partitions[A].reset == EARLIEST
    assert subscription.consumed() == {}
    subscription.fire(A, PartitionEvent.RESET_DONE, position=AT_TEN)
    assert (subscription.initializing, subscription.awaiting_reset) == (set(), set())
    assert subscription.partitions[A].reset is None


def test_leaving_a_position_drops_what_was_fetched_from_it(watched: Watched) -> None:
    subscription = watched.assign(A)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    assert watched.dropped == []
    for event in (PartitionEvent.SEEK, PartitionEvent.RESET_WANTED):
        epoch = subscription.partitions[A].epoch
        subscription.fire(A, event, position=AT_TEN, reset=EARLIEST)
        assert subscription.partitions[A].epoch > epoch
        assert watched.dropped.pop() == {A}


def test_a_position_under_validation_is_known_but_not_fetched_from(watched: Watched) -> None:
    subscription = watched.assign(A)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    partition = subscription.partitions[A]
    assert (partition.fetch_epoch, subscription.unvalidated) == (4, {A})
    subscription.fire(A, PartitionEvent.VALIDATION_WANTED)
    assert (subscription.awaiting_validation, partition.fetchable(0.0)) == ({A}, False)
    assert subscription.consumed() == {A: OffsetAndMetadata(10, "", 4)}
    subscription.fire(A, PartitionEvent.VALIDATED)
    assert (subscription.awaiting_validation, partition.fetchable(0.0)) == (set(), True)


def test_a_partition_whose_log_was_truncated_is_withheld_until_its_epoch_ends(watched: Watched) -> None:
    subscription = watched.assign(A)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    subscription.fire(A, PartitionEvent.VALIDATION_WANTED)
    subscription.hold({A}, Hold.LOG_TRUNCATED)
    assert watched.view.withheld == {A}
    subscription.fire(A, PartitionEvent.TRUNCATED, position=OffsetAndMetadata(7))
    subscription.publish()
    assert (watched.view.withheld, watched.dropped) == (frozenset(), [{A}])
    assert (subscription.consumed()[A].offset, subscription.partitions[A].fetch_offset) == (7, 7)


def test_what_is_no_longer_assigned_is_not_validated(watched: Watched) -> None:
    subscription = watched.assign(A, B)
    for tp in (A, B):
        subscription.fire(tp, PartitionEvent.SEEK, position=AT_TEN)
    subscription.fire(A, PartitionEvent.VALIDATION_WANTED)
    watched.assign(B)
    assert (subscription.awaiting_validation, subscription.unvalidated) == (set(), {B})


def test_only_what_was_delivered_in_this_epoch_counts_as_consumed(watched: Watched) -> None:
    subscription = watched.assign(A)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    epoch = subscription.partitions[A].epoch
    subscription.note_delivered([(A, epoch, OffsetAndMetadata(20)), (C, epoch, OffsetAndMetadata(5))])
    assert subscription.consumed() == {A: OffsetAndMetadata(20)}
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    subscription.note_delivered([(A, epoch, OffsetAndMetadata(30))])
    assert subscription.consumed()[A].offset == 10


def test_only_a_seek_goes_back_behind_what_counts_as_consumed(watched: Watched) -> None:
    subscription = watched.assign(A)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    epoch = subscription.partitions[A].epoch
    subscription.note_delivered([(A, epoch, OffsetAndMetadata(20))])
    subscription.note_delivered([(A, epoch, OffsetAndMetadata(15))])
    assert subscription.consumed()[A].offset == 20
    subscription.note_delivered([(A, epoch, OffsetAndMetadata(15))], is_seek=True)
    assert subscription.consumed()[A].offset == 15


def test_an_impossible_event_changes_nothing(watched: Watched) -> None:
    subscription = watched.assign(A)
    with pytest.raises(IllegalTransitionError):
        subscription.fire(A, PartitionEvent.RESET_DONE, position=AT_TEN)
    assert subscription.partitions[A].machine.state is PartitionState.INITIALIZING
    assert subscription.initializing == {A}


def test_a_blocked_partition_is_fetched_again_later_and_after_a_seek() -> None:
    partition = AssignedPartition(A, AssignmentEpoch(1))
    partition.machine.fire(PartitionEvent.SEEK)
    partition.blocked_until_ms = 100.0
    assert not partition.fetchable(99.0)
    assert partition.fetchable(100.0)
    partition.blocked_until_ms = float("inf")
    partition.set_position(AT_TEN)
    assert partition.fetchable(0.0)


def test_a_partition_says_how_it_is() -> None:
    partition = AssignedPartition(A, AssignmentEpoch(1))
    expected = "<orders-0 INITIALIZING epoch 1 fetch -1 consumed None: its committed offset is looked up>"
    assert repr(partition) == expected
    assert (leader_epoch_or_none(-1), leader_epoch_or_none(0)) == (None, 0)


@pytest.mark.parametrize("hold", Hold)
def test_what_a_hold_keeps_back_is_what_its_facts_say(watched: Watched, hold: Hold) -> None:
    subscription, facts = watched.assign(A), HOLD_FACTS[hold]
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    subscription.hold({A}, hold)
    partition = subscription.partitions[A]
    assert partition.fetchable(0.0) is not facts.blocks_fetch
    assert (A in watched.view.withheld) is facts.blocks_delivery
    assert (A in watched.view.paused) is facts.is_shown_as_paused
    assert (A in watched.view.backpressured) is (hold is Hold.BACKPRESSURE)
    assert repr(partition).endswith(f": {facts.reason}>")
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    assert (hold in partition.holds) is not facts.ends_with_epoch


def test_each_hold_ends_by_itself(watched: Watched) -> None:
    subscription = watched.assign(A)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    for hold in (Hold.USER_PAUSED, Hold.BACKPRESSURE):
        subscription.hold({A}, hold)
    assert watched.view.backpressured == frozenset()
    subscription.unhold({A}, Hold.USER_PAUSED)
    assert not watched.view.paused
    assert watched.view.backpressured == {A}
    assert not subscription.partitions[A].fetchable(0.0)


def test_a_partition_says_why_nothing_comes(watched: Watched) -> None:
    partition = watched.assign(A).partitions[A]
    assert partition.reasons == ["its committed offset is looked up"]
    watched.subscription.hold({A}, Hold.CALLBACK_PENDING)
    watched.subscription.hold({A}, Hold.USER_PAUSED)
    assert partition.reasons == [
        "paused by the user",
        "waits for a rebalance callback, or is being revoked",
        "its committed offset is looked up",
    ]
    watched.subscription.assign_ranges({A: (3, 3)})
    assert watched.subscription.partitions[A].reasons == ["all of it is fetched up to offset 3"]


# --- many partitions, changed one by one ------------------------------------------------------------------------


def expected_view(subscription: Subscription) -> AssignmentView:
    """The view of how everything is, whatever it was before."""
    partitions = subscription.partitions.values()
    shown = HOLDS_SHOWN_AS_PAUSED
    return AssignmentView(
        subscription_epoch=subscription.epoch,
        subscribed=subscription.kind is not SubscriptionKind.NONE,
        is_group=subscription.is_group,
        topics=subscription.topics,
        epochs={each.topic_partition: each.epoch for each in partitions},
        paused=frozenset(each.topic_partition for each in partitions if each.holds & shown),
        withheld=frozenset(each.topic_partition for each in partitions if each.blocks_delivery),
        backpressured=frozenset(each.topic_partition for each in partitions if each.blocks_delivery_by_backpressure),
        group=subscription.group,
    )


HOLDS_SHOWN_AS_PAUSED = {hold for hold, facts in HOLD_FACTS.items() if facts.is_shown_as_paused}


@pytest.mark.parametrize("seed", range(20))
def test_each_view_is_as_if_it_had_been_made_anew(watched: Watched, seed: int) -> None:
    chance, subscription, holds = Random(seed), watched.subscription, list(Hold)
    tps = [TopicPartition("orders", number) for number in range(5)]
    for _ in range(200):
        some = frozenset(chance.sample(tps, chance.randint(0, 3)))
        hold = chance.choice(holds)
        act = chance.choice(("assign", "add", "remove", "hold", "unhold", "seek", "unsubscribe"))
        match act:
            case "assign":
                subscription.assign_manually(some)
            case "add":
                subscription.add(some)
            case "remove":
                subscription.remove(some)
            case "hold":
                subscription.hold(some, hold)
            case "unhold":
                subscription.unhold(some, hold)
            case "seek":
                for tp in some & subscription.partitions.keys():
                    subscription.fire(tp, PartitionEvent.SEEK, position=AT_TEN)
                continue  # published with the next change
            case _:
                subscription.unsubscribe()
        assert watched.view == subscription.view == expected_view(subscription)
        assert list(watched.view.epochs) == list(subscription.partitions)


def test_a_view_that_is_published_never_changes(watched: Watched) -> None:
    subscription = watched.assign(A, B)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    subscription.publish()
    before, was = watched.view, dict(watched.view.epochs)
    subscription.fire(A, PartitionEvent.SEEK, position=AT_TEN)
    subscription.publish()
    assert before.epochs == was != watched.view.epochs


@pytest.mark.parametrize("held", [True, False])
def test_a_seek_or_a_pause_costs_no_more_among_a_thousand_partitions_than_among_ten(held: bool) -> None:
    """Sought one by one in `on_partitions_assigned`, 5,000 partitions took ten seconds: each seek looked at all."""

    def cost_among(count: int) -> int:
        tps = [TopicPartition("orders", number) for number in range(count)]
        watched = Watched()
        watched.assign(*tps)
        if held:
            watched.subscription.hold(tps, Hold.CALLBACK_PENDING)

        def change() -> None:
            watched.subscription.fire(tps[5], PartitionEvent.SEEK, position=AT_TEN)
            watched.subscription.publish()
            watched.subscription.hold({tps[6]}, Hold.USER_PAUSED)

        return instructions_of(change)

    assert cost_among(1_000) == cost_among(10)
