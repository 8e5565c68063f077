"""Serves one connection: frames in, requests decoded, control asked, handler called, frames out.

As in Kafka, one request of a connection is worked on at a time, and answers come in order. What Kafka closes a
connection over closes it here (`requests`), and so do requests in front of SASL's end. Works on any stream of trio's,
sockets and memory alike; called by `cluster` for TCP and by the simulation.
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
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.testing.cluster.call import Call, ConnectionCutError
from kwire.testing.cluster.control import Action
from kwire.testing.cluster.frames import BrokenFrameError, FrameReader, framed, response_bytes
from kwire.testing.cluster.handlers import handlers, offered
from kwire.testing.cluster.request_context import ConnectionSession
from kwire.testing.cluster.requests import UnanswerableError, read_request

if TYPE_CHECKING:
    from kwire.protocol.schema import Message, Request
    from kwire.testing.cluster.broker import Broker
    from kwire.testing.cluster.control import Rule
    from kwire.testing.cluster.requests import Incoming
    from kwire.testing.cluster.state import ClusterState

_log = logging.getLogger(__name__)

UNTIMED = (FetchRequest, ProduceRequest, OffsetCommitRequest)
"""Requests that bring nobody's deadline nearer, though a commit may put one off: the clockwork need not be asked."""

BEFORE_AUTHENTICATION = (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest)


async def serve(
    stream: trio.abc.Stream, broker: Broker, cluster: ClusterState, *, client_host: str = "127.0.0.1"
) -> None:
    """Answer requests until the client or the broker goes away. Closes the stream."""
    connection = _Connection(stream, broker, cluster, ConnectionSession(f"/{client_host}"))
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


class _Connection:
    """One connection's loop."""

    def __init__(
        self, stream: trio.abc.Stream, broker: Broker, cluster: ClusterState, session: ConnectionSession
    ) -> None:
        self._stream = stream
        self._frames = FrameReader(stream, cluster.settings.socket_request_max_bytes)
        self._broker = broker
        self._cluster = cluster
        self._session = session

    async def run(self) -> None:
        while (frame := await self._frames.read()) is not None:
            await self._until_resumed()
            incoming = read_request(frame, offered(self._cluster.release))
            if incoming.request is None:
                await self._send(self._refusal(), incoming)
            else:
                await self._answer(incoming.request, incoming)

    async def _answer(self, request: Request[Message], incoming: Incoming) -> None:
        self._check_authenticated(request)
        call = Call(
            cluster=self._cluster,
            broker=self._broker,
            version=incoming.version,
            client_id=incoming.client_id,
            session=self._session,
        )
        rule = self._cluster.control.decide(request, call)
        if rule is None:
            await self._send(await self._handle(request, call), incoming)
        else:
            await self._obey(rule, request, call, incoming)

    # --- answering -------------------------------------------------------------------------------------------

    async def _handle(self, request: Request[Message], call: Call) -> Message | None:
        """What the handler answers. Its bugs are kept for the test to see, and end the connection."""
        is_timed = not isinstance(request, UNTIMED)
        if is_timed:
            self._cluster.timers.look()
        try:
            response = await handlers()[type(request)](request, call)
        except ConnectionCutError:
            raise
        except Exception as error:
            _log.exception("broker %s failed on %r", self._broker.node_id, request)
            self._cluster.failures.append(error)
            raise ConnectionCutError(f"the handler failed: {error!r}") from error
        if is_timed:
            self._cluster.timers.look()
        throttle_ms = self._cluster.control.throttles_ms.get(type(request), 0)
        if throttle_ms and response is not None:
            setattr(response, "throttle_time_ms", throttle_ms)  # noqa: B010  most answers have it, messages share no base for it
        return response

    async def _send(self, response: Message | None, incoming: Incoming) -> None:
        if response is None:
            return
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
        """KIP-511: error 35 in version 0, with the versions that would do."""
        known = offered(self._cluster.release)[ApiVersionsRequest.api_key]
        versions = ApiVersion(
            api_key=ApiVersionsRequest.api_key, min_version=known.min_version, max_version=known.max_version
        )
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[versions])

    def _check_authenticated(self, request: Request[Message]) -> None:
        is_wanted = bool(self._cluster.settings.sasl_users) and not self._session.is_authenticated
        if is_wanted and not isinstance(request, BEFORE_AUTHENTICATION):
            raise UnanswerableError(f"{type(request).__name__} before authentication")

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
                answer = _copy(response, incoming.version)  # what a handler answers, it may go on using
                rule.edit(answer)
                await self._send(answer, incoming)
            case _:
                await self._send(response, incoming)


def _copy(message: Message, version: int) -> Message:
    return decode_message(type(message), version, encode_message(message, version))
