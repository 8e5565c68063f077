"""What an assignor is: a pure function from (partition counts, members) to each member's partitions.

Contract: the answer has an entry for each member, also for one that gets nothing; the same input always gives the same
answer, whatever the order of its mappings, because Java and librdkafka members may be asked next time. Called by the
leader's side of the classic group manager; the broker assigns under KIP-848.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from kwire.model import TopicPartition

# The racks that hold a replica, by partition; what is not in it counts as being on no rack (KIP-881).
PartitionRacks = Mapping[TopicPartition, Collection[str]]
NO_RACKS: PartitionRacks = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """What one member of the group wants, has, and where it stands.

    Two members may share a `group_instance_id` only while the broker is replacing one by the other.
    """

    topics: frozenset[str]
    group_instance_id: str | None = None
    owned_partitions: frozenset[TopicPartition] = frozenset()
    rack: str | None = None


class Assignor(Protocol):
    """One way to share out partitions."""

    @property
    def name(self) -> str:
        """How the group's members agree on it; Kafka's name, so that clients of all kinds can."""

    def assign(
        self,
        partitions_per_topic: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        *,
        partition_racks: PartitionRacks = NO_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        """Share out the partitions.

        Args:
            partitions_per_topic: how many partitions each topic has. Topics that do not exist are left out.
            members: by member id.
            partition_racks: where the replicas are, for assignors that keep reads within a rack.
        """


def members_by_topic(topics: Iterable[str], members: Mapping[str, MemberSubscription]) -> dict[str, tuple[str, ...]]:
    """Who wants each topic, in the order in which members are served."""
    ordered = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    return {
        topic: tuple(member_id for member_id in ordered if topic in members[member_id].topics)
        for topic in sorted(topics)
    }


def _rank(member_id: str, member: MemberSubscription) -> tuple[bool, bytes, bytes]:
    """Static members first, by instance id (KIP-345): it survives restarts, so their partitions stay put."""
    instance_id = member.group_instance_id
    return instance_id is None, _as_java_sorts(instance_id or ""), _as_java_sorts(member_id)


def _as_java_sorts(text: str) -> bytes:
    """Java compares UTF-16 units: an emoji (surrogates, U+D83D...) comes before U+FF5E, for Python after it."""
    return text.encode("utf-16-be", "surrogatepass")
