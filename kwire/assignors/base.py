"""What an assignor is: a pure function from (partition counts, members) to each member's partitions.

Contract: the answer has an entry for each member, also for one that gets nothing; the same input always gives the same
answer, whatever the order of its mappings, because Java and librdkafka members may be asked next time. Called by the
leader's side of the classic group manager; the broker assigns under KIP-848.

An assignor of your own derives from `Assignor`, or has the same attributes; `plans.check_plan` says what it got wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol

from kwire.model import TopicPartition

# The racks that hold a replica, by partition; what is not in it counts as being on no rack (KIP-881).
PartitionRacks = Mapping[TopicPartition, Collection[str]]
NO_RACKS: PartitionRacks = MappingProxyType({})

Plan = dict[str, list[TopicPartition]]

NO_GENERATION = -1  # Java's; what members without a generation report, and older ones than KIP-792 mean


class RebalanceProtocol(IntEnum):
    """What members do with their partitions before they join (KIP-429). The numbers rank them, as Java's do."""

    EAGER = 0
    """Members give up all partitions; any plan will do."""

    COOPERATIVE = 1
    """Members keep their partitions. A plan must not give a partition to one member while another still has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """What one member of the group wants, has, and where it stands.

    Two members may share a `group_instance_id` only while the broker is replacing one by the other. `generation_id` is
    the one in which it got `owned_partitions` (KIP-792); `user_data` is what its assignor added.
    """

    topics: frozenset[str]
    group_instance_id: str | None = None
    owned_partitions: frozenset[TopicPartition] = frozenset()
    generation_id: int = NO_GENERATION
    rack: str | None = None
    user_data: bytes | None = None


class Assignor(Protocol):
    """One way to share out partitions."""

    @property
    def name(self) -> str:
        """How the group's members agree on it; Kafka's name, so that clients of all kinds can."""

    @property
    def protocols(self) -> Collection[RebalanceProtocol]:
        """The rebalance protocols that its plans are fit for."""
        return (RebalanceProtocol.EAGER,)

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  for assignors that need it
        last_assigned: Collection[TopicPartition] | None,  # noqa: ARG002  for assignors that need it
        last_generation_id: int,  # noqa: ARG002  for assignors that need it
    ) -> bytes | None:
        """What a member that joins adds to its subscription, for the leader's `assign`.

        Args:
            topics: what it subscribes to.
            last_assigned: what it was assigned last, also if it has given that up since. None before the first time.
            last_generation_id: the generation of that assignment.
        """
        return None

    def assign(
        self,
        partitions_per_topic: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        *,
        partition_racks: PartitionRacks = NO_RACKS,
    ) -> Plan:
        """Share out the partitions.

        Args:
            partitions_per_topic: how many partitions each topic has. Topics that do not exist are left out.
            members: by member id.
            partition_racks: where the replicas are, for assignors that keep reads within a rack.
        """
        ...


def members_by_topic(topics: Iterable[str], members: Mapping[str, MemberSubscription]) -> dict[str, tuple[str, ...]]:
    """Who wants each topic, in the order in which members are served."""
    ordered = members_in_order(members)
    return {
        topic: tuple(member_id for member_id in ordered if topic in members[member_id].topics)
        for topic in sorted(topics, key=as_java_sorts)
    }


def members_in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """The members in the order in which they are served."""
    return sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))


def _rank(member_id: str, member: MemberSubscription) -> tuple[bool, bytes, bytes]:
    """Static members first, by instance id (KIP-345): it survives restarts, so their partitions stay put."""
    instance_id = member.group_instance_id
    return instance_id is None, as_java_sorts(instance_id or ""), as_java_sorts(member_id)


def as_java_sorts(text: str) -> bytes:
    """Java compares UTF-16 units: an emoji (surrogates, U+D83D...) comes before U+FF5E, for Python after it."""
    return text.encode("utf-16-be", "surrogatepass")
