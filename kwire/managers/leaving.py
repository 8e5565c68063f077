"""Requests to leave the group: LeaveGroup, or the last heartbeat of the consumer protocol.

Both kinds of membership have one of these. Without a leave the group would wait until the member's session times out.
So a request that met a broker which is not the coordinator (any more), or got no answer, is sent once more, if that is
possible soon.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from kwire.clock import NEVER_MS, Backoff
from kwire.errors import KafkaError
from kwire.events import Reply
from kwire.logs import part_logger
from kwire.managers.base import RequestState
from kwire.managers.find_coordinator import COORDINATOR_MOVED, FindCoordinatorManager
from kwire.managers.unsent import NOTHING_TO_SEND, Channel, Destination, PollResult, UnsentRequest
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

log = part_logger("group")

MAX_TRIES = 2
# For a second try, or a member's id: closing the consumer of a cluster that is gone takes no longer.
PATIENCE_MS = 2_000.0

Request: TypeAlias = LeaveGroupRequest | ConsumerGroupHeartbeatRequest
Answer: TypeAlias = LeaveGroupResponse | ConsumerGroupHeartbeatResponse


class _Leave:
    __slots__ = ("channel", "make", "reply", "state", "tries", "until_ms")

    def __init__(
        self, make: Callable[[int], Request], channel: Channel | None, reply: Reply[None] | None, state: RequestState
    ) -> None:
        self.make = make
        self.channel = channel
        self.reply = reply
        self.state = state
        self.tries = 0
        self.until_ms = NEVER_MS


class Leaving:
    """Requests to leave that are to be sent, or wait for their answers."""

    def __init__(self, coordinator: FindCoordinatorManager, backoff: Backoff) -> None:
        self._coordinator = coordinator
        self._backoff = backoff
        self._open: list[_Leave] = []
        self._awaits_member_until_ms: float | None = None
        """See `await_member`; None if nobody waits, never until a poll has set the time."""

    @property
    def idle(self) -> bool:
        return not self._open and self._awaits_member_until_ms is None

    def await_member(self) -> None:
        """The consumer ends, and a join that is open may still make a member. The join's answer brings the member's id,
        which the request to leave needs. Not idle until `member_came`, or for `PATIENCE_MS`."""
        self._awaits_member_until_ms = NEVER_MS

    def member_came(self) -> None:
        """No join that may make a member is open any more. If one has made a member, `send` was called for it."""
        self._awaits_member_until_ms = None

    def send(
        self, make: Callable[[int], Request], *, channel: Channel | None = None, reply: Reply[None] | None = None
    ) -> None:
        """Leave, if the coordinator is known; if not, there is nobody to tell. The reply comes when it is over.

        Args:
            make: Makes the request for a version of its API.
            channel: Another way to the coordinator than the usual one.
        """
        if self._coordinator.destination is not None:
            self._open.append(_Leave(make, channel, reply, RequestState(self._backoff)))
        elif reply is not None:
            reply.succeed(None)

    def stop_retrying(self) -> None:
        """The member joins again: from now on a repetition would throw it out."""
        for leave in self._open:
            leave.tries = MAX_TRIES
        for leave in [one for one in self._open if not one.state.in_flight]:
            self._end(leave)

    def poll(self, now_ms: float) -> PollResult:
        for leave in [one for one in self._open if now_ms >= one.until_ms and not one.state.in_flight]:
            self._end(leave)
        awaits_at_ms = self._watch_member(now_ms)
        result = self._poll_open(now_ms) if self._open else NOTHING_TO_SEND
        return PollResult(result.requests, min(result.wake_at_ms, awaits_at_ms))

    def _watch_member(self, now_ms: float) -> float:
        """When waiting for a member's id is over."""
        if self._awaits_member_until_ms is None:
            return NEVER_MS
        if now_ms >= self._awaits_member_until_ms:
            self._awaits_member_until_ms = None
            return NEVER_MS
        self._awaits_member_until_ms = min(self._awaits_member_until_ms, now_ms + PATIENCE_MS)
        return self._awaits_member_until_ms

    def _poll_open(self, now_ms: float) -> PollResult:
        self._coordinator.need()
        destination = self._coordinator.destination
        waiting = [one for one in self._open if not one.state.in_flight]
        if destination is None:
            return PollResult([], min((one.until_ms for one in waiting), default=NEVER_MS))
        ready = [one for one in waiting if one.state.ready(now_ms)]
        wake_at_ms = min((one.state.wake_at_ms for one in waiting if one not in ready), default=NEVER_MS)
        return PollResult([self._send(one, destination) for one in ready], wake_at_ms)

    def _send(self, leave: _Leave, destination: Destination) -> UnsentRequest[Answer]:
        leave.state.sent()
        leave.tries += 1
        return UnsentRequest(
            request=leave.make(0),
            for_version=leave.make,
            destination=destination._replace(channel=leave.channel or destination.channel),
            on_answer=partial(self._on_answer, leave),
            on_failure=partial(self._on_failure, leave, destination),
        )

    def _on_answer(self, leave: _Leave, answer: Answer, now_ms: float) -> None:
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._end(leave)
            return
        error = error_for(code, "leaving the group")
        if code in COORDINATOR_MOVED:
            self._coordinator.lost(error)
        self._failed(leave, error, now_ms)

    def _on_failure(self, leave: _Leave, asked: Destination, error: KafkaError, now_ms: float) -> None:
        self._coordinator.unanswered(asked, error)
        self._failed(leave, error, now_ms)

    def _failed(self, leave: _Leave, error: KafkaError, now_ms: float) -> None:
        log.info("the request to leave the group failed: %s", error)
        leave.state.failed(now_ms)
        leave.until_ms = min(leave.until_ms, now_ms + PATIENCE_MS)
        if leave.tries >= MAX_TRIES or not error.retriable:
            self._end(leave)

    def _end(self, leave: _Leave) -> None:
        self._open.remove(leave)
        if leave.reply is not None:
            leave.reply.succeed(None)
