"""State and members of a group, by a request for each protocol: the consumer protocol (KIP-848), and the classic
one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from kwire.cli.admin.group_values import DEAD, GroupState, Member
from kwire.config import Endpoint
from kwire.errors import ProtocolError, UnsupportedVersionError
from kwire.model import TopicPartition
from kwire.network.broker_client import BrokerClient
from kwire.protocol.consumer_protocol import decode_assignment
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages import consumer_group_describe, describe_groups
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest

Describe: TypeAlias = Callable[[BrokerClient, str, Endpoint], tuple[GroupState | None, int]]
"""Answers the group and an error code that says to ask again, if there is one; None, if it is not of this kind."""


def describe_consumer_group(client: BrokerClient, group: str, coordinator: Endpoint) -> tuple[GroupState | None, int]:
    """A group of the consumer protocol."""
    try:
        (found,) = client.ask(ConsumerGroupDescribeRequest(group_ids=[group]), coordinator).groups
    except UnsupportedVersionError:
        return None, 0
    code = ErrorCode.of(found.error_code)
    if code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None, 0
    if code is not ErrorCode.NONE and not code.retriable:
        raise error_for(code, f"group {group}")
    state = GroupState(
        group=group,
        state=found.group_state,
        type="consumer",
        assignor=found.assignor_name,
        coordinator=coordinator,
        members=tuple(map(_new_member, found.members)),
    )
    return state, code


def describe_classic_group(client: BrokerClient, group: str, coordinator: Endpoint) -> tuple[GroupState | None, int]:
    """A group of the classic protocol, or one that does not exist."""
    (found,) = client.ask(DescribeGroupsRequest(groups=[group]), coordinator).groups
    code = ErrorCode.of(found.error_code)
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        code, found.group_state = ErrorCode.NONE, DEAD
    if code is not ErrorCode.NONE and not code.retriable:
        raise error_for(code, f"group {group}")
    state = GroupState(
        group=group,
        state=found.group_state,
        type="classic",
        assignor=found.protocol_data,
        coordinator=coordinator,
        members=tuple(map(_classic_member, found.members)),
    )
    return state, code


def _new_member(member: consumer_group_describe.Member) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic_name, number)
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            )
        ),
    )


def _classic_member(member: describe_groups.DescribedGroupMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        partitions=tuple(sorted(_assigned(member.member_assignment))),
    )


def _assigned(data: bytes) -> Iterator[TopicPartition]:
    """None while the group is not stable; nor of a group of another kind of client, such as Kafka Connect."""
    if not data:
        return
    try:
        topics = decode_assignment(data).assigned_partitions
    except ProtocolError:
        return
    for topic in topics:
        for number in topic.partitions:
            yield TopicPartition(topic.topic, number)
