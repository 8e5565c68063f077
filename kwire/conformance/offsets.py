"""Committed offsets, written and read in any version: together OffsetCommit and OffsetFetch have four forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.conformance.expectations import expect_ok, only
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from kwire.conformance.broker import Coordinated, JudgedBroker, SuiteTopic
    from kwire.protocol.messages.offset_fetch import (
        OffsetFetchResponse,
        OffsetFetchResponsePartition,
        OffsetFetchResponsePartitions,
    )

MANY_GROUPS_FROM = 8
"""The first version of OffsetFetch that asks for many groups (KIP-709)."""

STABLE_FROM = 7
"""The first version of OffsetFetch that can require stable offsets (KIP-447)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCommitter:
    """The committer: a member with its generation or epoch, or a client outside of the group."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


NOBODY = CheckedCommitter()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPosition:
    """An offset of one partition to commit."""

    offset: int
    metadata: str | None = ""
    leader_epoch: int = -1
    partition: int = 0


def commit_request(
    group: Coordinated, topic: SuiteTopic, *positions: CheckedPosition, committer: CheckedCommitter = NOBODY
) -> OffsetCommitRequest:
    """An OffsetCommit request for any version that has the committer's fields."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=position.partition,
            committed_offset=position.offset,
            committed_leader_epoch=position.leader_epoch,
            committed_metadata=position.metadata,
        )
        for position in positions
    ]
    return OffsetCommitRequest(
        group_id=group.name,
        generation_id_or_member_epoch=committer.generation,
        member_id=committer.member_id,
        group_instance_id=committer.instance_id,
        topics=[OffsetCommitRequestTopic(name=topic.name, topic_id=topic.id, partitions=partitions)],
    )


def commit(
    broker: JudgedBroker,
    group: Coordinated,
    topic: SuiteTopic,
    position: CheckedPosition,
    *,
    version: int | None = None,
    committer: CheckedCommitter = NOBODY,
) -> int:
    """Commit one offset. Returns its error code."""
    request = commit_request(group, topic, position, committer=committer)
    answer = broker.ask(request, version, address=group.address)
    return only(only(answer.topics, "topic in the answer").partitions, "partition in the answer").error_code


def offset_fetch_request(
    group: Coordinated, topic: SuiteTopic | None, version: int, *, partition: int = 0, require_stable: bool = False
) -> OffsetFetchRequest:
    """A request for one partition, or for all that the group has (`topic` None, version 2 and later)."""
    if version >= MANY_GROUPS_FROM:
        topics = None
        if topic is not None:
            topics = [OffsetFetchRequestTopics(name=topic.name, topic_id=topic.id, partition_indexes=[partition])]
        groups = [OffsetFetchRequestGroup(group_id=group.name, topics=topics)]
        return OffsetFetchRequest(groups=groups, require_stable=require_stable)
    named = None if topic is None else [OffsetFetchRequestTopic(name=topic.name, partition_indexes=[partition])]
    return OffsetFetchRequest(group_id=group.name, topics=named, require_stable=require_stable)


def the_position(
    answer: OffsetFetchResponse, version: int
) -> OffsetFetchResponsePartition | OffsetFetchResponsePartitions:
    """The only offset in an answer, which must not be an error as a whole."""
    if version < MANY_GROUPS_FROM:
        expect_ok(answer.error_code, "OffsetFetch")
        return only(only(answer.topics, "topic in the answer").partitions, "partition in the answer")
    group = only(answer.groups, "group in the answer")
    expect_ok(group.error_code, "OffsetFetch")
    return only(only(group.topics, "topic in the answer").partitions, "partition in the answer")


def fetch_offset(
    broker: JudgedBroker,
    group: Coordinated,
    topic: SuiteTopic,
    *,
    version: int | None = None,
    require_stable: bool = False,
) -> OffsetFetchResponsePartition | OffsetFetchResponsePartitions:
    """The committed offset of partition 0; its error code is not checked."""
    if version is None:
        version = broker.highest(OffsetFetchRequest)
    request = offset_fetch_request(group, topic, version, require_stable=require_stable)
    return the_position(broker.ask(request, version, address=group.address), version)
