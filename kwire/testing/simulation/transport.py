"""The network of a world: byte streams in memory, with latency, and whatever else befalls bytes between machines.

A stream is two pipes, one each way. What happens to a chunk is asked of the network when it is sent
(`Network.weather`), so trouble begins and ends for connections that are open. Bytes arrive in order, or not at all:
what a pipe has swallowed never arrives, and then the connection is reset when the trouble ends, as TCP would do.
"""

from __future__ import annotations

import errno
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from zlib import crc32

import trio

from kwire.network.transport import ByteStream
from kwire.testing.simulation.virtual_clock import Sleeper
from kwire.testing.simulation.weather import CALM, Weather

# The latency between two machines of one rack, in ms.
LATENCY_MS = (0.05, 0.5)
SHARE_SENT_AT_ONCE = 0.9


class Chunk(NamedTuple):
    arrives_at: float
    data: bytes


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: Network, client: str, host: str) -> None:
        self._network = network
        self._client = client
        self._host = host
        self._chunks: deque[Chunk] = deque()
        self._reader = Sleeper()
        self._last_arrival = 0.0
        self.is_ended = False
        self.is_broken = False
        self.has_swallowed = False

    def put(self, data: bytes) -> None:
        """Send. Raises nothing: a sender learns from the pipe's end, as with sockets, that nobody is there."""
        weather = self._network.weather(self._client, self._host)
        if weather.swallows or self.has_swallowed:
            self.has_swallowed = True
            return
        data = self._network.damaged(data, weather)
        self._network.note(data)
        at = trio.current_time() + self._network.latency(weather)
        self._last_arrival = max(self._last_arrival, at)
        self._chunks.append(Chunk(self._last_arrival, data))
        if len(self._chunks) == 1 and not weather.holds:
            self._reader.call_at(self._last_arrival)

    def end(self) -> None:
        """End the pipe: bytes under way still arrive."""
        self.is_ended = True
        self._reader.wake()

    def reset(self) -> None:
        self.is_broken = True
        self._chunks.clear()
        self._reader.wake()

    def look_again(self) -> None:
        """The weather has changed."""
        self._reader.wake()

    async def take(self, max_bytes: int) -> bytes:
        """Receive some bytes; none at the end.

        Raises:
            ConnectionResetError: The connection is broken.
        """
        while True:
            if self.is_broken:
                raise ConnectionResetError("connection reset by peer")
            weather = self._network.weather(self._client, self._host)
            if weather.holds:
                await self._reader.sleep()
            elif self._chunks and self._chunks[0].arrives_at <= trio.current_time():
                return self._pop(min(max_bytes, weather.slice_bytes or max_bytes))
            elif self._chunks:
                await self._reader.sleep(self._chunks[0].arrives_at)
            elif self.is_ended and not weather.swallows:
                return b""
            else:
                await self._reader.sleep()

    def put_back(self, data: bytes) -> None:
        """Put back the bytes that were taken last."""
        self._chunks.appendleft(Chunk(trio.current_time(), data))

    def _pop(self, max_bytes: int) -> bytes:
        chunk = self._chunks[0]
        if len(chunk.data) <= max_bytes:
            self._chunks.popleft()
            return chunk.data
        self._chunks[0] = Chunk(chunk.arrives_at, chunk.data[max_bytes:])
        return chunk.data[:max_bytes]


class SimulatedLink:
    """A connection: both pipes."""

    def __init__(self, network: Network, client: str, host: str) -> None:
        self.client = client
        self.host = host
        self.to_broker = Pipe(network, client, host)
        self.to_client = Pipe(network, client, host)
        self.is_client_gone = False

    def reset(self) -> None:
        self.to_broker.reset()
        self.to_client.reset()

    def leave(self) -> None:
        """The client has ended it, or its process has. What it has sent arrives, and no answer reaches it."""
        self.to_broker.end()
        self.is_client_gone = True

    def answer(self, data: bytes) -> None:
        """The broker sends it. When the client has gone, it is lost, and a reset comes back after it: so the broker has
        read the next request by then, and carries that out."""
        if self.is_client_gone:
            self.to_client.reset()
        else:
            self.to_client.put(data)

    def look_again(self) -> None:
        if self.to_broker.has_swallowed or self.to_client.has_swallowed:
            self.reset()
        self.to_broker.look_again()
        self.to_client.look_again()


