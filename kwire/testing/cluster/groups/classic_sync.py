"""SyncGroup and Heartbeat for a classic group: the leader sends assignments, members get theirs and stay alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sync_group import SyncGroupResponse
from kwire.testing.cluster.groups.classic import SYNC_TIMER
from kwire.testing.cluster.groups.classic_answers import synced
from kwire.testing.cluster.groups.classic_states import ClassicGroupState
from kwire.testing.cluster.groups.pending import Pending
from kwire.testing.cluster.groups.refusal import GroupRefusal

if TYPE_CHECKING:
    from kwire.protocol.messages.heartbeat import HeartbeatRequest
    from kwire.protocol.messages.sync_group import SyncGroupRequest
    from kwire.testing.cluster.groups.classic import ClassicGroup


def sync(group: ClassicGroup, request: SyncGroupRequest, now_ms: float) -> Pending[SyncGroupResponse]:
    """A member asks for its assignment; the leader sends those of all members. Answered when there are assignments."""
    answer: Pending[SyncGroupResponse] = Pending(group.surroundings.notify)
    try:
        _check(group, request)
    except GroupRefusal as refusal:
        answer.complete(SyncGroupResponse(error_code=refusal.code))
        return answer
    member = group.members[request.member_id]
    _has_synced(group, member.member_id)
    if group.state is ClassicGroupState.STABLE:
        answer.complete(synced(group, member))
        return answer
    member.waiting_sync = answer
    if group.roster.is_leader(member.member_id):
        group.stabilize({a.member_id: bytes(a.assignment) for a in request.assignments}, now_ms)
    return answer


def _check(group: ClassicGroup, request: SyncGroupRequest) -> None:
    group.roster.check(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise GroupRefusal(ErrorCode.ILLEGAL_GENERATION)
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
        raise GroupRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)  # KIP-559
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        raise GroupRefusal(ErrorCode.REBALANCE_IN_PROGRESS)


def _differ(asked: str | None, actual: str | None) -> bool:
    return bool(asked is not None and actual is not None and asked != actual)


def _has_synced(group: ClassicGroup, member_id: str) -> None:
    group.roster.pending_syncs.pop(member_id, None)
    if not group.roster.pending_syncs:
        group.timers.cancel(SYNC_TIMER)


def heartbeat(group: ClassicGroup, request: HeartbeatRequest, now_ms: float) -> ErrorCode:
    """Renew the session of a member; the answer says whether to join again."""
    try:
        group.roster.check(request.member_id, request.group_instance_id)
    except GroupRefusal as refusal:
        return refusal.code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.restart_session(group.members[request.member_id], now_ms)
    is_joining = group.state is ClassicGroupState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if is_joining else ErrorCode.NONE
