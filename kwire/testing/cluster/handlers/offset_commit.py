"""OffsetCommit: positions outside of transactions; topics by name, from version 10 on by id (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.testing.cluster.offset_commits import OffsetCommitter, PositionToCommit, commit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.topics import Topic

IDS_FROM = 10
SORTED_OUT = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)


async def handle(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """Answer one OffsetCommit."""
    committer = OffsetCommitter(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
    )
    topics = [(asked, _topic(asked, call)) for asked in request.topics]
    codes = iter(commit(call, committer, [p for asked, topic in topics for p in _positions(asked, topic)]))
    answers = [_answer(asked, topic, codes, call) for asked, topic in topics]
    return OffsetCommitResponse(topics=sorted(answers, key=lambda answer: not _is_missing(answer.partitions[:1])))


def _topic(asked: OffsetCommitRequestTopic, call: Call) -> Topic | None:
    if call.version >= IDS_FROM:
        return call.cluster.topic_by_id(asked.topic_id)
    return call.cluster.topics.get(asked.name)


def _positions(asked: OffsetCommitRequestTopic, topic: Topic | None) -> list[PositionToCommit]:
    return [
        PositionToCommit(
            name=asked.name,
            topic=topic,
            index=partition.partition_index,
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata,
        )
        for partition in asked.partitions
    ]


def _answer(
    asked: OffsetCommitRequestTopic, topic: Topic | None, codes: Iterator[ErrorCode], call: Call
) -> OffsetCommitResponseTopic:
    has_unknown_id = topic is None and call.version >= IDS_FROM
    partitions = [
        OffsetCommitResponsePartition(
            partition_index=partition.partition_index,
            error_code=_by_id(code) if has_unknown_id else code,
        )
        for partition, code in zip(asked.partitions, codes, strict=False)
    ]
    partitions.sort(key=lambda found: not _is_missing([found]))
    return OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=partitions)


def _by_id(code: ErrorCode) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else code


def _is_missing(partitions: list[OffsetCommitResponsePartition]) -> bool:
    """Whether Kafka sorts it out before it asks the coordinator, as not there or not allowed: then it is first."""
    return any(found.error_code in SORTED_OUT for found in partitions)
