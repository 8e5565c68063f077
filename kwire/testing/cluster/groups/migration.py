"""A running group goes over to the other protocol, and back (KIP-848): conversions between the two kinds of groups.

Up: a heartbeat of the consumer protocol meets a classic group of consumers. Down: the last member of the consumer
protocol leaves, is fenced, or is replaced by a classic one with its instance id. `classic_in_consumer` serves the
classic members in between. Called by the handlers and, through `ConsumerGroup.fence`, by timers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from kwire.errors import ProtocolError
from kwire.protocol.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from kwire.testing.cluster.groups.classic import ClassicGroup
from kwire.testing.cluster.groups.classic_member import ClassicMemberEntry
from kwire.testing.cluster.groups.consumer import ConsumerGroup
from kwire.testing.cluster.groups.consumer_member import NEW, ClassicFacts, ConsumerMember
from kwire.testing.cluster.groups.consumer_world import GroupCluster
from kwire.testing.cluster.groups.refusal import GroupRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from kwire.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from kwire.testing.cluster.groups.consumer_world import TopicFacts
    from kwire.testing.cluster.groups.group import Group
    from kwire.testing.cluster.groups.surroundings import Client, CoordinatorServices

UPGRADES, DOWNGRADES = frozenset({"bidirectional", "upgrade"}), frozenset({"bidirectional", "downgrade"})
"""Values of group.consumer.migration.policy that allow it."""

VERSION_BYTES = 2


class Groups(Protocol):
    """The cluster's groups. `GroupStore` is one."""

    @property
    def surroundings(self) -> CoordinatorServices: ...

    def get(self, group_id: str) -> Group | None: ...

    def put(self, group: Group) -> None: ...


class MigratingWorld(GroupCluster, Protocol):
    """The cluster as far as groups change their kind in it. `ClusterState` is one."""

    @property
    def groups(self) -> Groups: ...


def new_consumer_group(world: MigratingWorld, group_id: str) -> ConsumerGroup:
    """A consumer group without members. It is for the caller to put it among the groups."""
    return ConsumerGroup(group_id, world, partial(_downgrade_for_leaving, world))


def heartbeat(
    world: MigratingWorld, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: float
) -> ConsumerGroupHeartbeatResponse:
    """ConsumerGroupHeartbeat, whatever kind of group it meets.

    Raises:
        Refusal: Nothing has changed.
    """
    found = world.groups.get(request.group_id)
    if isinstance(found, ConsumerGroup):
        return found.heartbeat(request, client, now_ms)
    if request.member_epoch != NEW:
        raise GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
    if isinstance(found, ClassicGroup) and not found.is_empty:
        made = upgraded(world, found, now_ms)
    else:
        made = new_consumer_group(world, request.group_id)
    response = made.heartbeat(request, client, now_ms)
    world.groups.put(made)
    if isinstance(found, ClassicGroup):
        # Who waits for the end of a rebalance joins again, and then finds a consumer group.
        found.abandon(ErrorCode.REBALANCE_IN_PROGRESS)
        found.timers.clear()
    return response


# --- up --------------------------------------------------------------------------------------------------------------


def upgraded(world: MigratingWorld, group: ClassicGroup, now_ms: float) -> ConsumerGroup:
    """A consumer group with the members of a classic one, and what they have.

    Raises:
        Refusal: GROUP_ID_NOT_FOUND, as Kafka calls everything that stands against it.
    """
    _check_upgrade(world, group)
    made = new_consumer_group(world, group.group_id)
    made.epoch = made.assignment_epoch = group.generation
    try:
        for member in group.members.values():
            _add(made, member, group, world.topics)
    except ProtocolError as error:
        raise GroupRefusal(
            ErrorCode.GROUP_ID_NOT_FOUND, f"the embedded consumer protocol is malformed: {error}"
        ) from None
    made.remember_topics()
    for member in group.members.values():
        made.start_session(member.member_id, member.session_timeout_ms, now_ms)
    return made


def _check_upgrade(world: MigratingWorld, group: ClassicGroup) -> None:
    name = group.group_id
    if world.settings.group_consumer_migration_policy not in UPGRADES:
        raise GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade {name}: online upgrade is disabled.")
    if not group.uses_consumer_protocol:
        raise GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade {name}: it is not a group of consumers.")
    if len(group.members) > world.settings.group_consumer_max_size:
        raise GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade {name}: it has too many members.")
    if group.protocol_name is None:
        raise GroupRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Cannot upgrade {name}: it has had no generation yet.")


