"""Errors that brokers answer for reasons of their own, by kind of request: what the faults about refusals draw from.

A request that would change something is refused instead of carried out. A query is carried out, and a part of the
answer is replaced by errors, so that some partitions of an answer have errors and others do not, as in practice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
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
)
from kwire.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.protocol.schema import Message, Request

if TYPE_CHECKING:
    from kwire.testing.cluster.control import RequestControl, Rule

P = TypeVar("P")

NO_NODE = -1
UNKNOWN = -1

Codes: TypeAlias = tuple[ErrorCode, ...]
Draw: TypeAlias = Callable[[], ErrorCode | None]
"""An error for the next part of an answer; None if that is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefusal:
    """How one kind of request is refused: `answer` makes an answer in place of the broker's, or `spoil` edits that.

    Args:
        codes: The errors that a broker may answer.
    """

    request: type[Request[Message]]
    codes: Codes
    answer: Callable[[Request[Message], ErrorCode], Message] | None = field(default=None)
    spoil: Callable[[Message, Draw], None] | None = field(default=None)

    def begin(self, control: RequestControl, rng: random.Random, share: float) -> Rule:
        """Refuse this many of them from now on: each with one of the codes, or all with the same."""
        codes = self.codes if rng.random() < 0.5 else (rng.choice(self.codes),)

        def draw() -> ErrorCode | None:
            return rng.choice(codes) if rng.random() < share else None

        if self.spoil is not None:
            spoil = self.spoil
            return control.on(self.request).edit(lambda answer: spoil(answer, draw))
        make = self.answer
        assert make is not None
        some = control.on(self.request, where=lambda _request, _call: rng.random() < share)
        return some.answer(lambda request: make(request, rng.choice(codes)))


# --- in place of what was asked for --------------------------------------------------------------------------


