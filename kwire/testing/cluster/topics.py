"""Topics and partitions: who leads what, and the log behind it. Changed by `state` alone, read by every handler."""

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
    """One partition. `log` is the one that all replicas in sync have; a stand-in for replication."""

    topic: str
    index: int
    replicas: list[int]
    log: PartitionLog
    leader: int = NO_LEADER
    leader_epoch: int = 0
    isr: list[int] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, int]:
        """What `ClusterState.changed` is told when records come, offsets move or the leader changes."""
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
        """Whether it is one of Kafka's own, as brokers know them: by its name."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """The partition with that number, if there is one."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def add_partition(self, replicas: list[int]) -> Partition:
        """One partition more, led by the first of its replicas. It has to be told who is in sync."""
        made = Partition(self.name, len(self.partitions), replicas, PartitionLog(self.settings))
        self.partitions.append(made)
        return made
