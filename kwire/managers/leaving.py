"""The farewell to the coordinator: LeaveGroup, or the last heartbeat of the consumer protocol.

Both kinds of membership have one of these. Without it the group would wait for a session timeout, so a farewell that
met a broker which is not the coordinator (any more), or got no answer, is said once more, if that is soon possible.
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
from kwire.managers.unsent import Channel, Destination, PollResult, UnsentRequest
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

log = part_logger("group")

MOST_TRIES = 2
PATIENCE_MS = 2_000.0  # for a second try: closing the consumer of a cluster that is gone takes no longer

Request: TypeAlias = LeaveGroupRequest | ConsumerGroupHeartbeatRequest
Answer: TypeAlias = LeaveGroupResponse | ConsumerGroupHeartbeatResponse


class _Farewell:
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
    """Farewells that are to be said, or wait for their answers."""

    def __init__(self, coordinator: FindCoordinatorManager, backoff: Backoff) -> None:
        self._coordinator = coordinator
        self._backoff = backoff
        self._farewells: list[_Farewell] = []

    @property
    def idle(self) -> bool:
        return not self._farewells

    def say(
        self, make: Callable[[int], Request], *, channel: Channel | None = None, reply: Reply[None] | None = None
    ) -> None:
        """Say farewell, if the coordinator is known; if not, there is nobody to tell. The reply comes when it is over.

        Args:
            make: Makes the request for a version of its API.
            channel: Another way to the coordinator than the usual one.
        """
        if self._coordinator.destination is not None:
            self._farewells.append(_Farewell(make, channel, reply, RequestState(self._backoff)))
        elif reply is not None:
            reply.succeed(None)

    def take_back(self) -> None:
        """The member joins again: from now on a repetition would throw it out."""
        for farewell in self._farewells:
            farewell.tries = MOST_TRIES
        for farewell in [one for one in self._farewells if not one.state.in_flight]:
            self._end(farewell)

    def poll(self, now_ms: float) -> PollResult:
        for farewell in [one for one in self._farewells if now_ms >= one.until_ms and not one.state.in_flight]:
            self._end(farewell)
        if self.idle:
            return PollResult([])
        self._coordinator.need()
        destination = self._coordinator.destination
        waiting = [one for one in self._farewells if not one.state.in_flight]
        if destination is None:
            return PollResult([], min((one.until_ms for one in waiting), default=NEVER_MS))
        ready = [one for one in waiting if one.state.ready(now_ms)]
        wake_at_ms = min((one.state.wake_at_ms for one in waiting if one not in ready), default=NEVER_MS)
        return PollResult([self._send(one, destination) for one in ready], wake_at_ms)

    def _send(self, farewell: _Farewell, destination: Destination) -> UnsentRequest[Answer]:
        farewell.state.sent()
        farewell.tries += 1
        return UnsentRequest(
            request=farewell.make(0),
            for_version=farewell.make,
            destination=destination._replace(channel=farewell.channel or destination.channel),
            on_answer=partial(self._on_answer, farewell),
            on_failure=partial(self._on_failure, farewell, destination),
        )

    def _on_answer(self, farewell: _Farewell, answer: Answer, now_ms: float) -> None:
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._end(farewell)
            return
        error = error_for(code, "leaving the group")
        if code in COORDINATOR_MOVED:
            self._coordinator.lost(error)
        self._failed(farewell, error, now_ms)

    def _on_failure(self, farewell: _Farewell, asked: Destination, error: KafkaError, now_ms: float) -> None:
        self._coordinator.unanswered(asked, error)
        self._failed(farewell, error, now_ms)

    def _failed(self, farewell: _Farewell, error: KafkaError, now_ms: float) -> None:
        log.info("the request to leave the group failed: %s", error)
        farewell.state.failed(now_ms)
        farewell.until_ms = min(farewell.until_ms, now_ms + PATIENCE_MS)
        if farewell.tries >= MOST_TRIES or not error.retriable:
            self._end(farewell)

    def _end(self, farewell: _Farewell) -> None:
        self._farewells.remove(farewell)
        if farewell.reply is not None:
            farewell.reply.succeed(None)
