"""CreateTopics: topics come with leaders at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.testing.cluster.config_values import topic_values
from kwire.testing.cluster.settings import TopicSettings
from kwire.testing.cluster.topic_names import TopicRefusedError
from kwire.testing.cluster.topic_rules import check_new_topic

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.state import ClusterState


async def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    """What became of each topic; one that is named twice is made not even once."""
    named = Counter(wanted.name for wanted in request.topics)
    twice = [name for name, count in named.items() if count > 1]
    results = [_refused(name, TopicRefusedError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")) for name in twice]
    results += [
        _create(call.cluster, wanted, only_validate=request.validate_only)
        for wanted in request.topics
        if named[wanted.name] == 1
    ]
    return CreateTopicsResponse(topics=results)


def _create(cluster: ClusterState, wanted: CreatableTopic, *, only_validate: bool) -> CreatableTopicResult:
    try:
        replicas, config = check_new_topic(cluster, wanted)
    except TopicRefusedError as refused:
        return _refused(wanted.name, refused)
    if only_validate:
        topic_id = cluster.new_uuid()
    else:
        topic_id = cluster.create_topic(wanted.name, config=config, assignments=replicas).topic_id
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=[
            CreatableTopicConfigs(name=value.name, value=value.value, config_source=value.source)
            for value in topic_values(config, TopicSettings.of(config, cluster.settings))
        ],
    )


def _refused(name: str, refused: TopicRefusedError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refused.code, error_message=refused.message)
