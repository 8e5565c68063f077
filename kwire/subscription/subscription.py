"""The subscription: topics, a pattern, or a manual assignment, and the partitions that came of it.

Owned by the network thread. Every change ends in a new `AssignmentView` for the application thread (`publish`), and
marks the partitions it touched in `touched`, so that fetching looks at what changed and never at all that is
assigned. `epoch` counts what the user did, `version` every change of the topics or of what is assigned.

Programs seek thousands of partitions one by one, so whatever follows a seek looks at what it changed alone: the next
view is made of the last one, and who gives partitions their positions looks at those of `to_reconsider`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum, auto
from itertools import count
from re import Pattern
from typing import TypeAlias
from uuid import UUID

from kwire.config import OffsetReset
from kwire.epochs import NOT_SUBSCRIBED, AssignmentEpoch, SubscriptionEpoch
from kwire.events import AssignmentView, Delivered
from kwire.holds import ENDS_WITH_EPOCH, SHOWN_AS_PAUSED, Hold
from kwire.model import ConsumerGroupMetadata, OffsetAndMetadata, SubscriptionPattern, TopicPartition
from kwire.states.partition import PartitionEffect, PartitionEvent, PartitionState
from kwire.subscription.partition import AssignedPartition

NO_TOPICS: frozenset[str] = frozenset()
Epochs: TypeAlias = Mapping[TopicPartition, AssignmentEpoch]


class SubscriptionKind(Enum):
    NONE = auto()
    TOPICS = auto()
    PATTERN = auto()
    BROKER_PATTERN = auto()
    """A regular expression that the broker matches (KIP-848): the client never learns the topics, only partitions."""
    MANUAL = auto()


class Subscription:
    """What the user wants to read, and the assigned partitions with their positions.

    Args:
        publish: takes each new view.
        drop_buffered: told of partitions whose buffered records must never be delivered.
        epochs: where assignment epochs come from. Cursors share this counter, so an epoch says which cursor it is of.

    Attributes:
        children: The subscriptions of the cursors that catch up with a lag; their views are part of this one's.
        on_moved: Told of a partition whose position has been set, be it back, on, or for the first time.
        on_removed: Told of partitions that are not assigned any more, before anybody sees a view without them.
    """

    def __init__(
        self,
        publish: Callable[[AssignmentView], None],
        drop_buffered: Callable[[Collection[TopicPartition]], None],
        epochs: Iterator[AssignmentEpoch] | None = None,
    ) -> None:
        self._publish = publish
        self._drop_buffered = drop_buffered
        self.epochs = epochs or map(AssignmentEpoch, count(1))
        self.children: list[Subscription] = []
        self.on_moved: list[Callable[[TopicPartition], None]] = []
        self.on_removed: list[Callable[[Collection[TopicPartition]], None]] = []
        self.kind = SubscriptionKind.NONE
        self.epoch = NOT_SUBSCRIBED
        self.version = 0
        self.view = AssignmentView()
        # By name: the id of the deleted topic, for each topic that was deleted and recreated.
        self.former_topic_ids: dict[str, UUID] = {}
        self.topics: frozenset[str] = NO_TOPICS
        self.pattern: Pattern[str] | None = None
        self.regex: str | None = None
        self.partitions: dict[TopicPartition, AssignedPartition] = {}
        self.touched: set[TopicPartition] = set()
        self.initializing: set[TopicPartition] = set()
        self.awaiting_reset: set[TopicPartition] = set()
        self.awaiting_validation: set[TopicPartition] = set()
        self.unvalidated: set[TopicPartition] = set()
        """Those whose position is new: `managers.offset_validation` takes them from here."""
        self.to_reconsider: set[TopicPartition] = set()
        """Those that may need a position, or none any more, since something happened to them: `managers.positions`
        takes them from here."""
        self._unpublished: set[TopicPartition] = set()
        self.group: ConsumerGroupMetadata | None = None

    # --- what the user wants --------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str], pattern: Pattern[str] | SubscriptionPattern | None) -> None:
        """Replace the subscription. Partitions of a group stay until the rebalance that follows takes them."""
        self.epoch = SubscriptionEpoch(self.epoch + 1)
        self.version += 1
        self.topics, self.pattern, self.regex = topics, None, None
        match pattern:
            case None:
                self.kind = SubscriptionKind.TOPICS
            case SubscriptionPattern():
                self.kind, self.regex = SubscriptionKind.BROKER_PATTERN, pattern.pattern
            case _:
                self.kind, self.pattern = SubscriptionKind.PATTERN, pattern
        self.publish()

    def match_pattern(self, all_topics: Iterable[str]) -> bool:
        """Set the topics to those the pattern matches; whether that changed anything."""
        if self.pattern is None:
            return False
        matching = frozenset(topic for topic in all_topics if self.pattern.search(topic))
        changed, self.topics = matching != self.topics, matching
        if changed:
            self.version += 1
            self.publish()
        return changed

    def assign_manually(self, partitions: frozenset[TopicPartition]) -> None:
        """Replace the manual assignment; what stays keeps its position and its buffered records."""
        self.epoch = SubscriptionEpoch(self.epoch + 1)
        self.kind = SubscriptionKind.MANUAL
        self.topics = NO_TOPICS
        self._remove(self.partitions.keys() - partitions)
        self._add(partitions - self.partitions.keys())
        self.publish()

    def assign_ranges(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Replace the assignment, by ranges of offsets (start, end); nothing of what was there before stays."""
        self.epoch = SubscriptionEpoch(self.epoch + 1)
        self.kind = SubscriptionKind.MANUAL
        self.topics = NO_TOPICS
        self._remove(set(self.partitions))
        self._add(ranges.keys())
        for tp, (start, end) in ranges.items():
            self.partitions[tp].stop_offset = end
            self.fire(tp, PartitionEvent.SEEK, position=OffsetAndMetadata(start))
        self.publish()

    def unsubscribe(self) -> None:
        self.epoch = SubscriptionEpoch(self.epoch + 1)
        self.kind = SubscriptionKind.NONE
        self.topics, self.pattern, self.regex = NO_TOPICS, None, None
        self._remove(set(self.partitions))
        self.publish()

    @property
    def is_group(self) -> bool:
        """Whether partitions come from a group's coordinator."""
        return self.kind not in (SubscriptionKind.NONE, SubscriptionKind.MANUAL)

    def still_wants(self, tp: TopicPartition) -> bool:
        """Whether an assigned partition is one of the present subscription's. One of a former subscription stays until
        the rebalance that follows takes it; what is wrong with it is no longer the user's concern."""
        match self.kind:
            case SubscriptionKind.TOPICS:
                return tp.topic in self.topics
            case SubscriptionKind.PATTERN:
                return self.pattern is not None and self.pattern.search(tp.topic) is not None
            case _:
                return True

    # --- what the group gave --------------------------------------------------------------------------------

    def add(self, partitions: frozenset[TopicPartition]) -> None:
        """Take partitions beside those there are; held until the assigned callback has run."""
        self._add(partitions - self.partitions.keys())
        self.hold(partitions, Hold.CALLBACK_PENDING)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        self._remove(set(partitions) & self.partitions.keys())
        self.publish()

    def _add(self, partitions: Collection[TopicPartition]) -> None:
        for tp in sorted(partitions):
            self.partitions[tp] = AssignedPartition(tp, next(self.epochs))
            self.initializing.add(tp)
        self.version += 1
        self._mark(set(partitions))

    def _remove(self, partitions: Collection[TopicPartition]) -> None:
        gone = set(partitions)
        for tp in gone:
            del self.partitions[tp]
        self.initializing -= gone
        self.awaiting_reset -= gone
        self.awaiting_validation -= gone
        self.unvalidated -= gone
        self.version += 1
        self._mark(gone)
        self._drop_buffered(gone)
        for told in self.on_removed:
            told(gone)

    def _mark(self, partitions: set[TopicPartition]) -> None:
        """Everybody is to look at these."""
        self.touched |= partitions
        self.to_reconsider |= partitions
        self._unpublished |= partitions

    # --- positions ------------------------------------------------------------------------------------------

    def fire(
        self,
        tp: TopicPartition,
        event: PartitionEvent,
        *,
        position: OffsetAndMetadata | None = None,
        reset: OffsetReset | None = None,
    ) -> None:
        """Fire an event of one partition's machine and perform its effects. Does not publish: see `publish`."""
        partition = self.partitions[tp]
        for effect in partition.machine.fire(event):
            match effect:
                case PartitionEffect.SET_POSITION:
                    assert position is not None
                    partition.set_position(position)
                    self.unvalidated.add(tp)
                    for told in self.on_moved:
                        told(tp)
                case PartitionEffect.LOOK_UP_RESET_OFFSET:
                    partition.reset = reset
                case PartitionEffect.DROP_BUFFERED:
                    self._begin_epoch(partition)
        state = partition.machine.state
        _keep(self.initializing, tp, state is PartitionState.INITIALIZING)
        _keep(self.awaiting_reset, tp, state is PartitionState.AWAIT_RESET)
        _keep(self.awaiting_validation, tp, state is PartitionState.AWAIT_VALIDATION)
        self.touched.add(tp)
        self.to_reconsider.add(tp)

    def _begin_epoch(self, partition: AssignedPartition) -> None:
        """Begin a new assignment epoch: records fetched from the old position, buffered or in flight, are dropped when
        they are met."""
        partition.epoch = next(self.epochs)
        partition.holds -= ENDS_WITH_EPOCH
        self._unpublished.add(partition.topic_partition)
        self._drop_buffered((partition.topic_partition,))

    def note_delivered(self, delivered: Iterable[Delivered], *, is_seek: bool = False) -> None:
        """The application has come back from records up to these offsets, or, with `is_seek`, has gone there.

        Only a seek moves a position back: a commit of the application's own may come late, and the records that it has
        committed stay done, even if it fails over them afterwards.
        """
        for tp, epoch, position in delivered:
            partition = self.partitions.get(tp)
            if partition is None or partition.epoch != epoch:
                continue
            if is_seek or partition.consumed is None or partition.consumed.offset <= position.offset:
                partition.consumed = position

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit without arguments commits: every position the application has come to."""
        return {
            tp: partition.consumed
            for tp, partition in self.partitions.items()
            if partition.has_position and partition.consumed is not None and not partition.released
        }

    @property
    def all_have_positions(self) -> bool:
        return not self.initializing and not self.awaiting_reset

    # --- holds ----------------------------------------------------------------------------------------------

    def hold(self, partitions: Iterable[TopicPartition], hold: Hold) -> None:
        """Stop fetching or delivering these for one more reason."""
        for partition in self._touch(partitions):
            partition.holds.add(hold)
        self.publish()

    def unhold(self, partitions: Iterable[TopicPartition], hold: Hold) -> None:
        """This reason is over."""
        for partition in self._touch(partitions):
            partition.holds.discard(hold)
        self.publish()

    def _touch(self, partitions: Iterable[TopicPartition]) -> Iterator[AssignedPartition]:
        for tp in partitions:
            if tp in self.partitions:
                self._mark({tp})
                yield self.partitions[tp]

    def set_released(self, partitions: Iterable[TopicPartition]) -> None:
        """The revoked callback of these has run; their group does not know yet."""
        for tp in partitions:
            if tp in self.partitions:
                self.partitions[tp].released = True

    def set_group(self, group: ConsumerGroupMetadata | None) -> None:
        if group != self.group:
            self.group = group
            self.publish()

    def publish(self) -> None:
        """Give the application thread the newest view."""
        before, changed, self._unpublished = self.view, self._unpublished, set()
        now = [self.partitions[tp] for tp in changed if tp in self.partitions]
        held = [partition for partition in now if partition.holds]
        paused = {each.topic_partition for each in held if not each.holds.isdisjoint(SHOWN_AS_PAUSED)}
        withheld = {each.topic_partition for each in held if each.blocks_delivery}
        backpressured = {each.topic_partition for each in held if each.blocks_delivery_by_backpressure}
        self.view = AssignmentView(
            subscription_epoch=self.epoch,
            subscribed=self.kind is not SubscriptionKind.NONE,
            is_group=self.is_group,
            topics=self.topics,
            epochs=self._epochs(before.epochs, changed, now),
            paused=_changed(before.paused, changed, paused),
            withheld=_changed(before.withheld, changed, withheld),
            backpressured=_changed(before.backpressured, changed, backpressured),
            group=self.group,
            children=tuple(child.view for child in self.children),
        )
        self._publish(self.view)

    def _epochs(
        self, before: Epochs, changed: Collection[TopicPartition], now: Collection[AssignedPartition]
    ) -> Epochs:
        """The same mapping as before if nothing in it is new."""
        if any((tp in before) != (tp in self.partitions) for tp in changed):
            return {tp: partition.epoch for tp, partition in self.partitions.items()}  # in the order of the assignment
        new = {each.topic_partition: each.epoch for each in now if before[each.topic_partition] != each.epoch}
        return {**before, **new} if new else before


def _changed(
    before: frozenset[TopicPartition], changed: set[TopicPartition], now: set[TopicPartition]
) -> frozenset[TopicPartition]:
    """Where of those that have changed these are in it."""
    return before if before & changed == now else before - changed | now


def _keep(members: set[TopicPartition], tp: TopicPartition, belongs: bool) -> None:
    if belongs:
        members.add(tp)
    else:
        members.discard(tp)
