"""Errors that brokers answer for reasons of their own, by kind of request; `faults.refused_requests` draws from it."""

from __future__ import annotations

from collections.abc import Callable

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
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
# Kinds of requests, their answers, and errors that brokers give in these for reasons of their own.
REFUSALS: tuple[tuple[type[Request[Message]], Callable[[ErrorCode], Message], tuple[ErrorCode, ...]], ...] = (
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
)
