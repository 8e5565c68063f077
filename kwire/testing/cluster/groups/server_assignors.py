"""The assignors of the broker (KIP-848): uniform, which is the default, and range. Called by `consumer`; pure.

Where Kafka takes members in the order of a hash map, here they are taken in the order in which they joined, so that the
same group gives the same assignment in each run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

from kwire.testing.cluster.groups.consumer_member import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

TopicPartition = tuple[UUID, int]
Plan = dict[str, dict[UUID, set[int]]]
"""Member, topic, partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A member that is to get partitions: the topics it wants, and what its last target was."""

    topic_ids: tuple[UUID, ...]
    target: Target = field(default_factory=dict)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAssignment:
    """The task: members in the order they joined, and how many partitions the topics have."""

    members: Mapping[str, Candidate]
    partitions: Mapping[UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members want the same."""
        return len({member.topic_ids for member in self.members.values()}) <= 1


def assign_ranges(task: ServerAssignment) -> Plan:
    """Each topic in ranges, to its subscribers by their instance ids and then by their member ids."""
    order = sorted(task.members, key=lambda member_id: _range_key(member_id, task.members[member_id]))
    plan: Plan = {member_id: {} for member_id in order}
    for topic_id, count in task.partitions.items():
        subscribers = [member_id for member_id in order if topic_id in task.members[member_id].topic_ids]
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + count // len(subscribers) + (position < count % len(subscribers))
            if start < end:
                plan[member_id][topic_id] = set(range(start, end))
            start = end
    return plan


def _range_key(member_id: str, member: Candidate) -> tuple[bool, str]:
    return (True, member_id) if member.instance_id is None else (False, member.instance_id)


def assign_uniformly(task: ServerAssignment) -> Plan:
    """As evenly as can be, moving as little as can be."""
    if not task.members:
        return {}
    return _Alike(task).plan() if task.is_homogeneous else _Mixed(task).plan()


SERVER_ASSIGNORS: Mapping[str, Callable[[ServerAssignment], Plan]] = {
    "uniform": assign_uniformly,
    "range": assign_ranges,
}
"""By the names that members ask for."""


class _Alike:
    """Members that all want the same topics: everyone keeps up to its quota, the rest goes where there is room."""

    def __init__(self, task: ServerAssignment) -> None:
        self._members = task.members
        topic_ids = next(iter(task.members.values())).topic_ids
        self._wanted = [(topic, partition) for topic in topic_ids for partition in range(task.partitions[topic])]
        self._quota, self._extra = divmod(len(self._wanted), len(task.members))

    def plan(self) -> Plan:
        """The assignment."""
        kept: dict[str, list[TopicPartition]] = {}
        room: dict[str, int] = {}
        given_up: list[TopicPartition] = []
        for position, member_id in enumerate(self._members):
            held = self._held(member_id)
            kept[member_id], room[member_id] = self._keep(held, len(self._members) - position)
            given_up.extend(held[len(kept[member_id]) :])
        taken = {*given_up, *(partition for partitions in kept.values() for partition in partitions)}
        free = iter([*(partition for partition in self._wanted if partition not in taken), *given_up])
        for member_id, count in room.items():
            kept[member_id].extend(islice(free, count))
        return {member_id: _by_topic(partitions) for member_id, partitions in kept.items()}

    def _held(self, member_id: str) -> list[TopicPartition]:
        target = self._members[member_id].target
        held = {(topic, partition) for topic, partitions in target.items() for partition in partitions}
        return [partition for partition in self._wanted if partition in held]

    def _keep(self, held: list[TopicPartition], members_left: int) -> tuple[list[TopicPartition], int]:
        """What of its target a member keeps, and how much more it may get."""
        has_extra = self._extra > 0
        quota = self._quota + has_extra
        keeps = held[:quota]
        # One partition more than the others is for members that had one more, or for the last ones in line.
        if has_extra and len(keeps) < quota and members_left > self._extra:
            has_extra, quota = False, quota - 1
        self._extra -= has_extra
        return keeps, quota - len(keeps)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[UUID, set[int]]:
    found: dict[UUID, set[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, set()).add(partition)
    return found


MAX_ROUNDS = 16
"""After as many rounds over the topics the balance is good enough, as Kafka has it."""


class _Mixed:
    """Members that want different topics: keep, hand out what is free, then even out topic by topic."""

    def __init__(self, task: ServerAssignment) -> None:
        self._task = task
        self._line = {member_id: position for position, member_id in enumerate(task.members)}
        self._sizes = dict.fromkeys(task.members, 0)
        self._subscribers: dict[UUID, list[str]] = {}
        for member_id, member in task.members.items():
            for topic in member.topic_ids:
                self._subscribers.setdefault(topic, []).append(member_id)
        self._owners: dict[UUID, list[str | None]] = {
            topic: [None] * task.partitions[topic] for topic in self._subscribers
        }

    def plan(self) -> Plan:
        """The assignment."""
        self._keep()
        topics = sorted(self._subscribers, key=self._urgency)
        for topic in topics:
            self._hand_out(topic)
        self._even_out([topic for topic in topics if len(self._subscribers[topic]) > 1])
        plan: Plan = {member_id: {} for member_id in self._task.members}
        for topic, owners in self._owners.items():
            for partition, member_id in enumerate(owners):
                if member_id is not None:
                    plan[member_id].setdefault(topic, set()).add(partition)
        return plan

    def _keep(self) -> None:
        for member_id, member in self._task.members.items():
            for topic, partitions in member.target.items():
                if topic in member.topic_ids:
                    for partition in sorted(partitions):
                        self._give(topic, partition, member_id)

    def _urgency(self, topic: UUID) -> tuple[float, int, int]:
        subscribers = len(self._subscribers[topic])
        # Kafka compares ids as two signed numbers.
        return -self._task.partitions[topic] / subscribers, subscribers, topic.int ^ (1 << 127 | 1 << 63)

    def _load(self, member_id: str) -> tuple[int, int]:
        return self._sizes[member_id], self._line[member_id]

    def _give(self, topic: UUID, partition: int, member_id: str) -> None:
        before = self._owners[topic][partition]
        if before is not None:
            self._sizes[before] -= 1
        self._owners[topic][partition] = member_id
        self._sizes[member_id] += 1

    def _hand_out(self, topic: UUID) -> None:
        for partition, owner in enumerate(self._owners[topic]):
            if owner is None:
                self._give(topic, partition, min(self._subscribers[topic], key=self._load))

    def _even_out(self, topics: list[UUID]) -> None:
        """Round and round, until all topics in a row are even."""
        even = 0
        for topic in topics * MAX_ROUNDS:
            even = 0 if self._even_out_topic(topic) else even + 1
            if even == len(topics):
                return

    def _even_out_topic(self, topic: UUID) -> bool:
        """Move partitions from the fullest to the emptiest of its subscribers; whether any was moved."""
        spare: dict[str, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic]):
            if owner is not None:
                spare.setdefault(owner, []).append(partition)
        has_moved = False
        while spare:
            fullest = max(spare, key=self._load)
            emptiest = min(self._subscribers[topic], key=self._load)
            if self._sizes[fullest] - self._sizes[emptiest] <= 1:
                break
            self._give(topic, spare[fullest].pop(), emptiest)
            has_moved = True
            if not spare[fullest]:
                del spare[fullest]
        return has_moved