def _add(
    made: ConsumerGroup, member: ClassicMemberEntry, group: ClassicGroup, topics: Mapping[str, TopicFacts]
) -> None:
    subscription = decode_subscription(member.metadata(group.protocol_name))
    assigned = _assigned(member.assignment, topics)
    made.roster.put(
        ConsumerMember(
            member_id=member.member_id,
            epoch=group.generation,
            previous_epoch=group.generation,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            assigned={topic_id: dict.fromkeys(sorted(some), group.generation) for topic_id, some in assigned.items()},
            classic=ClassicFacts(member.session_timeout_ms, tuple(member.protocols)),
        )
    )
    made.roster.targets[member.member_id] = assigned


def _assigned(assignment: bytes, topics: Mapping[str, TopicFacts]) -> dict[UUID, frozenset[int]]:
    """What the classic leader gave it; nothing before its first SyncGroup."""
    if not assignment:
        return {}
    read = decode_assignment(assignment)
    if read.user_data:
        raise GroupRefusal(
            ErrorCode.GROUP_ID_NOT_FOUND, "Cannot upgrade: userData from a custom assignor would be lost"
        )
    found = [entry for entry in read.assigned_partitions if entry.topic in topics]
    return {topics[entry.topic].topic_id: frozenset(entry.partitions) for entry in found}


# --- down ------------------------------------------------------------------------------------------------------------


def _downgrade_for_leaving(
    world: MigratingWorld, group: ConsumerGroup, leaving: Sequence[ConsumerMember], now_ms: float
) -> bool:
    """When these are gone and only classic members are left: a classic group that rebalances."""
    gone = {member.member_id for member in leaving}
    staying = [member for member in group.members.values() if member.member_id not in gone]
    if not staying or not may_downgrade(world, staying):
        return False
    _downgrade(world, group, staying, generation=group.epoch, now_ms=now_ms).prepare_rebalance(now_ms)
    return True


def may_downgrade(world: MigratingWorld, members: Sequence[ConsumerMember]) -> bool:
    """Whether a group of these members is to be a classic one."""
    settings = world.settings
    return (
        all(member.is_classic for member in members)
        and settings.group_consumer_migration_policy in DOWNGRADES
        and len(members) <= settings.group_max_size
    )


def downgrade_for_successor(
    world: MigratingWorld, group: ConsumerGroup, joining: ConsumerMember, generation: int, now_ms: float
) -> ClassicGroup:
    """A classic group in which `joining` has what the member was to have whose place it has taken."""
    others = [member for member in group.members.values() if member.member_id != joining.member_id]
    return _downgrade(world, group, [*others, joining], generation=generation, now_ms=now_ms)


def _downgrade(
    world: MigratingWorld, group: ConsumerGroup, members: Sequence[ConsumerMember], *, generation: int, now_ms: float
) -> ClassicGroup:
    made = ClassicGroup.of_consumer_members(
        group.group_id,
        world.groups.surroundings,
        generation=generation,
        members=[_classic(group, member) for member in members],
        now_ms=now_ms,
    )
    group.timers.clear()
    world.groups.put(made)
    return made


def _classic(group: ConsumerGroup, member: ConsumerMember) -> ClassicMemberEntry:
    facts = classic_facts(member)
    target = group.roster.target(member.member_id)
    return ClassicMemberEntry(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=facts.session_timeout_ms,
        protocols=list(facts.protocols),
        assignment=written(group, facts, {topic_id: sorted(some) for topic_id, some in target.items()}),
    )


def classic_facts(member: ConsumerMember) -> ClassicFacts:
    """What a classic member said when it joined.

    Raises:
        Refusal: UNKNOWN_MEMBER_ID, if it is a member of the consumer protocol.
    """
    if member.classic is None:
        message = f"Member {member.member_id} does not use the classic protocol."
        raise GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member.classic


def written(group: ConsumerGroup, facts: ClassicFacts, partitions: Mapping[UUID, Sequence[int]]) -> bytes:
    """An assignment as the bytes of SyncGroup, in the version that the member subscribed with."""
    names = {topic_id: group.world.named(topic_id) for topic_id in partitions}
    entries = [
        TopicPartition(topic=name, partitions=list(partitions[topic_id])) for topic_id, name in names.items() if name
    ]
    version = int.from_bytes(facts.protocols[0][1][:VERSION_BYTES], "big", signed=True)
    newest = ConsumerProtocolAssignment.max_version
    return encode_assignment(min(version, newest), ConsumerProtocolAssignment(assigned_partitions=entries))
