"""TxnOffsetCommit: positions that count when a transaction commits (KIP-98, KIP-447, KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.testing.cluster.offset_commits import OffsetCommitter, PositionToCommit, commit
from kwire.testing.cluster.transaction import ProducerIdAndEpoch
from kwire.testing.cluster.transaction_checks import Participant, take_part

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

ABORTABLE_FROM, JOINS_FROM = 4, 5


async def handle(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    """Answered by the group's coordinator, which first asks that of the transaction."""
    code = call.group_error(request.group_id)
    if code is ErrorCode.NONE:
        code = _take_part(request, call)
    positions = _positions(request, call)
    if code is ErrorCode.NONE:
        committer = OffsetCommitter(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            producer_id=request.producer_id,
        )
        return _response(request, commit(call, committer, positions))
    return _response(request, [code] * len(positions))


def _take_part(request: TxnOffsetCommitRequest, call: Call) -> ErrorCode:
    participant = Participant(
        transactional_id=request.transactional_id,
        producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        groups=(request.group_id,),
        joins=call.version >= JOINS_FROM,
        knows_abortable=call.version >= ABORTABLE_FROM,
    )
    code = take_part(call.cluster, participant)
    # What Produce is told as too few replicas, members of groups know as a coordinator that is not there yet.
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.NOT_ENOUGH_REPLICAS else code


def _positions(request: TxnOffsetCommitRequest, call: Call) -> list[PositionToCommit]:
    return [
        PositionToCommit(
            name=topic.name,
            topic=call.cluster.topics.get(topic.name),
            index=one.partition_index,
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata,
        )
        for topic in request.topics
        for one in topic.partitions
    ]


def _response(request: TxnOffsetCommitRequest, codes: list[ErrorCode]) -> TxnOffsetCommitResponse:
    left = iter(codes)
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=next(left))
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)
