"""Errors that brokers answer for reasons of their own, by kind of request; `faults.refused_requests` draws from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.protocol.schema import Message, Request

_OF_COORDINATORS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_OF_FETCH_SESSIONS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
Answer: TypeAlias = Message | Callable[[Request[Message]], Message]


def _fetch_refused_in_part(code: ErrorCode) -> Answer:
    """Each partition, without a session: so the next request names them all again."""

    def answer(request: Request[Message]) -> Message:
        assert isinstance(request, FetchRequest)
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionData(partition_index=one.partition, error_code=code) for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def _commit_refused(code: ErrorCode) -> Answer:
    """Errors of commits stand with each partition."""

    def answer(request: Request[Message]) -> Message:
        assert isinstance(request, OffsetCommitRequest)
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def _lookup_refused(code: ErrorCode) -> Answer:
    """The group as a whole."""

    def answer(request: Request[Message]) -> Message:
        assert isinstance(request, OffsetFetchRequest)
        refused = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups]
        return OffsetFetchResponse(groups=refused)

    return answer


def _lookup_refused_in_part(code: ErrorCode) -> Answer:
    """Each partition, while the group is well."""

    def answer(request: Request[Message]) -> Message:
        assert isinstance(request, OffsetFetchRequest)
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        OffsetFetchResponseTopics(
                            name=topic.name,
                            topic_id=topic.topic_id,
                            partitions=[
                                OffsetFetchResponsePartitions(partition_index=one, committed_offset=-1, error_code=code)
                                for one in topic.partition_indexes
                            ],
                        )
                        for topic in group.topics or ()
                    ],
                )
                for group in request.groups
            ]
        )

    return answer


def _listing_refused(code: ErrorCode) -> Answer:
    def answer(request: Request[Message]) -> Message:
        assert isinstance(request, ListOffsetsRequest)
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=code)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


Refusal: TypeAlias = tuple[type[Request[Message]], Callable[[ErrorCode], Answer], tuple[ErrorCode, ...]]
"""A kind of request, its answers, and errors that brokers give in these for reasons of their own."""

OFFSET_REFUSALS: tuple[Refusal, ...] = (
    (
        OffsetCommitRequest,
        _commit_refused,
        (*_OF_COORDINATORS, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT),
    ),
    (
        OffsetFetchRequest,
        _lookup_refused,
        (*_OF_COORDINATORS, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ),
    (OffsetFetchRequest, _lookup_refused_in_part, (ErrorCode.UNSTABLE_OFFSET_COMMIT,)),
    (
        ListOffsetsRequest,
        _listing_refused,
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.OFFSET_NOT_AVAILABLE),
    ),
)
REFUSALS: tuple[Refusal, ...] = (
    *OFFSET_REFUSALS,
    (
        FetchRequest,
        lambda code: FetchResponse(error_code=code),
        (*_OF_FETCH_SESSIONS, ErrorCode.UNKNOWN_SERVER_ERROR),
    ),
    (
        HeartbeatRequest,
        lambda code: HeartbeatResponse(error_code=code),
        (*_OF_COORDINATORS, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID),
    ),
    (
        ConsumerGroupHeartbeatRequest,
        lambda code: ConsumerGroupHeartbeatResponse(error_code=code),
        (*_OF_COORDINATORS, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID),
    ),
    (
        JoinGroupRequest,
        lambda code: JoinGroupResponse(error_code=code),
        (*_OF_COORDINATORS, ErrorCode.UNKNOWN_MEMBER_ID),
    ),
    (
        SyncGroupRequest,
        lambda code: SyncGroupResponse(error_code=code),
        (*_OF_COORDINATORS, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID),
    ),
    (
        FetchRequest,
        _fetch_refused_in_part,
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ),
)
