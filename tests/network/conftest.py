"""An in-memory network under virtual time: scripted brokers that speak the real protocol, and a client to try out."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from functools import wraps
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import pytest
import trio
import trio.testing

from kwire.clock import Backoff
from kwire.config import ConsumerConfig
from kwire.managers.unsent import Channel, Destination, UnsentRequest
from kwire.metrics import ConsumerMetrics
from kwire.model import Node
from kwire.network.client import NetworkClient
from kwire.network.loop import Waker
from kwire.network.security import Security
from kwire.network.tcp import TcpStream
from kwire.protocol.compiler import decode_message, decode_prefix, encode_message
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.headers import RequestHeader, ResponseHeader
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest
from kwire.protocol.registry import request_class, request_classes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from kwire.errors import KafkaError
    from kwire.network.transport import ByteStream
    from kwire.protocol.schema import Message, Request, Response

T = TypeVar("T")

AnyResponse: TypeAlias = "Response"
Received: TypeAlias = "tuple[Request[Message], int, RequestHeader]"


MemoryPipe: TypeAlias = "trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]"


class MemoryStream:
    """One end of a connection, as `network.transport.ByteStream`."""

    def __init__(self, stream: MemoryPipe) -> None:
        self._stream = stream
        self.is_reset_when_closed = False

    def send_now(self, data: bytes) -> int:
        return 0  # nothing goes out without a writer

    async def send_all(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionResetError("the peer is gone") from error

    async def receive_into(self, buffer: memoryview, missing_bytes: int) -> int:
        try:
            data = await self._stream.receive_some(len(buffer))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionResetError("the peer is gone") from error
        buffer[: len(data)] = data
        return len(data)

    def reset_when_closed(self) -> None:
        self.is_reset_when_closed = True

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)


class Peer:
    """A broker's end of one connection: requests come out decoded, and answers go in."""

    def __init__(self, stream: MemoryStream) -> None:
        self.stream = stream
        self._bytes = b""

    async def next_request(self) -> Received | None:
        """None when the client has hung up."""
        length = await self._exactly(4)
        if length is None or (frame := await self._exactly(int.from_bytes(length, "big"))) is None:
            return None
        cls = request_class(int.from_bytes(frame[:2], "big"))
        version = int.from_bytes(frame[2:4], "big")
        header, size = decode_prefix(RequestHeader, cls.header_version(version), frame)
        return decode_message(cls, version, frame[size:]), version, header

    async def _exactly(self, count: int) -> bytes | None:
        buffer = bytearray(65_536)
        while len(self._bytes) < count:
            received = await self.stream.receive_into(memoryview(buffer), 1)
            if not received:
                return None
            self._bytes += bytes(buffer[:received])
        taken, self._bytes = self._bytes[:count], self._bytes[count:]
        return taken

    async def answer(self, header: RequestHeader, version: int, response: AnyResponse) -> None:
        await self.stream.send_all(frame_of(header.correlation_id, version, response))


def frame_of(correlation_id: int, version: int, response: AnyResponse) -> bytes:
    """The bytes of an answer."""
    head = encode_message(ResponseHeader(correlation_id=correlation_id), type(response).header_version(version))
    body = encode_message(response, version)
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


Answer: TypeAlias = "Callable[[Request[Message], int], AnyResponse | bytes | None]"
"""What a broker says to a request: a message, bytes as they are, or nothing at all."""


# As by Kafka, where no plug-in takes clients' metrics.
NOT_OFFERED = (GetTelemetrySubscriptionsRequest, PushTelemetryRequest)


def offering(maximum: Mapping[type[Request[Message]], int] | None = None) -> ApiVersionsResponse:
    """All that kwire knows, up to these versions."""
    limits = {cls.api_key: version for cls, version in (maximum or {}).items()}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=cls.min_version, max_version=limits.get(key, cls.max_version))
            for key, cls in sorted(request_classes().items())
            if cls not in NOT_OFFERED
        ]
    )


