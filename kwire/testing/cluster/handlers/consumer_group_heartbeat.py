"""ConsumerGroupHeartbeat: join, stay in, change and leave a group of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.groups import migration
from kwire.testing.cluster.groups.consumer_member import LEAVING, LEAVING_FOR_A_WHILE, NEW
from kwire.testing.cluster.groups.refusal import GroupRefusal
from kwire.testing.cluster.groups.surroundings import Client

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

OWN_ID_FROM = 1
"""From this version on the member makes up its own id (KIP-1082)."""

NO_TIMEOUT = -1


async def handle(request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerGroupHeartbeatResponse:
    """Answered at once: news for a member waits for its next heartbeat."""
    cluster = call.cluster
    try:
        _check(request, call.version, cluster.settings.group_consumer_assignors)
        code = call.group_error(request.group_id)
        if code is not ErrorCode.NONE:
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message=code.meaning)
        if not all(call.may(Operation.DESCRIBE, name) for name in request.subscribed_topic_names or ()):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        client = Client(call.client_id, call.client_host, call.version)
        return migration.heartbeat(cluster, request, client, cluster.now_ms())
    except GroupRefusal as refusal:
        message = refusal.message or refusal.code.meaning
        return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=message)


def _check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Raises: Refusal, if the request contradicts itself, whatever group it is about."""
    epoch = request.member_epoch
    if version >= OWN_ID_FROM or epoch > NEW or epoch == LEAVING:
        _check_filled(request.member_id, "MemberId")
    _check_filled(request.group_id, "GroupId")
    _check_filled(request.instance_id, "InstanceId")
    _check_filled(request.rack_id, "RackId")
    if epoch == NEW:
        _check_joining(request)
    elif epoch == LEAVING_FOR_A_WHILE:
        _demand(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _demand(epoch >= LEAVING, "MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        message = f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        raise GroupRefusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    _demand(request.rebalance_timeout_ms != NO_TIMEOUT, "RebalanceTimeoutMs must be provided in first request.")
    _demand(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    message = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    _demand(subscribes, message)


def _check_filled(value: str | None, name: str) -> None:
    _demand(value is None or bool(value.strip()), f"{name} can't be empty.")


def _demand(is_met: bool, message: str) -> None:
    if not is_met:
        raise GroupRefusal(ErrorCode.INVALID_REQUEST, message)
