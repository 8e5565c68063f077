"""What a classic member writes and reads: JoinGroup, SyncGroup, LeaveGroup, and the consumer protocol inside them.

Pure functions; `classic_join.py` and `classic_member.py` decide when.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kwire.assignors.base import Assignor, MemberSubscription
from kwire.config import ConsumerConfig
from kwire.epochs import GenerationOrMemberEpoch
from kwire.errors import AssignorError, ProtocolError
from kwire.managers.membership import NO_GENERATION, GroupIdentity
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


class LastAssignment(NamedTuple):
    """What a member got in the last rebalance that it completed. It is kept when the member has lost it since."""

    partitions: frozenset[TopicPartition]
    generation_id: GenerationOrMemberEpoch


def join_request(
    config: ConsumerConfig,
    identity: GroupIdentity,
    assignors: Iterable[Assignor],
    topics: frozenset[str],
    *,
    owned: Iterable[TopicPartition],
    last: LastAssignment | None,
    reason: str,
) -> JoinGroupRequest:
    """JoinGroup, with one subscription for each assignor.

    `owned` are the partitions that the member keeps while it joins: none under the eager protocol. The member claims
    them with its present generation (KIP-792), even if it missed the SyncGroup of that generation: the plan that it
    missed took its claim into account, so nobody else was given any of them.

    Raises:
        AssignorError: An assignor of the user's own failed.
    """

    def subscription(assignor: Assignor) -> bytes:
        told = wire.ConsumerProtocolSubscription(
            topics=sorted(topics),
            user_data=_user_data(assignor, topics, last),
            owned_partitions=by_topic(owned),
            generation_id=identity.generation_id,
            rack_id=config.client_rack or None,
        )
        return encode_subscription(SUBSCRIPTION_VERSION, told)

    return JoinGroupRequest(
        group_id=identity.group_id,
        session_timeout_ms=int(config.session_timeout_ms),
        rebalance_timeout_ms=int(config.max_poll_interval_ms),
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=one.name, metadata=subscription(one)) for one in assignors],
        reason=reason[:MAX_REASON_CHARACTERS],
    )


def _user_data(assignor: Assignor, topics: frozenset[str], last: LastAssignment | None) -> bytes | None:
    partitions, generation_id = (None, NO_GENERATION) if last is None else last
    try:
        data = assignor.subscription_user_data(topics, partitions, generation_id)
    except Exception as error:
        raise AssignorError(f"assignor {assignor.name!r} failed: {type(error).__name__}: {error}") from error
    if not (data is None or isinstance(data, bytes)):
        raise AssignorError(f"assignor {assignor.name!r} made user data of {type(data).__name__}, not of bytes")
    return data


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
    """What each member of the group wants, as the leader is told.

    Raises:
        ProtocolError: The subscription of a member cannot be read.
    """
    return {member.member_id: _read_subscription(member) for member in members}


def _read_subscription(member: JoinGroupResponseMember) -> MemberSubscription:
    try:
        subscription = decode_subscription(member.metadata)
    except ProtocolError as error:
        # Nobody gets partitions as long as it is there, so the operator has to find it.
        instance = f" (group_instance_id {member.group_instance_id!r})" if member.group_instance_id is not None else ""
        raise ProtocolError(
            f"the subscription of member {member.member_id!r}{instance} cannot be read, so the group's partitions "
            f"cannot be assigned: {error}; look at that member's client, or stop it"
        ) from error
    return MemberSubscription(
        topics=frozenset(subscription.topics),
        group_instance_id=member.group_instance_id,
        owned_partitions=frozenset(_flatten(subscription.owned_partitions)),
        generation_id=subscription.generation_id,
        rack=subscription.rack_id,
        user_data=subscription.user_data,
    )


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    assignment = wire.ConsumerProtocolAssignment(assigned_partitions=by_topic(partitions))
    return encode_assignment(ASSIGNMENT_VERSION, assignment)


def by_topic(partitions: Iterable[TopicPartition]) -> list[wire.TopicPartition]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for tp in sorted(partitions):
        found[tp.topic].append(tp.partition)
    return [wire.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in found.items()]


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """The partitions in a SyncGroup answer. No bytes at all mean none: the leader left this member out."""
    if not data:
        return frozenset()
    return frozenset(_flatten(decode_assignment(data).assigned_partitions))


def _flatten(topics: Iterable[wire.TopicPartition]) -> Iterable[TopicPartition]:
    return (TopicPartition(entry.topic, number) for entry in topics for number in entry.partitions)
