"""One step of a member of a consumer group from what it owns towards its target (KIP-848's reconciliation).

First it gives up what is not its own any more, staying in its epoch until it says that it did; then it moves to the
target's epoch and gets whatever nobody else still owns; the rest follows when it is released. Called by `consumer`
on each heartbeat and each classic join; pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import UUID

from kwire.testing.cluster.groups.consumer_member import ConsumerMember, ConsumerMemberState, Holdings, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kwire.protocol.messages.consumer_group_heartbeat import TopicPartitions

Partitions = dict[UUID, dict[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Where a member is to go, and what stands in the way."""

    epoch: int
    target: Target
    subscribed: frozenset[UUID]
    subscription_changed: bool
    owned: list[TopicPartitions] | None
    """What the member says it owns; None if it did not say."""

    owner: Callable[[UUID, int], str | None]
    """Which member holds a partition now."""


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after one step, or the same one when it has to wait."""
    if member.state is ConsumerMemberState.STABLE and member.epoch == goal.epoch:
        return _without_unsubscribed(member, goal) if goal.subscription_changed else member
    if member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and _still_owns(member.revoking, goal.owned):
        return _without_unsubscribed(member, goal) if goal.subscription_changed else member
    return _next(member, goal)


def _still_owns(holdings: Holdings, owned: list[TopicPartitions] | None) -> bool:
    if owned is None:
        return True
    return any(partition in holdings.get(entry.topic_id, {}) for entry in owned for partition in entry.partitions)


def _without_unsubscribed(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Topics that it is not subscribed to any more are taken away at once, whatever the target says."""
    gone = [topic for topic in member.assigned if topic not in goal.subscribed]
    if not gone:
        return member
    assigned = {topic: epochs for topic, epochs in member.assigned.items() if topic in goal.subscribed}
    revoking: Partitions = {topic: dict(epochs) for topic, epochs in member.revoking.items()}
    for topic in gone:
        revoking[topic] = {**revoking.get(topic, {}), **member.assigned[topic]}
    moved = replace(member, previous_epoch=member.epoch, assigned=assigned)
    if not _still_owns(revoking, goal.owned):
        return moved
    return replace(moved, state=ConsumerMemberState.UNREVOKED_PARTITIONS, revoking=revoking)


@dataclass(slots=True)
class _Shares:
    """What it keeps, has to give up, and gets; and whether something is held back by others."""

    kept: Partitions = field(default_factory=dict)
    given_up: Partitions = field(default_factory=dict)
    gained: dict[UUID, list[int]] = field(default_factory=dict)
    is_short: bool = False


def _next(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    shares = _shares(member, goal)
    if shares.given_up and _still_owns(shares.given_up, goal.owned):
        return replace(
            member,
            state=ConsumerMemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=shares.kept,
            revoking=shares.given_up,
        )
    for topic, partitions in shares.gained.items():
        shares.kept.setdefault(topic, {}).update(dict.fromkeys(partitions, goal.epoch))
    return replace(
        member,
        state=ConsumerMemberState.UNRELEASED_PARTITIONS if shares.is_short else ConsumerMemberState.STABLE,
        previous_epoch=member.epoch,
        epoch=goal.epoch,
        assigned=shares.kept,
        revoking={},
    )


def _shares(member: ConsumerMember, goal: Goal) -> _Shares:
    shares = _Shares()
    for topic in dict.fromkeys((*goal.target, *member.assigned)):
        target = goal.target.get(topic, frozenset()) if topic in goal.subscribed else frozenset()
        held = member.assigned.get(topic, {})
        _note(shares.kept, topic, {partition: epoch for partition, epoch in held.items() if partition in target})
        _note(
            shares.given_up, topic, {partition: epoch for partition, epoch in held.items() if partition not in target}
        )
        wanted = sorted(target - held.keys())
        free = list(_free(member, goal, topic, wanted))
        shares.is_short = shares.is_short or len(free) < len(wanted)
        if free:
            shares.gained[topic] = free
    return shares


def _note(into: Partitions, topic: UUID, partitions: dict[int, int]) -> None:
    if partitions:
        into[topic] = partitions


def _free(member: ConsumerMember, goal: Goal, topic: UUID, wanted: list[int]) -> Iterable[int]:
    """What nobody else holds. What the member itself was to give up it may keep: there is only one owner at a time."""
    return (partition for partition in wanted if goal.owner(topic, partition) in (None, member.member_id))
