"""Reconciliation (KIP-848): how a member gets from what it owns to what the broker wants it to own.

The broker names topics by id, so a partition is known here by id and name. `next_step` is a pure function. It is asked
again after each step, so a target that came meanwhile counts from the next step on. Giving back comes first: the other
members wait for it, and a topic that was recreated has two ids for one name, of which one must go before the other
comes. Called by `consumer_group.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kwire.epochs import Attempt
from kwire.events import CallbackKind, RunCallback
from kwire.holds import Hold
from kwire.managers.base import Deliver
from kwire.managers.membership import log_callback
from kwire.model import TopicPartition
from kwire.protocol.messages.consumer_group_heartbeat import Assignment, TopicPartitions
from kwire.subscription.subscription import Subscription, SubscriptionKind


class TopicIdPartition(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic_id: UUID
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


Owned: TypeAlias = frozenset[TopicIdPartition]
Target: TypeAlias = Mapping[UUID, frozenset[int]]
NameOf: TypeAlias = Callable[[UUID], str | None]
"""The name of a topic, or None while it is not known."""

NO_PARTITIONS: Owned = frozenset()
NO_NUMBERS: frozenset[int] = frozenset()


class ReconciliationStep(NamedTuple):
    """What to do next. `added` may only be taken once `revoked` is empty; `unresolved` topics come later."""

    revoked: Owned
    added: Owned
    unresolved: frozenset[UUID]


def next_step(owned: Owned, target: Target, name_of: NameOf) -> ReconciliationStep:
    """Revokes only what is not in the target, adds only what is not owned, and leaves everything else alone."""
    # Owned topics keep the name they were taken under: they may have vanished from the metadata.
    names = {partition.topic_id: partition.topic for partition in owned}
    unresolved: set[UUID] = set()
    wanted: set[TopicIdPartition] = set()
    for topic_id, numbers in target.items():
        name = names.get(topic_id) or name_of(topic_id)
        if name is None:
            unresolved.add(topic_id)
        else:
            wanted.update(TopicIdPartition(topic_id, name, number) for number in numbers)
    return ReconciliationStep(owned - wanted, frozenset(wanted - owned), frozenset(unresolved))


def read_target(assignment: Assignment) -> dict[UUID, frozenset[int]]:
    return {topic.topic_id: frozenset(topic.partitions) for topic in assignment.topic_partitions if topic.partitions}


def by_topic_id(owned: Owned) -> dict[UUID, frozenset[int]]:
    """What is owned, in the shape of a target."""
    numbers: defaultdict[UUID, set[int]] = defaultdict(set)
    for partition in owned:
        numbers[partition.topic_id].add(partition.partition)
    return {topic_id: frozenset(found) for topic_id, found in numbers.items()}


def write_owned(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
        for topic_id, numbers in sorted(by_topic_id(owned).items())
    ]


def topic_partitions(owned: Iterable[TopicIdPartition]) -> frozenset[TopicPartition]:
    """The same partitions as the application knows them."""
    return frozenset(partition.topic_partition for partition in owned)


class Reconciler:
    """What the member owns, what it is to own, and the callbacks that the application thread owes on the way there.

    Held by `ConsumerGroupManager`, which fires the events. Callbacks are answered in the order they were asked for; a
    member that is fenced meanwhile still hears of their ends, so that each partition is given out and taken back once.
    """

    def __init__(self, subscription: Subscription, deliver: Deliver) -> None:
        self.owned = NO_PARTITIONS
        self._subscription = subscription
        self._deliver = deliver
        self._target: Target | None = None
        self._adding = NO_PARTITIONS
        self._callbacks: dict[int, RunCallback] = {}
        self._attempt = Attempt(0)
        self._flows = False
        # `on_partitions_assigned` is also due without a new partition: after a join, and after giving something back.
        self._announced = False
        self._gave_back = False

    @property
    def owes_callback(self) -> bool:
        return bool(self._callbacks)

    @property
    def has_reached_target(self) -> bool:
        return self._target is None or self._target == by_topic_id(self.owned)

    @property
    def only_adds(self) -> bool:
        """Whether the target has all that is owned, and more."""
        owned = by_topic_id(self.owned)
        keeps_all = all(
            numbers <= (self._target or {}).get(topic_id, NO_NUMBERS) for topic_id, numbers in owned.items()
        )
        return bool(owned) and keeps_all and not self.has_reached_target

    # --- from target to owned -------------------------------------------------------------------------------

    def start(self) -> None:
        """A membership begins, owning nothing."""
        self._target = None
        self._flows = True
        self._announced = self._gave_back = False

    def aim_at(self, target: Target) -> None:
        """Take a target, in place of the one before."""
        self._target = target

    def advance(self, name_of: NameOf) -> ReconciliationStep:
        """Ask the application thread for the next step, if there is one to take."""
        assert self._target is not None
        step = next_step(self.owned, self._target, name_of)
        if step.revoked:
            leaving = topic_partitions(step.revoked)
            self._subscription.hold(leaving, Hold.CALLBACK_PENDING)
            self._call_back(CallbackKind.REVOKED, leaving)
        elif step.added or self._gave_back or not (self._announced or step.unresolved):
            self._announced, self._gave_back = True, False
            self._adding = step.added
            coming = topic_partitions(step.added)
            self._subscription.add(coming)
            self._call_back(CallbackKind.ASSIGNED, coming)
        return step

    def follow_subscription(self) -> None:
        """Withhold what is no longer subscribed until the broker takes it away (KAFKA-19356), let the rest flow."""
        if self._flows:
            settled = topic_partitions(self.owned) - self._being_revoked()
            wanted = frozenset(filter(self._is_subscribed, settled))
            self._subscription.hold(settled - wanted, Hold.CALLBACK_PENDING)
            self._subscription.unhold(wanted, Hold.CALLBACK_PENDING)

    def _is_subscribed(self, tp: TopicPartition) -> bool:
        return self._subscription.kind is not SubscriptionKind.TOPICS or tp.topic in self._subscription.topics

    # --- callbacks ------------------------------------------------------------------------------------------

    def completed(self, attempt: Attempt) -> CallbackKind | None:
        """The application thread has run a callback: which kind, or None for one that nobody waits for any more."""
        callback = self._callbacks.pop(attempt, None)
        if callback is None:
            return None
        if callback.kind is CallbackKind.REVOKED:
            self.owned = frozenset(p for p in self.owned if p.topic_partition not in callback.partitions)
            self._subscription.remove(callback.partitions)
            self._gave_back = True
        elif callback.kind is CallbackKind.ASSIGNED:
            self.owned |= self._adding
            self._adding = NO_PARTITIONS
            self.follow_subscription()
        return callback.kind

    def _call_back(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        log_callback(kind, partitions)
        self._attempt = Attempt(self._attempt + 1)
        callback = RunCallback(kind, partitions, self._attempt, self._subscription.epoch)
        self._callbacks[self._attempt] = callback
        self._deliver(callback)

    def _being_revoked(self) -> frozenset[TopicPartition]:
        revoked = (c.partitions for c in self._callbacks.values() if c.kind is CallbackKind.REVOKED)
        return frozenset[TopicPartition]().union(*revoked)

    # --- the end of a membership ----------------------------------------------------------------------------

    def stop_fetching(self) -> None:
        """Nothing of what the group gave may reach the application any more."""
        self._flows = False
        self._subscription.hold(self._given(), Hold.CALLBACK_PENDING)

    def call_lost(self) -> None:
        """Tell the application which partitions are lost, but for those that it is giving back already."""
        if lost := self._given() - self._being_revoked():
            self._call_back(CallbackKind.LOST, lost)

    def drop(self) -> None:
        self._subscription.remove(self._given())
        self.owned = self._adding = NO_PARTITIONS

    def abandon(self) -> None:
        """The application leaves by a call of its own: it runs no more callbacks, and owns nothing of the group's."""
        self._callbacks.clear()
        self.owned = self._adding = NO_PARTITIONS

    def _given(self) -> frozenset[TopicPartition]:
        return topic_partitions(self.owned | self._adding)
