"""One connection to one broker: dials, negotiates versions, then sends requests and collects answers.

Runs as one task with a reader and a writer. Everything it learns goes to `completed`, which the loop's turns empty, so
handlers never run in the middle of I/O. The reader asks for such a turn when it has read; the writer only sends what
did not go out at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import trio

from kwire.clock import NEVER_MS
from kwire.errors import DisconnectError, KafkaError, ProtocolError, UnsupportedVersionError
from kwire.managers.unsent import AnyUnsentRequest
from kwire.model import Node
from kwire.network.transport import ByteStream, Transport
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.framing import Framing
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.registry import BrokerVersions
from kwire.states.connection import CONNECTION, ConnectionEffect, ConnectionEvent, ConnectionState
from kwire.states.machine import Machine
from kwire.version import __version__

CLIENT_SOFTWARE_NAME = "kwire"
Completed = Callable[[float], None]
"""A handler with its argument, waiting for the loop to call it with the time."""


class Connection:
    """One connection to a broker: dials, agrees on versions, writes requests, reads answers.

    Args:
        completed: where handlers go when their answer, or failure, is here.
        wake: tells the loop that something happened; may be called inside a turn.
        on_answers: the same, of answers that have been read, from the reader's task: a turn may be run inside.
    """

    def __init__(
        self,
        node: Node,
        client_id: str,
        transport: Transport,
        *,
        completed: deque[Completed],
        wake: Callable[[], None],
        on_answers: Callable[[], None],
        now_ms: float,
    ) -> None:
        self.node = node
        self.error: KafkaError | None = None
        self.used_at_ms = now_ms
        self.expires_at_ms = NEVER_MS
        """When the first of the unanswered requests has waited too long."""
        self.throttled_until_ms = now_ms
        self._transport = transport
        self._framing = Framing(client_id)
        self._completed = completed
        self._wake = wake
        self._on_answers = on_answers
        self._machine: Machine[ConnectionState, ConnectionEvent, ConnectionEffect] = Machine(CONNECTION)
        self._versions: BrokerVersions | None = None
        self._in_flight: deque[tuple[AnyUnsentRequest, float]] = deque()
        self._stream: ByteStream | None = None
        self._outgoing: deque[bytes] = deque()
        self._has_outgoing = trio.Event()
        self._scope = trio.CancelScope()

    # --- what the client sees -------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return self._machine.state is ConnectionState.READY

    @property
    def is_closed(self) -> bool:
        return self._machine.state is ConnectionState.CLOSED

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def may_send(self, now_ms: float) -> bool:
        """Whether a request may go out now: not before the handshake is over, nor while the broker throttles us."""
        return self.is_ready and now_ms >= self.throttled_until_ms

    def send(self, unsent: AnyUnsentRequest, expires_at_ms: float, now_ms: float) -> None:
        """Write the request in the version this broker speaks. A request that has none fails at once."""
        assert self._versions is not None
        self.used_at_ms = now_ms
        try:
            version = self._versions.pick(
                type(unsent.request), min_version=unsent.min_version, max_version=unsent.max_version
            )
            message = unsent.for_version(version) if unsent.for_version is not None else unsent.request
            frame = self._framing.send(message, version)
        except (UnsupportedVersionError, ProtocolError) as error:
            self._completed.append(partial(unsent.on_failure, error))
            self._wake()
            return
        self._in_flight.append((unsent, expires_at_ms))
        self.expires_at_ms = min(self.expires_at_ms, expires_at_ms)
        self._put_out(frame)

    def _put_out(self, frame: bytes) -> None:
        """At once, if nothing waits in front of it: waking the writer first would take longer than sending does."""
        assert self._stream is not None
        if not self._outgoing:
            frame = frame[self._stream.send_now(frame) :]
        if frame:
            self._outgoing.append(frame)
            self._has_outgoing.set()

    def close(self, error: KafkaError | None = None) -> None:
        """Give up: what is in flight fails with `error`. Without one nothing was wrong: the connection idled."""
        self._end(ConnectionEvent.CLOSE_WANTED, error)
        self._scope.cancel()

    # --- the task -------------------------------------------------------------------------------------------

    async def run(self, setup_timeout_ms: float, request_timeout_ms: float) -> None:
        """Live until closed or broken. Ends normally: why it broke is in `error`."""
        with self._scope:
            try:
                await self._live(setup_timeout_ms, request_timeout_ms)
            except* (OSError, trio.TooSlowError, ProtocolError, UnsupportedVersionError, DisconnectError) as group:
                self._end(ConnectionEvent.BROKEN, _as_kafka_error(_first(group), self.node, self._machine.state))

    async def _live(self, setup_timeout_ms: float, request_timeout_ms: float) -> None:
        with trio.fail_after(setup_timeout_ms / 1000.0):
            stream = await self._transport.connect(self.node.host, self.node.port)
        try:
            self._machine.fire(ConnectionEvent.CONNECTED)
            with trio.fail_after(request_timeout_ms / 1000.0):
                self._versions = await self._negotiate(stream)
            self._stream = stream
            self._machine.fire(ConnectionEvent.NEGOTIATED)
            self._wake()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, stream)
                nursery.start_soon(self._read, stream)
        finally:
            with trio.CancelScope(shield=True):
                await stream.aclose()

    async def _negotiate(self, stream: ByteStream) -> BrokerVersions:
        """KIP-511: ask in our newest version; a broker that does not know it answers in v0 which ones it does."""
        request = ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=__version__)
        version = ApiVersionsRequest.max_version
        while True:
            await stream.send_all(self._framing.send(request, version))
            answer = await self._one_answer(stream)
            code = ErrorCode.of(answer.error_code)
            if code is ErrorCode.NONE:
                return BrokerVersions.from_response(answer)
            if code is not ErrorCode.UNSUPPORTED_VERSION or version == 0:
                raise ProtocolError(f"broker {self.node} refuses ApiVersions v{version}: {code.name}")
            version = 0

    async def _one_answer(self, stream: ByteStream) -> ApiVersionsResponse:
        while True:
            received = await stream.receive_into(self._framing.writable_buffer(), self._framing.missing_bytes)
            if received == 0:
                raise DisconnectError("it hung up during the version handshake")
            for answer in self._framing.received(received):
                assert isinstance(answer.response, ApiVersionsResponse)
                return answer.response

    async def _write(self, stream: ByteStream) -> None:
        while True:
            await self._has_outgoing.wait()
            while self._outgoing:
                await stream.send_all(self._outgoing[0])
                self._outgoing.popleft()  # only now: what comes meanwhile must not overtake it
            self._has_outgoing = trio.Event()

    async def _read(self, stream: ByteStream) -> None:
        while True:
            received = await stream.receive_into(self._framing.writable_buffer(), self._framing.missing_bytes)
            if self.is_closed:
                return  # given up while these bytes were on their way up: nothing is in flight that they could answer
            if received == 0:
                raise DisconnectError("it closed the connection")
            if answers := self._framing.received(received):
                for answer in answers:
                    unsent, _ = self._in_flight.popleft()
                    if throttle_time_ms := getattr(answer.response, "throttle_time_ms", 0):
                        self._completed.append(partial(self._throttle, throttle_time_ms))
                    self._completed.append(partial(unsent.on_answer, answer.response))
                self.expires_at_ms = min((expires_at_ms for _, expires_at_ms in self._in_flight), default=NEVER_MS)
                self._on_answers()

    def _throttle(self, throttle_time_ms: int, now_ms: float) -> None:
        """KIP-219: we are over a quota, and the broker reads nothing more from this connection for as long. What was
        sent all the same would use up its own time there, and the connection be given up as half-open. Brokers before
        2.0 have waited themselves before they answered; we wait once more."""
        self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_time_ms)

    def _end(self, event: ConnectionEvent, error: KafkaError | None) -> None:
        for effect in self._machine.fire(event):
            match effect:
                case ConnectionEffect.FAIL_IN_FLIGHT:
                    self.error = error
                    self._fail_in_flight(error or DisconnectError(f"broker {self.node}: the connection was closed"))
                case ConnectionEffect.SEND_API_VERSIONS:
                    pass  # `_negotiate` is the next line of the task that fired CONNECTED
        self._wake()

    def _fail_in_flight(self, error: KafkaError) -> None:
        for unsent, _ in self._in_flight:
            self._completed.append(partial(unsent.on_failure, error))
        self._in_flight.clear()
        self.expires_at_ms = NEVER_MS

    def __repr__(self) -> str:
        return f"<connection to {self.node} {self._machine.state.name} in_flight={len(self._in_flight)}>"


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """The first of what the reader, the writer or the dialling raised, without the groups around it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error


def _as_kafka_error(error: Exception, node: Node, state: ConnectionState) -> KafkaError:
    """The edge: what the operating system, trio or the framing raised, in kwire's words, with the broker named."""
    if isinstance(error, trio.TooSlowError):
        reason = "no connection in time" if state is ConnectionState.CONNECTING else "no answer to ApiVersions in time"
    elif isinstance(error, ProtocolError | UnsupportedVersionError):
        return error if str(node) in str(error) else _named(error, node)
    else:
        reason = str(error) or type(error).__name__
    if state is ConnectionState.NEGOTIATING:
        reason += "; is this a Kafka listener, and does it expect plain text (not TLS)?"
    kafka_error = DisconnectError(f"broker {node}: {reason}")
    kafka_error.__cause__ = error
    return kafka_error


def _named(error: ProtocolError | UnsupportedVersionError, node: Node) -> KafkaError:
    named = type(error)(f"broker {node}: {error}")
    named.__cause__ = error
    return named
