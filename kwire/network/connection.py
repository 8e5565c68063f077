"""One connection to one broker, from dialling to the end: one task, which is read from top to bottom in `run`.

It dials, takes the steps of the handshake (`network/handshake.py`), and is ready: from then on a reader and a writer
run until the connection ends. A closed connection is never used again; the client makes a new one.

Everything it learns goes to `completed`, which the loop's turns empty, so handlers never run in the middle of I/O. The
reader asks for such a turn when it has read; the writer only sends what did not go out at once.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import trio

from kwire.clock import NEVER_MS
from kwire.errors import (
    AuthenticationError,
    DisconnectError,
    KafkaError,
    ProtocolError,
    UnsupportedVersionError,
)
from kwire.logs import part_logger
from kwire.managers.unsent import AnyUnsentRequest
from kwire.metrics.connections import ConnectionMetrics
from kwire.metrics.requests import RequestMetrics
from kwire.model import Node
from kwire.network.connection_errors import BREAKS, NO_ANSWER_HINT, connection_failure, forget_frames
from kwire.network.handshake import ApiVersionsQuery, Handshake
from kwire.network.security import Security
from kwire.network.transport import ByteStream, Transport
from kwire.protocol.framing import Answer, Framing
from kwire.protocol.registry import BrokerVersions
from kwire.protocol.schema import Message, Request
from kwire.switch_interval import ShortSwitchInterval

if TYPE_CHECKING:
    from kwire.network.authentication import Authentication

R = TypeVar("R", bound=Message)

log = part_logger("network")

MAX_THROTTLED_MS = 60_000
"""Brokers reckon throttle times from the windows of a quota, together 11 s by default. A longer throttle time is taken
for an error: requests are sent after this time all the same. Java would wait up to 24 days."""

LOOK_EVERY_S = 1.0
"""Bytes of a large answer may wait in the socket until all are there. They are read at least this often, to see whether
it makes progress."""

MAX_TIMEOUTS = 10
"""A large answer may take up to this many request timeouts, as long as it makes progress. Asking again over the same
connection would not be faster."""

Completed = Callable[[float], None]
"""A handler with its argument, waiting for the loop to call it with the time."""


class _Sent(NamedTuple):
    """A request that waits for its answer, in the framing's queue."""

    unsent: AnyUnsentRequest
    expires_at_ms: float
    sent_at_ms: float


class _Asked:
    """A request of a login that is renewed while the reader runs: the login waits here for its answer."""

    def __init__(self) -> None:
        self.is_answered = trio.Event()
        self.answer: Message | None = None


