"""What a classic member writes and reads: JoinGroup, SyncGroup, LeaveGroup, and the consumer protocol inside them.

Pure functions; `classic_group.py` decides when.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kwire.assignors.base import Assignor, MemberSubscription
from kwire.config import ConsumerConfig
from kwire.managers.membership import GroupIdentity
from kwire.model import TopicPartition
from kwire.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kwire.protocol.messages import consumer_protocol as wire
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponseMember
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE = "consumer"
SUBSCRIPTION_VERSION = 3  # KIP-881: with rack; older readers skip what they do not know
ASSIGNMENT_VERSION = 0  # no later version adds anything but its number
MAX_REASON_CHARACTERS = 255  # KIP-800
MANY_LEAVERS_VERSION = 3  # LeaveGroup v3 (KIP-345) takes a list of members


def join_request(
    config: ConsumerConfig,
    identity: GroupIdentity,
    assignors: Iterable[Assignor],
    topics: Iterable[str],
    reason: str,
) -> JoinGroupRequest:
    """JoinGroup. An eager member owns nothing when it sends this, so it reports no owned partitions."""
    subscription = wire.ConsumerProtocolSubscription(topics=sorted(topics), rack_id=config.client_rack or None)
    metadata = encode_subscription(SUBSCRIPTION_VERSION, subscription)
    return JoinGroupRequest(
        group_id=identity.group_id,
        session_timeout_ms=int(config.session_timeout_ms),
        rebalance_timeout_ms=int(config.max_poll_interval_ms),
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=assignor.name, metadata=metadata) for assignor in assignors],
        reason=reason[:MAX_REASON_CHARACTERS],
    )


def sync_request(
    identity: GroupIdentity, protocol_name: str, plan: Mapping[str, Sequence[TopicPartition]]
) -> SyncGroupRequest:
    """SyncGroup. `plan` is empty for a follower."""
    return SyncGroupRequest(
        group_id=identity.group_id,
        generation_id=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=write_assignment(partitions))
            for member_id, partitions in sorted(plan.items())
        ],
    )


def leave_request(identity: GroupIdentity, reason: str, version: int) -> LeaveGroupRequest:
    if version < MANY_LEAVERS_VERSION:
        return LeaveGroupRequest(group_id=identity.group_id, member_id=identity.member_id)
    member = MemberIdentity(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        reason=reason[:MAX_REASON_CHARACTERS],
    )
    return LeaveGroupRequest(group_id=identity.group_id, members=[member])


def read_subscriptions(members: Iterable[JoinGroupResponseMember]) -> dict[str, MemberSubscription]:
    """What each member of the group wants, as the leader is told."""
    return {member.member_id: _read_subscription(member) for member in members}


def _read_subscription(member: JoinGroupResponseMember) -> MemberSubscription:
    subscription = decode_subscription(member.metadata)
    return MemberSubscription(
        topics=frozenset(subscription.topics),
        group_instance_id=member.group_instance_id,
        owned_partitions=frozenset(_flatten(subscription.owned_partitions)),
        generation_id=subscription.generation_id,
        rack=subscription.rack_id,
        user_data=subscription.user_data,
    )


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for tp in sorted(partitions):
        by_topic[tp.topic].append(tp.partition)
    assigned = [wire.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    return encode_assignment(ASSIGNMENT_VERSION, wire.ConsumerProtocolAssignment(assigned_partitions=assigned))


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """The partitions in a SyncGroup answer. No bytes at all mean none: the leader left this member out."""
    if not data:
        return frozenset()
    return frozenset(_flatten(decode_assignment(data).assigned_partitions))


def _flatten(topics: Iterable[wire.TopicPartition]) -> Iterable[TopicPartition]:
    return (TopicPartition(entry.topic, number) for entry in topics for number in entry.partitions)