class ScriptedBroker:
    """Does with each connection what it is told to, and remembers what it was asked.

    Args:
        answer: asked for every request but ApiVersions.
        versions: the answer to ApiVersions.
    """

    def __init__(self, answer: Answer, versions: ApiVersionsResponse | None = None) -> None:
        self._answer = answer
        self._versions = versions or offering()
        self.asked: list[tuple[float, Request[Message], int]] = []
        self.connections = 0

    async def __call__(self, stream: MemoryStream) -> None:
        self.connections += 1
        peer = Peer(stream)
        while (received := await peer.next_request()) is not None:
            request, version, header = received
            self.asked.append((trio.current_time(), request, version))
            response = self._versions if isinstance(request, ApiVersionsRequest) else self._answer(request, version)
            if isinstance(response, bytes):
                await stream.send_all(response)
            elif response is not None:
                await peer.answer(header, version, response)

    def times_of(self, kind: type[Request[Message]]) -> list[float]:
        return [at_s for at_s, request, _ in self.asked if isinstance(request, kind)]


class MemoryNetwork:
    """Hosts by name; those that are not there refuse. A `network.transport.Transport`."""

    def __init__(self) -> None:
        self.hosts: dict[tuple[str, int], Callable[[MemoryStream], Awaitable[None]]] = {}
        self.black_holes: set[tuple[str, int]] = set()
        self.dialled: list[tuple[float, str]] = []
        self.streams: list[MemoryStream] = []

    def dials_of(self, host: str) -> list[float]:
        return [at_s for at_s, dialled in self.dialled if dialled == host]

    async def connect(self, host: str, port: int) -> ByteStream:
        self.dialled.append((trio.current_time(), host))
        await trio.lowlevel.checkpoint()
        if (host, port) in self.black_holes:
            await trio.sleep_forever()
        if (host, port) not in self.hosts:
            raise ConnectionRefusedError(f"nobody listens at {host}")
        mine, theirs = trio.testing.memory_stream_pair()
        trio.lowlevel.spawn_system_task(self._serve, self.hosts[host, port], MemoryStream(theirs))
        self.streams.append(MemoryStream(mine))
        return self.streams[-1]

    def avoid(self, stream: ByteStream) -> None:
        """A host has one address here."""

    async def _serve(self, behave: Callable[[MemoryStream], Awaitable[None]], stream: MemoryStream) -> None:
        try:
            await behave(stream)
        except ConnectionResetError:
            return
        finally:
            with trio.CancelScope(shield=True):
                await stream.aclose()