class ClientStream:
    """`network.transport.ByteStream` of a client process, which may be frozen."""

    def __init__(self, network: Network, link: SimulatedLink, pause: Callable[[], Awaitable[None]]) -> None:
        self._network = network
        self._link = link
        self._pause = pause
        self._resets = False

    def send_now(self, data: bytes) -> int:
        if self._link.to_broker.is_broken:
            return 0  # `send_all` says so
        self._network.note_frame(self._link.client, data)
        goes_out = self._network.room_for(len(data))
        if goes_out:
            self._link.to_broker.put(bytes(data[:goes_out]))
        return goes_out

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self._link.to_broker.is_broken:
            raise ConnectionResetError("connection reset by peer")
        self._link.to_broker.put(bytes(data))

    async def receive_into(self, buffer: memoryview, missing_bytes: int) -> int:  # noqa: ARG002  need not wait
        data = await self._link.to_client.take(len(buffer))
        try:
            await self._pause()
        except trio.Cancelled:
            self._link.to_client.put_back(data)
            raise
        buffer[: len(data)] = data
        return len(data)

    def reset_when_closed(self) -> None:
        self._resets = True

    async def aclose(self) -> None:
        if self._resets:
            self._link.reset()
        self._link.leave()
        await trio.lowlevel.checkpoint()


