"""The range assignor: each topic's partitions, in order, cut into one run per member; Kafka's default.

Topics with the same partition count and the same members are cut at the same places ("co-partitioned": partition 3 of
`orders` and of `payments` meet on one member), which joins rely on.

Members that name their rack get partitions with a replica there first, where that costs neither balance nor
co-partitioning (KIP-881). As in Java 3.5 and later: it matters only if some replicas are not on every rack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from itertools import islice

from kwire.assignors.base import NO_RACKS, Assignor, MemberSubscription, PartitionRacks, Plan, members_by_topic
from kwire.model import TopicPartition


class RangeAssignor(Assignor):
    """Kafka's `range`; see the module."""

    name = "range"

    def assign(
        self,
        partitions_per_topic: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        *,
        partition_racks: PartitionRacks = NO_RACKS,
    ) -> Plan:
        """See `Assignor.assign`. Each list is sorted."""
        assignment: Plan = {member_id: [] for member_id in members}
        wanted_by = members_by_topic(partitions_per_topic, members)
        racks = {member_id: member.rack for member_id, member in members.items() if member.rack}
        topics = [
            _Topic(topic, partitions_per_topic[topic], member_ids, racks, partition_racks, assignment)
            for topic, member_ids in wanted_by.items()
            if member_ids and partitions_per_topic[topic] > 0
        ]
        if any(topic.racks_matter for topic in topics):
            _match_racks(topics)
        for topic in topics:
            topic.cut_ranges(lambda _member_id, _partition: True)
        for partitions in assignment.values():
            partitions.sort()
        return assignment


class _Topic:
    """One topic while it is being shared out."""

    def __init__(
        self,
        name: str,
        partition_count: int,
        member_ids: tuple[str, ...],
        racks: Mapping[str, str],
        partition_racks: PartitionRacks,
        assignment: Plan,
    ) -> None:
        self.partition_count = partition_count
        self.member_ids = member_ids
        self._name = name
        self._racks = racks
        self._assignment = assignment
        self._replica_racks = [
            frozenset(partition_racks.get(TopicPartition(name, number), ())) for number in range(partition_count)
        ]
        self._unassigned = dict.fromkeys(range(partition_count))
        self._share, self._extras = divmod(partition_count, len(member_ids))
        self._given = dict.fromkeys(member_ids, 0)

    @property
    def racks_matter(self) -> bool:
        """False when no choice can bring a read nearer: nobody's rack holds a replica, or every rack holds all."""
        all_racks = frozenset[str]().union(*self._replica_racks)
        member_racks = {self._racks[member_id] for member_id in self.member_ids if member_id in self._racks}
        return not member_racks.isdisjoint(all_racks) and any(racks != all_racks for racks in self._replica_racks)

    def is_near(self, member_id: str, number: int) -> bool:
        """Whether a replica is on the member's rack; a member without a rack is near to all."""
        rack = self._racks.get(member_id)
        return rack is None or rack in self._replica_racks[number]

    def room(self, member_id: str) -> int:
        """How many more partitions the member may get: an equal share, and one more for the first few."""
        return max(0, self._share + (1 if self._extras else 0) - self._given[member_id])

    def give(self, member_id: str, numbers: Collection[int]) -> None:
        for number in numbers:
            del self._unassigned[number]
        self._given[member_id] += len(numbers)
        if self._given[member_id] > self._share:
            self._extras -= 1
        self._assignment[member_id].extend(TopicPartition(self._name, number) for number in numbers)

    def cut_ranges(self, may_have: Callable[[str, int], bool]) -> None:
        """Give each member in turn the first free partitions it may have, as far as it has room."""
        for member_id in self.member_ids:
            free = (number for number in self._unassigned if may_have(member_id, number))
            numbers = list(islice(free, self.room(member_id)))
            if numbers:
                self.give(member_id, numbers)


def _match_racks(topics: list[_Topic]) -> None:
    """Give out what can be read within a rack; the rest is left for the plain ranges."""
    co_partitioned: defaultdict[tuple[tuple[str, ...], int], list[_Topic]] = defaultdict(list)
    for topic in topics:
        co_partitioned[topic.member_ids, topic.partition_count].append(topic)
    for (member_ids, partition_count), together in co_partitioned.items():
        if len(together) > 1:
            _match_racks_together(member_ids, partition_count, together)
        elif together[0].racks_matter:
            together[0].cut_ranges(together[0].is_near)


def _match_racks_together(member_ids: tuple[str, ...], partition_count: int, topics: list[_Topic]) -> None:
    """Partition n of all the topics goes to the first member that is near to each of them."""
    with_room = dict.fromkeys(member_ids)
    for number in range(partition_count):
        nearest = next(
            (
                member_id
                for member_id in with_room
                if all(topic.is_near(member_id, number) and topic.room(member_id) for topic in topics)
            ),
            None,
        )
        if nearest is None:
            continue
        for topic in topics:
            topic.give(nearest, [number])
        if not any(topic.room(nearest) for topic in topics):
            del with_room[nearest]
