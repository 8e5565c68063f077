"""ConsumerGroupDescribe: state, epochs and members of groups of the consumer protocol (KIP-848, KIP-1099)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.groups.consumer import ConsumerGroup
from kwire.testing.cluster.handlers.describe_groups import ALL_GROUP_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.groups.consumer_member import ConsumerMember

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


async def handle(request: ConsumerGroupDescribeRequest, call: Call) -> ConsumerGroupDescribeResponse:
    """Each group by itself; classic groups are not found here."""
    described = [_described(group_id, call) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=described)


def _described(group_id: str, call: Call) -> DescribedGroup:
    if not group_id.strip():
        return DescribedGroup(group_id="", error_code=ErrorCode.INVALID_GROUP_ID)
    code = call.group_error(group_id, Operation.DESCRIBE)
    if code is not ErrorCode.NONE:
        return DescribedGroup(group_id=group_id, error_code=code)
    group = call.cluster.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=what)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(member, group) for member in group.members.values()],
    )


def _member(member: ConsumerMember, group: ConsumerGroup) -> Member:
    held: dict[UUID, list[int]] = {}
    # What it has to give up is its own until it says that it did.
    for holdings in (member.assigned, member.revoking):
        for topic_id, partitions in holdings.items():
            held.setdefault(topic_id, []).extend(partitions)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(held, group),
        target_assignment=_assignment(group.roster.target(member.member_id), group),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[UUID, Iterable[int]], group: ConsumerGroup) -> Assignment:
    """Without topics that are gone: there is no name to tell."""
    named = [(topic_id, group.world.named(topic_id)) for topic_id in partitions]
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id]))
            for topic_id, name in named
            if name is not None
        ]
    )
