"""DescribeConfigs: settings of topics, brokers and groups (KIP-133, KIP-226, KIP-569)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kwire.testing.cluster.config_values import broker_values, group_values, topic_values
from kwire.testing.cluster.handlers.find_coordinator import MALFORMED
from kwire.testing.cluster.topic_names import name_problem

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.config_values import ConfigValue

TOPIC, BROKER, GROUP = 2, 4, 32


class _RefusedError(Exception):
    """There is no such resource."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


async def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    """The settings of each resource; an empty list of keys is all of them, as in Kafka."""
    return DescribeConfigsResponse(results=[_describe(request, resource, call) for resource in request.resources])


def _describe(request: DescribeConfigsRequest, resource: DescribeConfigsResource, call: Call) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        values = _values(resource, call)
    except _RefusedError as refused:
        result.error_code, result.error_message = refused.code, refused.message
        return result
    wanted = resource.configuration_keys
    result.configs = [
        _shown(value, with_synonyms=request.include_synonyms) for value in values if not wanted or value.name in wanted
    ]
    return result


def _values(resource: DescribeConfigsResource, call: Call) -> list[ConfigValue]:
    cluster, name = call.cluster, resource.resource_name
    if resource.resource_type == TOPIC:
        return _topic_values(name, call)
    if resource.resource_type == BROKER:
        return _broker_values(name, call)
    if resource.resource_type != GROUP:
        raise _RefusedError(ErrorCode.INVALID_REQUEST, MALFORMED)
    if not name:
        raise _RefusedError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return group_values(cluster.group_configs.get(name, {}), cluster.settings)


def _topic_values(name: str, call: Call) -> list[ConfigValue]:
    problem = name_problem(name)
    if problem is not None:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    topic = call.cluster.topics.get(name)
    if topic is None:
        raise _RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic_values(topic.config, topic.settings)


def _broker_values(name: str, call: Call) -> list[ConfigValue]:
    """An empty name asks for what was set for all brokers at run time: nothing, here."""
    if not name:
        return []
    if not name.lstrip("-").isdecimal():
        raise _RefusedError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != call.broker.node_id:
        message = f"Unexpected broker id, expected {call.broker.node_id} or empty string, but received {name}"
        raise _RefusedError(ErrorCode.INVALID_REQUEST, message)
    return broker_values(call.cluster.settings)


def _shown(value: ConfigValue, *, with_synonyms: bool) -> DescribeConfigsResourceResult:
    shown = DescribeConfigsResourceResult(
        name=value.name,
        value=value.value,
        read_only=value.is_read_only,
        config_source=value.source,
        config_type=value.type,
        documentation=None,
    )
    if with_synonyms:
        shown.synonyms = [
            DescribeConfigsSynonym(name=name, value=text, source=source) for name, text, source in value.synonyms
        ]
    return shown