class BrokerStream(trio.abc.HalfCloseableStream):
    """The broker's end, as a trio stream."""

    def __init__(self, link: SimulatedLink) -> None:
        self._link = link

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            return await self._link.to_broker.take(65_536 if max_bytes is None else max_bytes)
        except ConnectionResetError as error:
            # With a number, as the system's have: trio's TLS looks at the text that goes with it.
            raise trio.BrokenResourceError from ConnectionResetError(errno.ECONNRESET, str(error))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """No checkpoint, as trio would have it: who sends reads next, and waits there."""
        if self._link.to_client.is_broken:
            raise trio.BrokenResourceError
        self._link.answer(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        self._link.to_client.end()
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._link.to_client.end()
        self._link.to_broker.reset()
        await trio.lowlevel.checkpoint()


class Network:
    """Every connection of a world.

    Args:
        accept: serves a broker's end of a new connection to a host and port until it ends; None if nobody listens.
    """

    def __init__(
        self,
        rng: random.Random,
        nursery: trio.Nursery,
        accept: Callable[[str, int], Callable[[BrokerStream, str], Awaitable[None]] | None],
    ) -> None:
        self._rng = rng
        self._nursery = nursery
        self._accept = accept
        self._links: list[SimulatedLink] = []
        self._troubles: list[tuple[Callable[[str, str], bool], Weather]] = []
        self.connections_made = 0
        self.checksum = 0
        """Over all bytes that were ever sent, in order; where they are encrypted, over what was, and over the sizes."""
        self.is_encrypted = False
        self.frames_sent: Counter[str] = Counter()
        """The number of sends of each client."""
        self.on_frame: Callable[[str, bytes], None] | None = None
        """Told of what each client sends, when it does: most of it whole frames."""

    # --- what befalls bytes ---------------------------------------------------------------------------------

    def trouble(self, between: Callable[[str, str], bool], weather: Weather) -> Callable[[], None]:
        """Bad weather between these clients and hosts, until the function that is answered is called."""
        entry = (between, weather)
        self._troubles.append(entry)

        def clear_up() -> None:
            self._troubles.remove(entry)
            self._look_again()

        self._look_again()
        return clear_up

    def weather(self, client: str, host: str) -> Weather:
        if not self._troubles:
            return CALM
        weather = CALM
        for between, trouble in self._troubles:
            if between(client, host):
                weather = weather.worsened_by(trouble)
        return weather

    def latency(self, weather: Weather) -> float:
        """The latency in seconds."""
        return (self._rng.uniform(*LATENCY_MS) + self._rng.uniform(0.0, weather.extra_latency_ms)) / 1000.0

    def room_for(self, wanted_bytes: int) -> int:
        """How much of what is sent fits into the sender's buffer: now and then not all of it."""
        return wanted_bytes if self._rng.random() < SHARE_SENT_AT_ONCE else self._rng.randint(0, wanted_bytes)

    def damaged(self, data: bytes, weather: Weather) -> bytes:
        if not data or self._rng.random() >= weather.share_damaged:
            return data
        index = self._rng.randrange(len(data))
        return data[:index] + bytes([data[index] ^ (1 << self._rng.randrange(8))]) + data[index + 1 :]

    def note(self, data: bytes) -> None:
        """Something is sent. What is encrypted looks different each time, and is as long."""
        self.checksum = crc32(len(data).to_bytes(4, "big") if self.is_encrypted else data, self.checksum)

    def note_plain(self, data: bytes) -> None:
        """Something is going to be sent encrypted."""
        self.checksum = crc32(data, self.checksum)

    def note_frame(self, client: str, data: bytes) -> None:
        self.frames_sent[client] += 1
        if self.on_frame is not None:
            self.on_frame(client, data)

    def cut(self, between: Callable[[str, str], bool]) -> int:
        """Reset open connections. Returns how many there were."""
        hit = [link for link in self._links if between(link.client, link.host)]
        for link in hit:
            link.reset()
            self.forget(link)
        return len(hit)

    def end(self, client: str) -> None:
        """End the connections of a process that was killed."""
        for link in self._links:
            if link.client == client:
                link.leave()

    def _look_again(self) -> None:
        for link in list(self._links):
            link.look_again()

    # --- connections ----------------------------------------------------------------------------------------

    async def connect(self, client: str, pause: Callable[[], Awaitable[None]], host: str, port: int) -> ClientStream:
        """Dial a broker.

        Raises:
            OSError: No broker listens there.
        """
        weather = self.weather(client, host)
        await trio.sleep(self.latency(weather))
        while self.weather(client, host).stops_dialling:
            await trio.sleep(0.25)  # SYNs are sent again and again, until the dialler gives up or the way is free
        await pause()
        serve = None if weather.refuses else self._accept(host, port)
        if serve is None:
            raise ConnectionRefusedError("connection refused")
        link = SimulatedLink(self, client, host)
        self._links.append(link)
        self.connections_made += 1
        self._nursery.start_soon(self._serve, serve, link)
        return ClientStream(self, link, pause)

    async def _serve(self, serve: Callable[[BrokerStream, str], Awaitable[None]], link: SimulatedLink) -> None:
        stream = BrokerStream(link)
        try:
            await serve(stream, link.client)
        finally:
            link.to_client.end()
            link.to_broker.reset()
            self.forget(link)

    def forget(self, link: SimulatedLink) -> None:
        if link in self._links:
            self._links.remove(link)

    @property
    def open_connections(self) -> int:
        return sum(not link.is_client_gone for link in self._links)


class ClientTransport:
    """`network.transport.Transport` of one client process."""

    def __init__(self, network: Network, client: str, pause: Callable[[], Awaitable[None]]) -> None:
        self._network = network
        self._client = client
        self._pause = pause

    async def connect(self, host: str, port: int) -> ByteStream:
        return await self._network.connect(self._client, self._pause, host, port)

    def avoid(self, stream: ByteStream) -> None:
        """A host has one address here."""