def _fetch_refused_in_part(request: Request[Message], code: ErrorCode) -> Message:
    """Each partition, without a session: so the next request names them all again."""
    assert isinstance(request, FetchRequest)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[PartitionData(partition_index=one.partition, error_code=code) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _commit_refused(request: Request[Message], code: ErrorCode) -> Message:
    """Errors of commits stand with each partition."""
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


# --- a part of the answer ------------------------------------------------------------------------------------


def _whole_lookup(message: Message, draw: Draw) -> None:
    """The group as a whole."""
    for whole in _groups(message):
        if (code := draw()) is not None:
            whole.error_code = code
            whole.topics.clear()


def _groups(message: Message) -> Sequence[OffsetFetchResponse | OffsetFetchResponseGroup]:
    """Before KIP-709 (v8) an answer is about one group."""
    answer = cast("OffsetFetchResponse", message)
    return answer.groups or (answer,)


def _partitions_of_lookup(message: Message, draw: Draw) -> None:
    """Single partitions, while the group is well."""
    for whole in _groups(message):
        for topic in whole.topics:
            for found, code in _refused(cast("list[OffsetFetchResponsePartitions]", topic.partitions), draw):
                found.error_code, found.committed_offset, found.committed_leader_epoch = code, UNKNOWN, UNKNOWN


def _partitions_of_listing(message: Message, draw: Draw) -> None:
    for topic in cast("ListOffsetsResponse", message).topics:
        for found, code in _refused(topic.partitions, draw):
            found.error_code, found.offset, found.timestamp = code, UNKNOWN, UNKNOWN


def _partitions_of_epochs(message: Message, draw: Draw) -> None:
    for topic in cast("OffsetForLeaderEpochResponse", message).topics:
        for found, code in _refused(topic.partitions, draw):
            found.error_code, found.leader_epoch, found.end_offset = code, UNKNOWN, UNKNOWN


def _topics_of_metadata(message: Message, draw: Draw) -> None:
    for topic, code in _refused(cast("MetadataResponse", message).topics, draw):
        topic.error_code = code
        topic.partitions.clear()


def _leaders_of_metadata(message: Message, draw: Draw) -> None:
    for topic in cast("MetadataResponse", message).topics:
        for found, code in _refused(topic.partitions, draw):
            found.error_code, found.leader_id = code, NO_NODE


def _coordinators(message: Message, draw: Draw) -> None:
    """Before KIP-699 (v4) an answer is about one group."""
    answer = cast("FindCoordinatorResponse", message)
    parts: Sequence[Coordinator | FindCoordinatorResponse] = answer.coordinators or (answer,)
    for found, code in _refused(parts, draw):
        found.error_code, found.node_id, found.host, found.port = code, NO_NODE, "", NO_NODE


def _refused(parts: Iterable[P], draw: Draw) -> Iterator[tuple[P, ErrorCode]]:
    for part in parts:
        if (code := draw()) is not None:
            yield part, code


# --- the table -----------------------------------------------------------------------------------------------

_OF_COORDINATORS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_OF_LEADERS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
COMMITS_REFUSED = RequestRefusal(
    request=OffsetCommitRequest,
    answer=_commit_refused,
    codes=(
        *_OF_COORDINATORS,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
)
POSITION_REFUSALS: tuple[RequestRefusal, ...] = (
    RequestRefusal(
        request=OffsetFetchRequest,
        spoil=_partitions_of_lookup,
        codes=(
            ErrorCode.UNSTABLE_OFFSET_COMMIT,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ),
    RequestRefusal(request=ListOffsetsRequest, spoil=_partitions_of_listing, codes=_OF_LEADERS),
    RequestRefusal(request=OffsetForLeaderEpochRequest, spoil=_partitions_of_epochs, codes=_OF_LEADERS),
)
LOOKUPS_REFUSED = RequestRefusal(
    request=OffsetFetchRequest,
    spoil=_whole_lookup,
    codes=(
        *_OF_COORDINATORS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
)
FETCH_REFUSALS: tuple[RequestRefusal, ...] = (
    RequestRefusal(
        request=FetchRequest,
        answer=lambda _request, code: FetchResponse(error_code=code),
        codes=(
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ),
    RequestRefusal(
        request=FetchRequest,
        answer=_fetch_refused_in_part,
        codes=(*_OF_LEADERS, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID),
    ),
    RequestRefusal(  # none of these is a reason to ask for metadata, after which a client looks at everything again
        request=FetchRequest,
        answer=_fetch_refused_in_part,
        codes=(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ),
)
REFUSALS: tuple[RequestRefusal, ...] = (
    COMMITS_REFUSED,
    LOOKUPS_REFUSED,
    *POSITION_REFUSALS,
    *FETCH_REFUSALS,
    RequestRefusal(
        request=HeartbeatRequest,
        answer=lambda _request, code: HeartbeatResponse(error_code=code),
        codes=(
            *_OF_COORDINATORS,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
        ),
    ),
    RequestRefusal(
        request=ConsumerGroupHeartbeatRequest,
        answer=lambda _request, code: ConsumerGroupHeartbeatResponse(error_code=code),
        codes=(*_OF_COORDINATORS, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID),
    ),
    RequestRefusal(
        request=JoinGroupRequest,
        answer=lambda _request, code: JoinGroupResponse(error_code=code),
        codes=(*_OF_COORDINATORS, ErrorCode.UNKNOWN_MEMBER_ID),
    ),
    RequestRefusal(
        request=SyncGroupRequest,
        answer=lambda _request, code: SyncGroupResponse(error_code=code),
        codes=(
            *_OF_COORDINATORS,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
        ),
    ),
    RequestRefusal(
        request=LeaveGroupRequest,
        answer=lambda _request, code: LeaveGroupResponse(error_code=code),
        codes=(*_OF_COORDINATORS, ErrorCode.UNKNOWN_MEMBER_ID),
    ),
    RequestRefusal(
        request=MetadataRequest,
        spoil=_topics_of_metadata,
        codes=(
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
    ),
    RequestRefusal(
        request=MetadataRequest,
        spoil=_leaders_of_metadata,
        codes=(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND),
    ),
    RequestRefusal(
        request=FindCoordinatorRequest,
        spoil=_coordinators,
        codes=(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ),
)
