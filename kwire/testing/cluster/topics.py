"""Topics and partitions, with leaders and logs. Only `state` changes them; every handler reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.model import INTERNAL_TOPICS
from kwire.testing.cluster.log import PartitionLog

if TYPE_CHECKING:
    from uuid import UUID

    from kwire.testing.cluster.settings import TopicSettings

NO_LEADER = -1


@dataclass(slots=True)
class Partition:
    """One partition. `log` stands for the logs of all replicas in sync."""

    topic: str
    index: int
    replicas: list[int]
    log: PartitionLog
    leader: int = NO_LEADER
    leader_epoch: int = 0
    isr: list[int] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, int]:
        """The key that `ClusterState.changed` is notified of when records arrive, offsets move or the leader
        changes."""
        return ("partition", self.topic, self.index)


@dataclass(slots=True)
class Topic:
    """A topic and the configuration that was given for it."""

    name: str
    topic_id: UUID
    config: dict[str, str]
    settings: TopicSettings
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        """Whether it is an internal topic of Kafka's, by its name."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """The partition with this number, if there is one."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def add_partition(self, replicas: list[int]) -> Partition:
        """Add a partition, led by the first of its replicas. The caller has to set which replicas are in sync."""
        made = Partition(self.name, len(self.partitions), replicas, PartitionLog(self.settings))
        self.partitions.append(made)
        return made
