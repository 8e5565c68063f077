"""FindCoordinator: keeps the link to the group's coordinator, and is asked for it by all who talk to one."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from kwire.clock import NEVER_MS, Backoff
from kwire.errors import KafkaError
from kwire.events import ErrorRaised
from kwire.logs import part_logger
from kwire.managers.base import Deliver, LastError, RequestState
from kwire.managers.unsent import ANY_NODE, NOTHING_TO_SEND, Channel, Destination, PollResult, UnsentRequest
from kwire.model import Node
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

log = part_logger("group")

GROUP_KEY_TYPE = 0  # FindCoordinator v1: 0 group, 1 transaction, 2 share
COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""What any group API answers when the coordinator has to be looked for again."""
FAILURES_WORTH_A_WARNING = 3  # the first look-up in a new cluster makes it create its log of offsets, and fails
SERVED_MS = 5_000.0  # a coordinator that was of use for this long is looked for at once when it is lost


class CoordinatorStatus(NamedTuple):
    """Whether the coordinator is known, or how the search for it goes, for `Consumer.describe()`.

    Attributes:
        node: The coordinator, if it is known.
        error: What the last look-up failed with.
        refusal: Why it is not looked for any more, until somebody needs it again.
        missing_since_ms: When it was looked for first; None: it is known, or nobody needs it.
        next_try_ms: When it is looked for again; NEVER_MS while an answer is awaited.
    """

    node: Node | None
    error: KafkaError | None
    missing_since_ms: float | None
    next_try_ms: float
    refusal: KafkaError | None = None


class FindCoordinatorManager:
    """The link to the coordinator. It is looked for from the first `need()` on; after a refusal, when somebody needs it
    again.

    Membership does not live here: losing the link never means losing the group, only looking the broker up again.

    A lost coordinator is looked for at once. But brokers may go on naming one that is dead, or that says it is not the
    coordinator, until they hear of the change themselves. So while the same broker is found and lost again, look-ups
    back off.
    """

    def __init__(self, group_id: str | None, backoff: Backoff, deliver: Deliver) -> None:
        self.group_id = group_id
        self._deliver = deliver
        self._is_needed = self._tells = False
        self._request = RequestState(backoff)
        self._node: Node | None = None
        self._found: Node | None = None
        self._found_at_ms = NEVER_MS
        self._missing_since_ms: float | None = None
        self._said: Node | None = None  # the coordinator that was logged last
        self._has_warned = False
        self.last_error = LastError()
        self.look_ups = 0
        """How many have been sent."""
        self._refusal: KafkaError | None = None

    @property
    def destination(self) -> Destination | None:
        """Where to send coordinator requests; None while the coordinator is not known."""
        return Destination(self._node, Channel.COORDINATOR) if self._node is not None else None

    def status(self) -> CoordinatorStatus:
        """Whether the coordinator is known, or how the search for it goes."""
        if self._node is not None:
            return CoordinatorStatus(self._node, None, None, NEVER_MS)
        return CoordinatorStatus(
            None, self.last_error.error, self._missing_since_ms, self._request.wake_at_ms, self._refusal
        )

    def need(self, *, tell: bool = False) -> None:
        """Somebody has a request for the coordinator. `tell`: the next poll is to raise a refusal. Requests that a call
        waits for do without it, and fail that call."""
        self._is_needed = self.group_id is not None
        self._tells = self._tells or tell

    def refusal_since(self, look_ups: int) -> KafkaError | None:
        """Why the newest look-up was refused for good, if more than `look_ups` have been sent: then waiting is of no
        use. An older refusal does not count: the permission may have been granted since."""
        return self._refusal if self.look_ups > look_ups else None

    def lost(self, error: KafkaError) -> None:
        """A request showed that the coordinator moved, is gone, or does not answer."""
        self.last_error.error = error
        self._node = None

    def unanswered(self, asked: Destination, error: KafkaError) -> None:
        """A request got no answer. Says nothing of a coordinator that was found since."""
        if asked.node == self._node:
            self.lost(error)

    def close(self) -> None:
        """Look for the coordinator no more."""
        self._is_needed = False
        self._node = None

    def poll(self, now_ms: float) -> PollResult:
        if not self._is_needed or self._node is not None:
            self._missing_since_ms = None
            return NOTHING_TO_SEND
        if self._missing_since_ms is None:
            self._missing_since_ms = now_ms
        if self._request.in_flight:
            return NOTHING_TO_SEND
        if now_ms - self._found_at_ms >= SERVED_MS:
            self._found, self._found_at_ms = None, NEVER_MS
            self._request.reset()
        if not self._request.ready(now_ms):
            return PollResult([], self._request.wake_at_ms)
        self._request.sent()
        self.look_ups += 1
        self._refusal = None
        return PollResult([self._look_up_request()], NEVER_MS)

    def _look_up_request(self) -> UnsentRequest[FindCoordinatorResponse]:
        assert self.group_id is not None
        return UnsentRequest(
            request=_request(self.group_id, FindCoordinatorRequest.max_version),
            for_version=partial(_request, self.group_id),
            destination=ANY_NODE,
            on_answer=self._on_answer,
            on_failure=self._on_failure,
        )

    def _on_answer(self, answer: FindCoordinatorResponse, now_ms: float) -> None:
        found = answer.coordinators[0] if answer.coordinators else answer
        code = ErrorCode.of(found.error_code)
        if code is ErrorCode.NONE and not found.host:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # an answer about nobody
        if code is not ErrorCode.NONE:
            self._on_failure(error_for(code, f"finding the coordinator of {self.group_id}"), now_ms)
        else:
            self._on_found(Node(found.node_id, found.host, found.port), now_ms)

    def _on_found(self, node: Node, now_ms: float) -> None:
        if node == self._found:
            self._request.failed(now_ms)
        else:
            self._request.succeeded()
            self.last_error.error = None
        self._found, self._found_at_ms = node, now_ms
        self._tells = False
        if self._is_needed:
            self._node = node
            self._say_found(node)

    def _on_failure(self, error: KafkaError, now_ms: float) -> None:
        self.last_error.error = error
        self._request.failed(now_ms)
        if self._request.failures >= FAILURES_WORTH_A_WARNING and not self._has_warned:
            self._has_warned = True
            log.warning("the coordinator of group %s cannot be found; trying on: %s", self.group_id, error)
        if not error.retriable:
            self._refused(error)

    def _refused(self, error: KafkaError) -> None:
        self._refusal = error
        if self._tells:
            self._deliver(ErrorRaised(error))
        self._is_needed = self._tells = False

    def _say_found(self, node: Node) -> None:
        """Log the coordinator if it is another one than before, and at the end of an outage."""
        if self._has_warned or node != self._said:
            log.info("the coordinator of group %s is %s", self.group_id, node, extra={"broker": str(node)})
        self._has_warned, self._said = False, node


def _request(group_id: str, version: int) -> FindCoordinatorRequest:
    if version <= FindCoordinatorRequest.last_version_with_one_key:
        return FindCoordinatorRequest(key=group_id, key_type=GROUP_KEY_TYPE)
    return FindCoordinatorRequest(key_type=GROUP_KEY_TYPE, coordinator_keys=[group_id])
