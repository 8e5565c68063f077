"""Topics: they are created, deleted, grown and configured, and their replicas are looked up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has them all, without saying so to checkers
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from kwire.model import TopicPartition
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.testing.faults.admin.patience import ANSWER_S, insist, insist_once, wait_for
from kwire.testing.faults.admin.wire import Brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The replicas of a partition: ids of brokers, the preferred leader first. A leader of -1 means none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it has a leader, and every replica is in sync."""
        return self.leader >= 0 and len(self.in_sync) == len(self.replicas)


class Topics:
    """The topics of a cluster. Each change returns when the metadata of the brokers has it."""

    def __init__(self, client: AdminClient, brokers: Brokers) -> None:
        self._client = client
        self._brokers = brokers

    def create(self, name: str, partitions: int, *, replicas: int, settings: Mapping[str, str]) -> None:
        topic = NewTopic(name, partitions, replicas, config=dict(settings))
        insist_once(
            lambda: self._client.create_topics([topic])[name].result(ANSWER_S),
            f"topic {name} is made",
            is_done=KafkaError.TOPIC_ALREADY_EXISTS,
        )
        wait_for(lambda: self._is_led(name, partitions), f"topic {name} has leaders")

    def delete(self, name: str) -> None:
        insist_once(
            lambda: self._client.delete_topics([name])[name].result(ANSWER_S),
            f"topic {name} is deleted",
            is_done=KafkaError.UNKNOWN_TOPIC_OR_PART,
        )
        wait_for(lambda: not self.placements(name), f"topic {name} is gone")

    def grow(self, name: str, partitions: int) -> None:
        """Give the topic this many partitions."""
        insist_once(
            lambda: self._client.create_partitions([NewPartitions(name, partitions)])[name].result(ANSWER_S),
            f"topic {name} grows",
            is_done=KafkaError.INVALID_PARTITIONS,
        )
        wait_for(lambda: self._is_led(name, partitions), f"topic {name} has its new leaders")

    def configure(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None restores the default."""
        entries = [_entry(setting, value) for setting, value in settings.items()]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        insist(
            lambda: [each.result(ANSWER_S) for each in self._client.incremental_alter_configs([resource]).values()],
            f"topic {name} is configured",
        )

    def placements(self, name: str) -> Mapping[TopicPartition, Placement]:
        """The placement of each partition; none for a topic that does not exist."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (found,) = insist(lambda: self._brokers.ask(request), "brokers tell of topics").topics
        return {
            TopicPartition(name, each.partition_index): Placement(
                leader=each.leader_id, replicas=tuple(each.replica_nodes), in_sync=tuple(each.isr_nodes)
            )
            for each in sorted(found.partitions, key=lambda each: each.partition_index)
        }

    def placement(self, partition: TopicPartition) -> Placement | None:
        """The placement of a partition; None if it does not exist."""
        return self.placements(partition.topic).get(partition)

    def are_whole(self, names: Collection[str]) -> bool:
        """Whether every partition of these topics has a leader, and every replica is in sync."""
        return all(placement.is_whole for name in names for placement in self.placements(name).values())

    def _is_led(self, name: str, partitions: int) -> bool:
        found = self.placements(name)
        return len(found) == partitions and all(placement.leader >= 0 for placement in found.values())


def _entry(name: str, value: str | None) -> ConfigEntry:
    change = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=change)
