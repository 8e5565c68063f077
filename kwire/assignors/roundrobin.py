"""The round-robin assignor: all partitions of all topics are dealt out, one member after the other.

A member that does not want a topic is passed over, and the round goes on after the one that took the partition. With
equal subscriptions the shares differ by one at most; with others they may differ a lot (`sticky` evens them out).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from kwire.assignors.base import (
    NO_RACKS,
    Assignor,
    MemberSubscription,
    PartitionRacks,
    Plan,
    as_java_sorts,
    members_in_order,
)
from kwire.model import TopicPartition


class RoundRobinAssignor(Assignor):
    """Kafka's `roundrobin`; see the module."""

    name = "roundrobin"

    def assign(
        self,
        partitions_per_topic: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        *,
        partition_racks: PartitionRacks = NO_RACKS,  # noqa: ARG002  the interface
    ) -> Plan:
        """See `Assignor.assign`. Racks do not matter, as in Java."""
        plan: Plan = {member_id: [] for member_id in members}
        ring = members_in_order(members)
        at = 0
        for topic in sorted(partitions_per_topic, key=as_java_sorts):
            # Where in the ring those that want the topic sit: finding the next one is then a binary search.
            seats = [seat for seat, member_id in enumerate(ring) if topic in members[member_id].topics]
            for number in range(partitions_per_topic[topic] if seats else 0):
                seat = seats[bisect_left(seats, at) % len(seats)]
                plan[ring[seat]].append(TopicPartition(topic, number))
                at = (seat + 1) % len(ring)
        return plan
