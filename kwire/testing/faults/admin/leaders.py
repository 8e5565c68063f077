"""Leaders: they are looked up, and moved by a new order of the replicas and an election of the preferred one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from kwire.model import TopicPartition
from kwire.testing.faults.admin.patience import ANSWER_S, AdminError, insist, wait_for
from kwire.testing.faults.admin.topics import Placement, Topics
from kwire.testing.faults.admin.wire import (
    AlterPartitionReassignmentsRequest,
    Brokers,
    ReassignedPartition,
    ReassignedTopic,
)


class Leaders:
    """The leaders of partitions."""

    def __init__(self, client: AdminClient, topics: Topics, brokers: Brokers) -> None:
        self._client = client
        self._topics = topics
        self._brokers = brokers

    def of(self, partition: TopicPartition) -> int:
        """The broker that leads the partition, once one does."""
        return wait_for(lambda: self._led(partition), f"{partition} has a leader").leader

    def prepare_move(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Make the next replica in sync the preferred leader of each, and return it. Leaders do not move yet."""
        orders: dict[TopicPartition, tuple[int, ...]] = {}
        for topic in sorted({partition.topic for partition in partitions}):
            placements = self._topics.placements(topic)
            orders |= {each: another_first(placements[each]) for each in placements if each in partitions}
        self.reassign(orders)
        return {partition: order[0] for partition, order in orders.items()}

    def elect(self, leaders: Mapping[TopicPartition, int]) -> None:
        """Move the leaders that were prepared; returns when all have moved."""
        places = [Place(partition.topic, partition.partition) for partition in leaders]
        insist(
            lambda: self._client.elect_leaders(ElectionType.PREFERRED, places).result(ANSWER_S), "leaders are elected"
        )
        wait_for(lambda: self._lead(leaders), f"others lead {', '.join(map(str, leaders))}")

    def reassign(self, orders: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """Give partitions these replicas, the preferred leader first; returns when they have them."""
        topics = sorted({partition.topic for partition in orders})
        request = AlterPartitionReassignmentsRequest(topics=[_reassigned(topic, orders) for topic in topics])
        insist(lambda: self._order(request), "replicas are reassigned")
        wait_for(lambda: self._have(orders), "replicas are where they are to be")

    def _order(self, request: AlterPartitionReassignmentsRequest) -> None:
        answer = self._brokers.ask(request)
        codes = [result.error_code for topic in answer.responses for result in topic.partitions]
        if answer.error_code or any(codes):
            raise AdminError(f"replicas are not reassigned: errors {answer.error_code}, {codes}")

    def _led(self, partition: TopicPartition) -> Placement | None:
        placement = self._topics.placement(partition)
        return placement if placement is not None and placement.leader >= 0 else None

    def _lead(self, leaders: Mapping[TopicPartition, int]) -> bool:
        now = self._placements(leaders)
        return all(now[partition].leader == leader for partition, leader in leaders.items())

    def _have(self, orders: Mapping[TopicPartition, tuple[int, ...]]) -> bool:
        now = self._placements(orders)
        return all(now[partition].replicas == order for partition, order in orders.items())

    def _placements(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Placement]:
        found: dict[TopicPartition, Placement] = {}
        for topic in sorted({partition.topic for partition in partitions}):
            found |= self._topics.placements(topic)
        return found


def another_first(placement: Placement) -> tuple[int, ...]:
    """The same replicas, with the next one in sync behind the leader in front.

    Raises:
        AdminError: no other replica is in sync.
    """
    behind = placement.replicas.index(placement.leader) + 1 if placement.leader in placement.replicas else 0
    circle = (*placement.replicas[behind:], *placement.replicas[:behind])
    able = [number for number in circle if number in placement.in_sync and number != placement.leader]
    if not able:
        raise AdminError("nobody else is in sync: the leader cannot move")
    return (able[0], *(number for number in placement.replicas if number != able[0]))


def _reassigned(topic: str, orders: Mapping[TopicPartition, tuple[int, ...]]) -> ReassignedTopic:
    partitions = [
        ReassignedPartition(partition_index=partition.partition, replicas=list(order))
        for partition, order in orders.items()
        if partition.topic == topic
    ]
    return ReassignedTopic(name=topic, partitions=partitions)
