"""Committing offsets: the part that OffsetCommit and TxnOffsetCommit share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.access import Operation, Resource
from kwire.testing.cluster.groups.offsets import CommittedOffset
from kwire.testing.cluster.groups.refusal import GroupRefusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.topics import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitter:
    """The member or producer that commits; with a producer id, the offsets count when its transaction commits."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionToCommit:
    """One offset to commit. `topic` is None if the topic does not exist."""

    name: str
    """The name of the topic, as far as the request tells it."""
    topic: Topic | None
    index: int
    offset: int
    leader_epoch: int
    metadata: str | None


def commit(call: Call, committer: OffsetCommitter, positions: Sequence[PositionToCommit]) -> list[ErrorCode]:
    """Commit the offsets that can be committed. Returns the error code of each, in order."""
    if not call.may(Operation.READ, committer.group_id, Resource.GROUP):
        return [ErrorCode.GROUP_AUTHORIZATION_FAILED] * len(positions)
    valid = [
        p
        for p in positions
        if p.topic is not None and p.topic.partition(p.index) is not None and call.may(Operation.READ, p.topic.name)
    ]
    refusal = _refusal(call, committer, valid) if valid else ErrorCode.NONE
    return [_commit_one(call, committer, position, refusal) for position in positions]


def _refusal(call: Call, committer: OffsetCommitter, positions: Sequence[PositionToCommit]) -> ErrorCode:
    """The error with which the group refuses all of them; NONE if it does not."""
    cluster = call.cluster
    code = cluster.group_error(committer.group_id, call.broker)
    if code is not ErrorCode.NONE:
        return code
    try:
        cluster.groups.check_commit(
            committer.group_id,
            member_id=committer.member_id,
            instance_id=committer.instance_id,
            generation=committer.generation,
            version=call.version,
            is_transactional=committer.producer_id is not None,
            partitions=[(p.topic.topic_id, p.index) for p in positions if p.topic is not None],
            now_ms=cluster.now_ms(),
        )
    except GroupRefusal as refusal:
        return refusal.code
    return ErrorCode.NONE


def _commit_one(call: Call, committer: OffsetCommitter, position: PositionToCommit, refusal: ErrorCode) -> ErrorCode:
    topic = position.topic
    name = position.name if topic is None else topic.name
    if name and not call.may(Operation.READ, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or topic.partition(position.index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if refusal is not ErrorCode.NONE:
        return refusal
    metadata = position.metadata or ""
    if _java_length(metadata) > call.cluster.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    partition = TopicPartition(topic.name, position.index)
    committed = CommittedOffset(position.offset, position.leader_epoch, metadata)
    offsets = call.cluster.groups.offsets
    if committer.producer_id is None:
        offsets.put(committer.group_id, partition, committed)
    else:
        offsets.put_pending(committer.producer_id, committer.group_id, partition, committed)
    return ErrorCode.NONE


def _java_length(text: str) -> int:
    """The length as Java counts it, in UTF-16: what Kafka compares with a limit that is named in bytes."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
