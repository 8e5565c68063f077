"""DeleteTopics: gone at once, with records and committed offsets; by name or by id (KIP-516)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.model import ZERO_UUID
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.state import ClusterState
    from kwire.testing.cluster.topics import Topic

UNKNOWN_NAME = "This server does not host this topic-partition."
UNKNOWN_ID = "This server does not host this topic ID."


async def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    """What became of each topic; nothing, of those named twice."""
    wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    keys = [(topic.name, topic.topic_id) for topic in wanted]
    results: dict[tuple[object, object], DeletableTopicResult] = {}
    for key, topic in zip(keys, wanted, strict=True):
        if keys.count(key) > 1:
            results[key] = _refused(topic, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            results[key] = _delete(call.cluster, topic)
    return DeleteTopicsResponse(responses=list(results.values()))


def _delete(cluster: ClusterState, wanted: DeleteTopicState) -> DeletableTopicResult:
    is_by_id = wanted.topic_id != ZERO_UUID
    if wanted.name is not None and is_by_id:
        return _refused(wanted, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if wanted.name is None and not is_by_id:
        return _refused(wanted, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic: Topic | None = cluster.topic_by_id(wanted.topic_id) if is_by_id else cluster.topics.get(wanted.name or "")
    if topic is None:
        if is_by_id:
            return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_ID, UNKNOWN_ID)
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_NAME)
    cluster.delete_topic(topic.name)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


def _refused(wanted: DeleteTopicState, code: ErrorCode, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id, error_code=code, error_message=message)
