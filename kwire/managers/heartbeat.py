"""Heartbeat: keeps a classic member alive while its application thread does whatever it does.

Runs on the network thread, whatever the user's code is busy with. Also watches the two timers that end a membership
from this side: the session (no answer for `session_timeout_ms`) and the polls (`max_poll_interval_ms`).
"""

from __future__ import annotations

from typing import Protocol

from kwire.clock import NEVER_MS, Backoff
from kwire.errors import DisconnectError, KafkaError
from kwire.managers.base import RequestState
from kwire.managers.find_coordinator import FindCoordinatorManager
from kwire.managers.membership import GroupIdentity, PollTimer
from kwire.managers.unsent import AnyUnsentRequest, Destination, PollResult, UnsentRequest
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

PAST_SESSION_MS = 60.0  # a margin for members whose heartbeats started together
MAX_STRETCH = 1.02


class HeartbeatMember(Protocol):
    """What the heartbeat needs of the membership it keeps alive."""

    def identity(self) -> GroupIdentity: ...
    @property
    def heartbeats(self) -> bool: ...
    @property
    def poll_timer_runs(self) -> bool: ...
    def on_heartbeat(self, code: ErrorCode, now_ms: float) -> None:
        """A heartbeat was answered with this code."""
        ...

    def on_poll_overdue(self) -> None: ...


class HeartbeatManager:
    """One heartbeat in flight at a time, one in each `heartbeat_interval_ms`; sooner after a failure, and up to 2 %
    later where `interval_past_session_ms` says so."""

    def __init__(
        self,
        member: HeartbeatMember,
        coordinator: FindCoordinatorManager,
        poll_timer: PollTimer,
        backoff: Backoff,
        *,
        session_timeout_ms: float,
        heartbeat_interval_ms: float,
    ) -> None:
        self._member = member
        self._coordinator = coordinator
        self._poll_timer = poll_timer
        self._session_timeout_ms = session_timeout_ms
        self._interval_ms = interval_past_session_ms(heartbeat_interval_ms, session_timeout_ms)
        self._request = RequestState(backoff)
        self._next_at_ms = 0.0
        self._alive_at_ms = 0.0
        self._generation = GroupIdentity("")
        self._paused = True
        self._sent = 0

    def poll(self, now_ms: float) -> PollResult:
        wake_at_ms = self._watch_poll_timer(now_ms)
        if not self._member.heartbeats:
            self._paused = True
            return PollResult([], wake_at_ms)
        self._coordinator.need(tell=True)
        self._start_generation(now_ms)
        session_ends_ms = self._alive_at_ms + self._session_timeout_ms
        if now_ms >= session_ends_ms:
            self._session_expired(now_ms)
            session_ends_ms = now_ms + self._session_timeout_ms
        requests, due_ms = self._poll_request(now_ms)
        return PollResult(requests, min(wake_at_ms, session_ends_ms, due_ms))

    def _watch_poll_timer(self, now_ms: float) -> float:
        """When the timer has to be looked at again; one that has run out ends the membership, and with it the timer."""
        if not self._member.poll_timer_runs:
            return NEVER_MS
        if self._poll_timer.expired(now_ms):
            self._member.on_poll_overdue()
            return NEVER_MS
        return self._poll_timer.expires_at_ms()

    def _start_generation(self, now_ms: float) -> None:
        """A new generation begins with a full session, and its first heartbeat one interval later."""
        identity = self._member.identity()
        if identity != self._generation:
            self._generation = identity
            self._request.reset()
            self._next_at_ms = now_ms + self._interval_ms
        if self._paused:
            # What made it pause, a join or a sync, was the sign of life.
            self._paused = False
            self._alive_at_ms = now_ms

    def _session_expired(self, now_ms: float) -> None:
        # The broker may have given the partitions away, or just be unreachable: it alone can tell. Look for it anew.
        self._alive_at_ms = now_ms
        self._request.reset()
        timeout = DisconnectError(f"no heartbeat was answered for {self._session_timeout_ms:.0f} ms")
        self._coordinator.lost(timeout)

    def _poll_request(self, now_ms: float) -> tuple[list[AnyUnsentRequest], float]:
        due_ms = max(self._next_at_ms, self._request.wake_at_ms)
        destination = self._coordinator.destination
        if destination is None or self._request.in_flight:
            return [], NEVER_MS
        if now_ms < due_ms:
            return [], due_ms
        self._request.sent()
        self._sent += 1
        self._next_at_ms = now_ms + self._interval_ms
        return [self._heartbeat(destination)], NEVER_MS

    def _heartbeat(self, destination: Destination) -> UnsentRequest[HeartbeatResponse]:
        sent_as, number = self._generation, self._sent

        def is_current() -> bool:
            # The member may have moved on since, and one that was given up for lost may be answered after all.
            return number == self._sent and self._request.in_flight and sent_as == self._member.identity()

        def on_answer(answer: HeartbeatResponse, now_ms: float) -> None:
            if is_current():
                self._on_answer(ErrorCode.of(answer.error_code), now_ms)

        def on_failure(error: KafkaError, now_ms: float) -> None:
            if is_current():
                self._request.failed(now_ms)
                self._next_at_ms = 0.0
            self._coordinator.unanswered(destination, error)

        return UnsentRequest(
            request=HeartbeatRequest(
                group_id=sent_as.group_id,
                generation_id=sent_as.generation_id,
                member_id=sent_as.member_id,
                group_instance_id=sent_as.group_instance_id,
            ),
            destination=destination,
            on_answer=on_answer,
            on_failure=on_failure,
        )

    def _on_answer(self, code: ErrorCode, now_ms: float) -> None:
        match code:
            case ErrorCode.NONE | ErrorCode.REBALANCE_IN_PROGRESS:
                self._request.succeeded()
                self._alive_at_ms = now_ms
            case _:
                self._request.failed(now_ms)
                if code.retriable:
                    self._next_at_ms = 0.0  # after the back-off: the session does not wait for the interval
        self._member.on_heartbeat(code, now_ms)


def interval_past_session_ms(interval_ms: float, session_timeout_ms: float) -> float:
    """The interval, stretched by up to 2 % if then a heartbeat falls just behind the end of a dead member's session.

    The members of a group begin to heartbeat at the same moment, when a rebalance ends. If the interval divides the
    session timeout, as in Kafka's defaults (3 s, 45 s), the heartbeats of the survivors arrive together with the end of
    the session of one that died, and those that come a little too early learn of it a whole interval later.
    """
    heartbeats = max(1, round(session_timeout_ms / interval_ms))
    stretched_ms = (session_timeout_ms + PAST_SESSION_MS) / heartbeats
    return stretched_ms if interval_ms <= stretched_ms <= interval_ms * MAX_STRETCH else interval_ms