class Connection:
    """One connection to a broker: dials, shakes hands, writes requests, reads answers.

    Args:
        api_versions_query: how the broker is asked what it speaks.
        completed: where handlers go when their answer, or failure, is here.
        wake: tells the loop that something else happened; may be called inside a turn.
        security: how connections are secured.
        longest_wait_ms: how long the answer to a request of this connection may take on purpose.
        metrics: what counts requests and answers.
        is_known: whether a connection to that address was of use before: it is the right listener.
        on_answers: called by the reader's task when it has read answers; the loop may take a turn inside.

    Attributes:
        is_ready: the handshake is over, and requests are taken.
        is_proven: the broker has accepted a login, or answered a request: it is of use.
        proven_at_ms: when that was noticed.
        answered_at_ms: when the newest answer came; before the first, when it was dialled.
        has_expired: it was closed because a request had timed out.
        is_closed: all is over, and everything that was in flight has failed.
        error: why it broke, if it did.
        closed_on_api_versions: the broker closed it instead of saying what it speaks.
        expires_at_ms: when the first of the unanswered requests has waited too long.
    """

    def __init__(
        self,
        node: Node,
        client_id: str,
        transport: Transport,
        *,
        security: Security,
        api_versions_query: ApiVersionsQuery,
        longest_wait_ms: float,
        metrics: RequestMetrics,
        completed: deque[Completed],
        wake: Callable[[], None],
        on_answers: Callable[[], None],
        is_known: bool,
        now_ms: float,
    ) -> None:
        self.node = node
        self.api_versions_query = api_versions_query
        self.is_ready = False
        self.is_proven = False
        self.proven_at_ms = -math.inf
        self.is_closed = False
        self.error: KafkaError | None = None
        self.closed_on_api_versions = False
        self.dialled_at_ms = self.used_at_ms = self.answered_at_ms = now_ms
        self.has_expired = False
        self.expires_at_ms = NEVER_MS
        self.throttled_until_ms = now_ms
        self._transport = transport
        self._security = security
        self._longest_wait_ms = longest_wait_ms
        self._is_known = is_known
        self._metrics = metrics
        self._traffic = metrics.node(node.id)
        self._is_counted = False
        self._renewal_ms: float | None = None
        self._renewing = False
        self._renewal_timeout_ms = NEVER_MS
        self._drained = trio.Event()
        self._framing = Framing(client_id)
        self._unanswered_of: Counter[type[Request[Message]]] = Counter()
        """How many requests of a kind wait for their answers."""
        self._expiries: deque[float] = deque()
        """When the unanswered requests expire, the earliest first. A request that expires after one behind it is left
        out."""
        self._arriving_since_s: float | None = None
        """When the first bytes of the answer that is coming in were read; None if none is."""
        self._known_share = 0.0
        self._completed = completed
        self._wake = wake
        self._on_answers = on_answers
        self._handshake: Handshake | None = None
        self._dialled: ByteStream | None = None
        self._stream: ByteStream | None = None
        self._versions = BrokerVersions({})
        self._switch_interval = ShortSwitchInterval()
        self._outgoing: deque[bytes] = deque()
        self._has_outgoing = trio.Event()
        self._scope = trio.CancelScope()

    # --- what the client sees -------------------------------------------------------------------------------

    @property
    def versions(self) -> BrokerVersions:
        """What the broker speaks, once it is ready."""
        return self._versions

    @property
    def in_flight(self) -> int:
        return self._framing.in_flight

    @property
    def usable_at_ms(self) -> float:
        """When a request may go out, as far as that is a matter of time: not before the handshake is over, nor while
        the login is renewed, nor while the broker throttles us."""
        return self.throttled_until_ms if self.is_ready and not self._renewing else NEVER_MS

    def may_send(self, now_ms: float) -> bool:
        return now_ms >= self.usable_at_ms

    def has_room_for(self, unsent: AnyUnsentRequest) -> bool:
        """Whether the request may be sent behind those that wait for their answers."""
        return not unsent.only_behind_its_kind or self._unanswered_of[type(unsent.request)] == self.in_flight

    def goes_on(self, now_ms: float) -> bool:
        """Whether the overdue answer is coming in fast enough; if so, its time is extended.

        It is not if nothing of it has come since the last call, or if the rest would take too long at this pace.
        """
        oldest, share = self._sent[0], self._framing.arrived_share
        timeout_ms = oldest.expires_at_ms - oldest.sent_at_ms
        has_more, self._known_share = share > self._known_share, share
        if not has_more or (now_ms - oldest.sent_at_ms) / share > MAX_TIMEOUTS * timeout_ms:
            return False
        self.expires_at_ms = now_ms + timeout_ms
        return True

    def send(self, unsent: AnyUnsentRequest, expires_at_ms: float, now_ms: float) -> None:
        """Write the request in the version this broker speaks. A request that has none fails at once."""
        self.used_at_ms = now_ms
        try:
            version = self._versions.pick(
                type(unsent.request), min_version=unsent.min_version, max_version=unsent.max_version
            )
            message = unsent.for_version(version) if unsent.for_version is not None else unsent.request
            frame = self._framing.send(message, version, _Sent(unsent, expires_at_ms, now_ms))
        except (UnsupportedVersionError, ProtocolError) as error:
            self._completed.append(partial(unsent.on_failure, error))
            self._wake()
            return
        self._unanswered_of[type(unsent.request)] += 1
        while self._expiries and self._expiries[-1] > expires_at_ms:
            self._expiries.pop()
        self._expiries.append(expires_at_ms)
        self.expires_at_ms = min(self.expires_at_ms, expires_at_ms)
        self._metrics.sent(self._traffic, message.api_key, len(frame), now_ms)
        self._put_out(frame)

    def _put_out(self, frame: bytes) -> None:
        """Send the frame at once, if nothing waits in front of it: to wake the writer takes longer than to send."""
        assert self._stream is not None
        if not self._outgoing:
            frame = frame[self._stream.send_now(frame) :]
        if frame:
            self._outgoing.append(frame)
            self._has_outgoing.set()

    def count(self, metrics: ConnectionMetrics, now_ms: float) -> None:
        """Count what has happened to this connection since the last call."""
        if self.is_proven and self.proven_at_ms == -math.inf:
            self.proven_at_ms = now_ms
        if self.is_ready and not self._is_counted:
            self._is_counted = True
            metrics.created(now_ms)
            if self._security.tls is not None or self._security.authentication is not None:
                metrics.logged_in(now_ms)
        if self._renewal_ms is not None:
            metrics.renewed(self._renewal_ms, now_ms)
            self._renewal_ms = None
        if self.is_closed:
            if self._is_counted:
                metrics.closed(now_ms)
            if isinstance(self.error, AuthenticationError):
                metrics.login_refused(now_ms, is_renewal=self._renewing)

    def expire(self) -> None:
        """Close it: an answer is overdue. Half-open connections look like this: the broker is gone, or frozen, and
        nothing says so."""
        self.has_expired = True
        self.close(DisconnectError(f"broker {self.node}: no answer in time; connection given up"))

    def close(self, error: KafkaError | None = None, *, is_last: bool = False) -> None:
        """Give up: what is in flight fails with `error`. Without one nothing was wrong: the connection idled.

        Args:
            is_last: the consumer ends. What it said last, such as that it leaves the group, is to be carried out.
        """
        if not is_last:
            self._take_back_unread()
        self._end(error)
        self._scope.cancel()

    def _take_back_unread(self) -> None:
        """Have the broker drop the requests that it has not read yet. It reads a request when it has answered the one
        before, even if the connection has ended meanwhile. So a commit behind a slow request would be carried out long
        after we gave it up, and undo later commits. From a connection that was reset the broker reads no more."""
        if self._stream is not None and self._framing.in_flight:
            self._stream.reset_when_closed()

    # --- the task -------------------------------------------------------------------------------------------

    async def run(self, setup_timeout_ms: float, request_timeout_ms: float) -> None:
        """Live until closed or broken. Ends normally: why it broke is in `error`."""
        self._renewal_timeout_ms = request_timeout_ms
        # No method: the handshake would hold this object, which holds the handshake.
        dial = partial(self._transport.connect, self.node.host, self.node.port)
        with self._scope:
            try:
                with trio.fail_after(setup_timeout_ms / 1000.0):
                    self._dialled = await dial()
                self._handshake = Handshake(
                    self.node, self._dialled, self._framing, self._security, dial, self.api_versions_query
                )
                try:
                    await self._shake_hands(self._handshake, request_timeout_ms)
                    await self._read_and_write(self._handshake.stream)
                finally:
                    self._take_back_unread()
                    with trio.CancelScope(shield=True):
                        await self._handshake.stream.aclose()
            except* BREAKS as group:
                error = _first(group)
                if self._dialled is not None and not self.is_ready:
                    self._transport.avoid(self._dialled)
                self.closed_on_api_versions = self._has_closed_on_api_versions(error)
                self._end(self._as_kafka_error(error))
                forget_frames(error)

    def _has_closed_on_api_versions(self, error: Exception) -> bool:
        is_api_versions = self._handshake is not None and self._handshake.step == "version" and not self.is_ready
        return is_api_versions and isinstance(error, ConnectionError | DisconnectError)

    async def _shake_hands(self, handshake: Handshake, timeout_ms: float) -> None:
        with trio.fail_after(timeout_ms / 1000.0):
            await handshake.run()
        await trio.lowlevel.checkpoint_if_cancelled()  # closed while the last answer was on its way up
        self._stream, self._versions = handshake.stream, handshake.versions
        self.is_ready = True
        self.is_proven = handshake.security.authentication is not None
        self._wake()

    async def _read_and_write(self, stream: ByteStream) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, stream)
            nursery.start_soon(self._read, stream)
            if self._security.authentication is not None:
                nursery.start_soon(self._stay_logged_in, self._security.authentication)

    # --- the login is renewed (KIP-368) ---------------------------------------------------------------------

    async def _stay_logged_in(self, authentication: Authentication) -> None:
        """Log in again before the broker ends the session, for as long as the connection lives.

        Nothing may come between the steps of a login. So from its beginning no other request is sent, and it begins
        when all that were sent are answered: a broker looks at the next request when it has answered the one before.
        """
        from kwire.network.authentication import sleep_until_renewal

        assert self._handshake is not None
        while True:
            await sleep_until_renewal(self._handshake.session_lifetime_ms, self._longest_wait_ms)
            login = await authentication.login()  # takes its time perhaps: requests go on meanwhile
            self._renewing = True
            while self._framing.in_flight:
                self._drained = trio.Event()
                await self._drained.wait()
            began_s = trio.current_time()
            with trio.fail_after(self._renewal_timeout_ms / 1000.0):
                lifetime_ms = await authentication.run(login, self._ask, self._versions, self.node, is_renewal=True)
            self._renewal_ms = (trio.current_time() - began_s) * 1000.0
            self._handshake.session_lifetime_ms = lifetime_ms
            self._renewing = False
            self._wake()

    async def _ask(self, request: Request[R], version: int) -> R:
        """Send a request of the login, and wait until the reader has its answer."""
        asked = _Asked()
        self._put_out(self._framing.send(request, version, asked))
        await asked.is_answered.wait()
        return cast("R", asked.answer)  # the framing decodes what the request is answered by

    async def _write(self, stream: ByteStream) -> None:
        while True:
            await self._has_outgoing.wait()
            while self._outgoing:
                await stream.send_all(self._outgoing[0])
                self._outgoing.popleft()  # only now: what comes meanwhile must not overtake it
            self._has_outgoing = trio.Event()

    async def _read(self, stream: ByteStream) -> None:
        while True:
            received = await self._receive(stream)
            if self.is_closed:
                return  # given up while these bytes were on their way up: nothing is in flight that they could answer
            if received == 0:
                raise DisconnectError("it closed the connection")
            if answers := self._framing.received(received):
                for answer in answers:
                    self._take(answer, self._arrival_ms())
                self.expires_at_ms = self._expiries[0] if self._expiries else NEVER_MS
                self._known_share = 0.0
                self._on_answers()
            if self._arriving_since_s is None and self._framing.missing_bytes > 1:
                self._arriving_since_s = trio.current_time()
            self._adapt_switch_interval()

    async def _receive(self, stream: ByteStream) -> int:
        """Read the next bytes. Of a large answer that has begun, the rest at once if it is there within a second."""
        if self._arriving_since_s is not None:
            with trio.move_on_after(LOOK_EVERY_S):
                return await stream.receive_into(self._framing.writable_buffer(), self._framing.missing_bytes)
        return await stream.receive_into(self._framing.writable_buffer(), 1)

    def _arrival_ms(self) -> float:
        """How long the answer that is complete now took to come in."""
        since_s, self._arriving_since_s = self._arriving_since_s, None
        return 0.0 if since_s is None else (trio.current_time() - since_s) * 1000.0

    def _adapt_switch_interval(self) -> None:
        """Have a thread that computes hand over the interpreter sooner while a large answer comes in, and while the
        next one may be large, too: the last one was, and another request is open."""
        if self._framing.last_was_large and self.in_flight:
            self._switch_interval.shorten()
        else:
            self._switch_interval.restore()

    def _take(self, answer: Answer, arrival_ms: float) -> None:
        if isinstance(answer.sender, _Asked):
            answer.sender.answer = answer.response
            answer.sender.is_answered.set()
            return
        assert isinstance(answer.sender, _Sent)
        self._unanswered_of[type(answer.sender.unsent.request)] -= 1
        if self._expiries[0] == answer.sender.expires_at_ms:
            self._expiries.popleft()
        if throttle_time_ms := getattr(answer.response, "throttle_time_ms", 0):
            self._completed.append(partial(self._throttle, throttle_time_ms))
        self._completed.append(partial(self._answered, answer.sender, answer.response, answer.size_bytes, arrival_ms))
        if not self.is_proven:
            self.is_proven = True
            self._wake()
        if self._renewing and not self._framing.in_flight:
            self._drained.set()

    def _answered(self, sent: _Sent, response: Message, size_bytes: int, arrival_ms: float, now_ms: float) -> None:
        self.answered_at_ms = now_ms
        self._metrics.answered(
            self._traffic,
            sent.unsent.request.api_key,
            size_bytes,
            now_ms - sent.sent_at_ms,
            now_ms,
            error_code=getattr(response, "error_code", 0),
            throttle_time_ms=getattr(response, "throttle_time_ms", 0),
        )
        if sent.unsent.on_arrival is not None:
            sent.unsent.on_arrival(arrival_ms)
        sent.unsent.on_answer(response, now_ms)

    def _throttle(self, throttle_time_ms: int, now_ms: float) -> None:
        """KIP-219: we are over a quota, and the broker reads nothing from this connection for so long. A request that
        was sent meanwhile would wait there until it expires, and the connection would be given up as half-open. Brokers
        before 2.0 have waited before they answered; we wait once more."""
        if throttle_time_ms > MAX_THROTTLED_MS:
            log.warning("broker %s throttles for %d ms; waiting %d", self.node, throttle_time_ms, MAX_THROTTLED_MS)
        self.throttled_until_ms = max(self.throttled_until_ms, now_ms + min(throttle_time_ms, MAX_THROTTLED_MS))

    def _end(self, error: KafkaError | None) -> None:
        """Mark the connection closed, once. Later errors do not count: closing a socket wakes its reader with one."""
        if self.is_closed:
            return
        self.is_ready, self.is_closed, self.error = False, True, error
        self._switch_interval.restore()
        self._fail_in_flight(error or DisconnectError(f"broker {self.node}: the connection was closed"))
        self._wake()

    @property
    def _sent(self) -> list[_Sent]:
        """The requests that wait for their answers. Those of a login are not among them: their task waits itself."""
        return [sender for sender in self._framing.senders if isinstance(sender, _Sent)]

    def _fail_in_flight(self, error: KafkaError) -> None:
        for sent in self._sent:
            self._completed.append(partial(self._unanswered, sent, error))
        self._framing.give_up()
        self.expires_at_ms = NEVER_MS

    def _unanswered(self, sent: _Sent, error: KafkaError, now_ms: float) -> None:
        self._metrics.unanswered(sent.unsent.request.api_key, now_ms)
        sent.unsent.on_failure(error, now_ms)

    def _as_kafka_error(self, error: Exception) -> KafkaError:
        return connection_failure(error, self.node, self._security, waits_for=self.waits_for, hint=self._hint)

    @property
    def _hint(self) -> str:
        """What to look at if the broker hung up without a word: it may be another kind of listener."""
        if self._is_known or self.is_proven or self._handshake is None:
            return ""
        if self.is_ready:
            return NO_ANSWER_HINT
        return "" if self._handshake.asks_elsewhere else self._security.hint

    @property
    def waits_for(self) -> str:
        return "connection" if self._handshake is None else f"answer to {self._handshake.asked}"

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "ready" if self.is_ready else f"waits for {self.waits_for}"
        return f"<connection to {self.node}: {state}, in_flight={self.in_flight}>"


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """The first of what the reader, the writer or the dialling raised, without the groups around it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error
