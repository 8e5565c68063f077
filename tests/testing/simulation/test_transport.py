"""The network of a world: bytes arrive in order, late, in pieces, damaged or not at all, and connections end."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from functools import wraps
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.testing.simulation.scheduler import run_deterministically
from kwire.testing.simulation.transport import BrokerStream, ClientStream, ClientTransport, Network
from kwire.testing.simulation.weather import Weather

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kwire.testing.simulation.scheduler import VirtualTime


async def never_paused() -> None:
    """The process is not frozen."""


class Place:
    """One client, one broker, and what the broker has received."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.network = Network(random.Random(1), nursery, self._accept)
        self.brokers: list[BrokerStream] = []
        self.is_up = True

    def _accept(self, host: str, port: int) -> Callable[[BrokerStream, str], Awaitable[None]] | None:
        return self._serve if self.is_up and (host, port) == ("broker0", 9092) else None

    async def _serve(self, stream: BrokerStream, _client: str) -> None:
        self.brokers.append(stream)
        await trio.sleep_forever()

    async def connect(self) -> ClientStream:
        stream = await ClientTransport(self.network, "client", never_paused).connect("broker0", 9092)
        while not self.brokers:
            await trio.sleep(0.001)
        assert isinstance(stream, ClientStream)
        return stream

    def trouble(self, weather: Weather) -> Callable[[], None]:
        return self.network.trouble(lambda client, host: (client, host) == ("client", "broker0"), weather)


@asynccontextmanager
async def a_place() -> AsyncIterator[Place]:
    async with trio.open_nursery() as nursery:
        yield Place(nursery)
        nursery.cancel_scope.cancel()


