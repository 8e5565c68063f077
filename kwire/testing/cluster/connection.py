"""Serves one connection: frames in, requests decoded, control asked, handler called, frames out.

As in Kafka, one request of a connection is worked on at a time, and answers come in order. What Kafka closes a
connection over closes it here (`requests`), and so does what is out of turn in SASL (`authentication`).
Works on any stream of trio's, sockets and memory alike; called by `cluster` for TCP and by the simulation.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kwire.protocol.compiler import decode_message, encode_message
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.produce import ProduceRequest
from kwire.testing.cluster.authentication import Authentication, Clocks
from kwire.testing.cluster.call import Call, ConnectionCutError
from kwire.testing.cluster.control import Action
from kwire.testing.cluster.frames import BrokenFrameError, FrameReader, framed, response_bytes
from kwire.testing.cluster.handlers import handlers, offered_by
from kwire.testing.cluster.request_context import ANONYMOUS, ConnectionSession
from kwire.testing.cluster.requests import UnanswerableError, error_response, read_request

if TYPE_CHECKING:
    from kwire.protocol.schema import Message, Request
    from kwire.testing.cluster.broker import Broker
    from kwire.testing.cluster.control import Rule
    from kwire.testing.cluster.requests import Incoming
    from kwire.testing.cluster.state import ClusterState

_log = logging.getLogger(__name__)

UNTIMED = (FetchRequest, ProduceRequest, OffsetCommitRequest)
"""Requests that bring no deadline nearer, though a commit may postpone one: the timers need not be asked."""


async def serve(
    stream: trio.abc.Stream,
    broker: Broker,
    cluster: ClusterState,
    *,
    client_host: str = "127.0.0.1",
    certified: str = ANONYMOUS,
) -> None:
    """Answer requests until the client or the broker goes away. Closes the stream.

    Args:
        stream: The connection.
        broker: The broker that is connected to.
        cluster: The broker's cluster.
        client_host: The client's address.
        certified: The principal of the client's certificate.
    """
    session = ConnectionSession(f"/{client_host}", certified, _authentication(cluster))
    connection = _Connection(stream, broker, cluster, session)
    with trio.CancelScope() as scope:
        broker.connections[scope] = None
        try:
            await connection.run()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as reason:
            _log.debug("broker %s lost a connection: %s", broker.node_id, reason)
        except (BrokenFrameError, UnanswerableError, ConnectionCutError) as reason:
            _log.debug("broker %s closes a connection: %s", broker.node_id, reason)
        finally:
            broker.connections.pop(scope, None)
            await trio.aclose_forcefully(stream)


def _authentication(cluster: ClusterState) -> Authentication | None:
    if cluster.sasl is None:
        return None
    clocks = Clocks(now_ms=cluster.now_ms, wall_clock_ms=cluster.wall_clock_ms)
    return Authentication(cluster.sasl, clocks, cluster.settings.connections_max_reauth_ms)


class _Connection:
    """One connection's loop."""

    def __init__(
        self, stream: trio.abc.Stream, broker: Broker, cluster: ClusterState, session: ConnectionSession
    ) -> None:
        self._stream = stream
        self._frames = FrameReader(stream)
        self._broker = broker
        self._cluster = cluster
        self._session = session

    async def run(self) -> None:
        while (frame := await self._frames.read(self._max_frame_bytes())) is not None:
            await self._until_resumed()
            authentication = self._session.authentication
            try:
                if authentication is not None and authentication.takes_tokens:
                    await self._send_bytes(authentication.take_token(frame))
                else:
                    await self._take(read_request(frame, offered_by(self._cluster)))
            except UnanswerableError:
                if self._session.is_over:  # as with an answer: a client that guesses passwords has to wait after each
                    await self._wait_after_failure()
                raise

    def _max_frame_bytes(self) -> int:
        settings, authentication = self._cluster.settings, self._session.authentication
        is_known = authentication is None or not authentication.is_under_way
        return settings.socket_request_max_bytes if is_known else settings.sasl_server_max_receive_size

    async def _wait_after_failure(self) -> None:
        await trio.sleep(self._cluster.settings.connection_failed_authentication_delay_ms / 1000)

    async def _take(self, incoming: Incoming) -> None:
        if incoming.request is None:
            await self._send(self._refusal(), incoming)
            return
        authentication = self._session.authentication
        code = ErrorCode.NONE if authentication is None else authentication.check(incoming.request)
        if code is not ErrorCode.NONE:
            await self._send(error_response(incoming.request, incoming.version, code), incoming)
        else:
            await self._answer(incoming.request, incoming)

    async def _answer(self, request: Request[Message], incoming: Incoming) -> None:
        call = Call(
            cluster=self._cluster,
            broker=self._broker,
            version=incoming.version,
            client_id=incoming.client_id,
            session=self._session,
        )
        try:
            rule = self._cluster.control.decide(request, call)
            if rule is None:
                await self._send(await self._handle(request, call), incoming)
            else:
                await self._obey(rule, request, call, incoming)
        except (trio.BrokenResourceError, trio.ClosedResourceError, ConnectionCutError):
            raise
        except Exception as error:
            # A bug of the cluster, or of a rule's function: the test is told, and other connections go on.
            _log.exception("broker %s failed on %r", self._broker.node_id, request)
            self._cluster.failures.append(error)
            raise ConnectionCutError(f"answering failed: {error!r}") from error

    # --- answering -------------------------------------------------------------------------------------------

    async def _handle(self, request: Request[Message], call: Call) -> Message | None:
        """The handler's answer."""
        is_timed = not isinstance(request, UNTIMED)
        if is_timed:
            self._cluster.timers.look()
        response = await handlers()[type(request)](request, call)
        if is_timed:
            self._cluster.timers.look()
        throttle_ms = self._cluster.control.throttles_ms.get(type(request), 0)
        if throttle_ms and response is not None:
            setattr(response, "throttle_time_ms", throttle_ms)  # noqa: B010  most answers have it, messages share no base for it
        return response

    async def _send(self, response: Message | None, incoming: Incoming) -> None:
        if response is None:
            return
        if self._session.is_over:
            await self._wait_after_failure()
        await self._send_bytes(response_bytes(response, incoming.version, incoming.correlation_id))
        if self._session.is_over:
            raise ConnectionCutError("the answer was the last one")
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms:  # KIP-219: the answer goes out at once, and the connection is not read for as long
            await trio.sleep(throttle_ms / 1000)

    async def _send_bytes(self, payload: bytes) -> None:
        await self._until_resumed()
        await self._stream.send_all(framed(payload))

    async def _until_resumed(self) -> None:
        while self._broker.is_paused:
            await self._cluster.changed.wait(self._broker.key)

    def _refusal(self) -> ApiVersionsResponse:
        """KIP-511: error 35 in version 0, with the versions that are supported."""
        known = offered_by(self._cluster)[ApiVersionsRequest.api_key]
        versions = ApiVersion(
            api_key=ApiVersionsRequest.api_key, min_version=known.min_version, max_version=known.max_version
        )
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[versions])

    # --- rules -----------------------------------------------------------------------------------------------

    async def _obey(self, rule: Rule, request: Request[Message], call: Call, incoming: Incoming) -> None:
        if rule.action is Action.ANSWER and rule.answer is not None:
            await self._send(rule.answer(request, call), incoming)
            return
        response = await self._handle(request, call) if rule.is_handled else None
        match rule.action:
            case Action.CUT:
                raise ConnectionCutError(f"a rule cuts at {type(request).__name__}")
            case Action.DROP:
                await self._frames.skip_all()
                raise ConnectionCutError(f"a rule dropped {type(request).__name__}, and the client has gone")
            case Action.DELAY:
                await trio.sleep(rule.delay_ms / 1000)
                await self._send(response if rule.is_handled else await self._handle(request, call), incoming)
            case Action.CORRUPT if rule.corrupt is not None and response is not None:
                payload = response_bytes(response, incoming.version, incoming.correlation_id)
                await self._send_bytes(rule.corrupt(payload))
            case Action.WRITE if rule.pieces is not None and response is not None:
                payload = response_bytes(response, incoming.version, incoming.correlation_id)
                for wait_ms, piece in rule.pieces(framed(payload)):
                    await trio.sleep(wait_ms / 1000)
                    await self._stream.send_all(piece)
            case Action.EDIT if rule.edit is not None and response is not None:
                answer = _copy(response, incoming.version)  # the handler may go on using its answer
                rule.edit(answer)
                await self._send(answer, incoming)
            case _:
                await self._send(response, incoming)


def _copy(message: Message, version: int) -> Message:
    return decode_message(type(message), version, encode_message(message, version))