class Outcome:
    """What became of one request."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.answer: Message | None = None
        self.error: KafkaError | None = None
        self.at_s = -1.0
        self.arrival_ms = -1.0
        self.calls = 0
        self._done = trio.Event()
        self._wake = wake

    def on_answer(self, answer: Message, now_ms: float) -> None:
        self.answer = answer
        self._finish(now_ms)

    def on_failure(self, error: KafkaError, now_ms: float) -> None:
        self.error = error
        self._finish(now_ms)

    def on_arrival(self, took_ms: float) -> None:
        assert self.answer is None, "it comes in front of the answer"
        self.arrival_ms = took_ms

    def _finish(self, now_ms: float) -> None:
        self.calls += 1
        self.at_s = now_ms / 1000
        self._done.set()

    async def wait(self) -> Outcome:
        await self._done.wait()
        return self


class Rig:
    """A `NetworkClient` on a memory network, turned as the loop turns it, without managers."""

    def __init__(self, network: MemoryNetwork, config: ConsumerConfig) -> None:
        self.network = network
        self.nodes: dict[int, Node] = {}
        self.cluster_id: str | None = None
        self.turns = 0
        self._waker = Waker()
        self.client = NetworkClient(
            config,
            network,
            lambda: self.nodes,
            self._waker.wake,
            security=Security(config),
            cluster_id=lambda: self.cluster_id,
            client_id="rig",
            metrics=ConsumerMetrics(),
            reconnect_backoff=Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, lambda: 0.5),
            setup_backoff=Backoff(
                config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms, lambda: 0.5
            ),
            login_backoff=Backoff(
                config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms, lambda: 0.5
            ),
        )

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self.client.attach(nursery)
            while True:
                self.turns += 1
                self.client.complete(now_ms())
                wake_at_ms = self.client.poll(now_ms())
                await self._waker.sleep(min(wake_at_ms - now_ms(), 5_000))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run)
            yield
            nursery.cancel_scope.cancel()

    def send(
        self,
        request: Request[Message] | None = None,
        node: Node | None = None,
        channel: Channel = Channel.CONTROL,
        timeout_ms: float | None = None,
        *,
        only_behind_its_kind: bool = False,
    ) -> Outcome:
        """Put a request on its way; Metadata if there is none."""
        outcome = Outcome(self._waker.wake)
        unsent = UnsentRequest(
            request=request or MetadataRequest(topics=[]),
            destination=Destination(node, channel),
            on_answer=outcome.on_answer,
            on_failure=outcome.on_failure,
            on_arrival=outcome.on_arrival,
            timeout_ms=timeout_ms,
            only_behind_its_kind=only_behind_its_kind,
        )
        self.client.send([unsent], now_ms())
        self._waker.wake()
        return outcome


def now_ms() -> float:
    return trio.current_time() * 1000


class MakeRig(Protocol):
    """A client that knows these bootstrap servers; other settings as a user gives them."""

    def __call__(self, network: MemoryNetwork, *servers: str, **settings: int | str) -> Rig: ...


class MakeFrame(Protocol):
    """See `frame_of`."""

    def __call__(self, correlation_id: int, version: int, response: AnyResponse) -> bytes: ...


class InVirtualTime(Protocol):
    """Runs a test with a clock that jumps whenever everybody waits."""

    def __call__(self, test: Callable[[], Awaitable[T]]) -> T: ...


@pytest.fixture
def in_virtual_time() -> InVirtualTime:
    def run(test: Callable[[], Awaitable[T]]) -> T:
        @wraps(test)
        async def bounded() -> T:
            with trio.fail_after(3_600):
                return await test()

        return trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0))

    return run


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork()


@pytest.fixture
def make_rig() -> MakeRig:
    def make(network: MemoryNetwork, *servers: str, **settings: int | str) -> Rig:
        return Rig(network, ConsumerConfig.of({"bootstrap.servers": ",".join(servers), **settings}))

    return make


@pytest.fixture
def peer() -> type[Peer]:
    """The class, for tests that are a broker themselves."""
    return Peer


@pytest.fixture
def make_frame() -> MakeFrame:
    """Makes the bytes of an answer."""
    return frame_of


@pytest.fixture
def says_metadata() -> Answer:
    """Answers every request with an empty Metadata."""
    return lambda request, version: MetadataResponse()


@pytest.fixture
def scripted_broker() -> type[ScriptedBroker]:
    """The class, for tests to make brokers of."""
    return ScriptedBroker


@pytest.fixture
def offer() -> Callable[[], ApiVersionsResponse]:
    """Makes the answer of a broker that has all that kwire knows."""
    return offering


@pytest.fixture
def refusal() -> Callable[[int | None], ApiVersionsResponse]:
    """Makes the answer of a broker that does not know the version of ApiVersions, but has it up to another one."""

    def make(newest: int | None) -> ApiVersionsResponse:
        key = ApiVersionsRequest.api_key
        keys = [] if newest is None else [ApiVersion(api_key=key, min_version=0, max_version=newest)]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)

    return make


@pytest.fixture
def tcp_pair() -> Iterator[tuple[TcpStream, socket.socket]]:
    """A stream over the kernel's TCP, and the other end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    for each in (mine, theirs):
        each.setblocking(False)
    with mine, theirs:
        yield TcpStream(mine), theirs