def in_a_world(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        async def main(_time: VirtualTime) -> None:
            await test()

        run_deterministically(1, main)

    del run.__wrapped__  # pytest would take it for a coroutine
    return run


async def received(stream: ClientStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        buffer = bytearray(count - len(data))
        got = await stream.receive_into(memoryview(buffer), 1)
        if not got:
            break
        data += buffer[:got]
    return data


@in_a_world
async def test_bytes_arrive_in_order_and_after_a_while() -> None:
    async with a_place() as place:
        stream = await place.connect()
        await stream.send_all(b"one")
        await stream.send_all(b"two")
        before = trio.current_time()
        assert await place.brokers[0].receive_some() == b"one"
        assert await place.brokers[0].receive_some() == b"two"
        assert 0.0 < trio.current_time() - before < 0.002


@in_a_world
async def test_a_read_that_is_given_up_while_the_process_is_frozen_takes_nothing() -> None:
    thaws = trio.Event()

    async with a_place() as place:
        frozen = ClientStream(place.network, (await place.connect())._link, thaws.wait)
        for data in (b"one", b"two"):
            await place.brokers[0].send_all(data)
        with trio.move_on_after(1) as given_up:
            await frozen.receive_into(memoryview(bytearray(10)), 1)
        assert given_up.cancelled_caught
        thaws.set()
        assert await received(frozen, 6) == b"onetwo"


@in_a_world
async def test_what_does_not_go_out_at_once_is_for_send_all() -> None:
    async with a_place() as place:
        stream = await place.connect()
        counts = {stream.send_now(b"0123456789") for _ in range(100)}
        assert 10 in counts
        assert len(counts) > 1
        await stream.aclose()
        place.brokers[0]._link.reset()
        assert stream.send_now(b"x") == 0


@in_a_world
async def test_slices() -> None:
    async with a_place() as place:
        stream = await place.connect()
        place.trouble(Weather(slice_bytes=3))
        await place.brokers[0].send_all(b"0123456789")
        sizes = [await stream.receive_into(memoryview(bytearray(100)), 1) for _ in range(4)]
        assert sizes == [3, 3, 3, 1]


@in_a_world
async def test_what_is_held_arrives_when_it_clears_up() -> None:
    async with a_place() as place:
        stream = await place.connect()
        clear_up = place.trouble(Weather(holds=True))
        await place.brokers[0].send_all(b"late")
        with trio.move_on_after(60.0) as waiting:
            await received(stream, 4)
        assert waiting.cancelled_caught
        clear_up()
        assert await received(stream, 4) == b"late"


@in_a_world
async def test_what_is_swallowed_never_arrives_and_the_connection_is_reset_when_it_clears_up() -> None:
    async with a_place() as place:
        stream = await place.connect()
        clear_up = place.trouble(Weather(swallows=True))
        await place.brokers[0].send_all(b"gone")
        with trio.move_on_after(60.0) as waiting:
            await received(stream, 4)
        assert waiting.cancelled_caught, "nobody is told"
        clear_up()
        with pytest.raises(ConnectionResetError):
            await received(stream, 4)


@in_a_world
async def test_a_broker_that_is_gone_or_refuses() -> None:
    async with a_place() as place:
        clear_up = place.trouble(Weather(refuses=True))
        with pytest.raises(ConnectionRefusedError):
            await place.connect()
        clear_up()
        await place.connect()
        place.is_up = False
        with pytest.raises(ConnectionRefusedError):
            await place.connect()


@in_a_world
async def test_dialling_through_a_partition_succeeds_when_that_is_over() -> None:
    async with a_place() as place:
        clear_up = place.trouble(Weather(holds=True))
        with trio.move_on_after(5.0) as dialling:
            await place.connect()
        assert dialling.cancelled_caught
        clear_up()
        await place.connect()


@in_a_world
async def test_a_cut_is_seen_at_both_ends() -> None:
    async with a_place() as place:
        stream = await place.connect()
        place.network.cut(lambda _client, _host: True)
        assert place.network.open_connections == 0
        with pytest.raises(ConnectionResetError):
            await received(stream, 1)
        with pytest.raises(trio.BrokenResourceError):
            await place.brokers[0].receive_some()
        with pytest.raises(ConnectionResetError):
            await stream.send_all(b"x")


@in_a_world
async def test_an_end_comes_behind_what_was_sent() -> None:
    async with a_place() as place:
        stream = await place.connect()
        await place.brokers[0].send_all(b"bye")
        await place.brokers[0].aclose()
        assert await received(stream, 10) == b"bye"
        await stream.aclose()
        assert place.network.open_connections == 0


@in_a_world
async def test_a_broker_reads_on_after_one_answer_that_meets_nobody() -> None:
    """As Kafka does: the client has ended the connection, and its machine answers that answer with a reset."""
    async with a_place() as place:
        stream = await place.connect()
        await stream.send_all(b"one")
        await stream.send_all(b"two")
        await stream.aclose()
        assert place.network.open_connections == 0
        broker = place.brokers[0]
        assert await broker.receive_some() == b"one"
        await broker.send_all(b"answer")
        assert await broker.receive_some() == b"two"
        with pytest.raises(trio.BrokenResourceError):
            await broker.send_all(b"answer")


@in_a_world
async def test_what_was_held_back_arrives_though_the_client_has_gone() -> None:
    async with a_place() as place:
        stream = await place.connect()
        clear_up = place.trouble(Weather(holds=True))
        await stream.send_all(b"late")
        await stream.aclose()
        await trio.sleep(60.0)
        clear_up()
        assert await place.brokers[0].receive_some() == b"late"
        assert await place.brokers[0].receive_some() == b""


@in_a_world
async def test_a_broker_reads_nothing_more_of_a_connection_that_was_reset() -> None:
    async with a_place() as place:
        stream = await place.connect()
        await stream.send_all(b"one")
        stream.reset_when_closed()
        await stream.aclose()
        for _ in range(2):
            with pytest.raises(trio.BrokenResourceError):
                await place.brokers[0].receive_some()


@in_a_world
async def test_damage_is_one_bit() -> None:
    async with a_place() as place:
        stream = await place.connect()
        place.trouble(Weather(share_damaged=1.0))
        await place.brokers[0].send_all(bytes(8))
        data = await received(stream, 8)
        assert sum(byte.bit_count() for byte in data) == 1


def test_weather_adds_up() -> None:
    bad = Weather(extra_latency_ms=5.0, slice_bytes=7, share_damaged=0.1, holds=True)
    worse = bad.worsened_by(Weather(extra_latency_ms=1.0, slice_bytes=3, swallows=True, refuses=True))
    assert worse == Weather(
        extra_latency_ms=6.0, slice_bytes=3, share_damaged=0.1, holds=True, swallows=True, refuses=True
    )
    assert worse.stops_dialling
    assert bad.worsened_by(Weather()) == bad
