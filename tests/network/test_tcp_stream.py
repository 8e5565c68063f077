"""`TcpStream` over a real pair of sockets: what goes out at once, what waits for room, what a hang-up looks like."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.network.tcp import TcpStream

if TYPE_CHECKING:
    from collections.abc import Iterator

MORE_THAN_FITS = bytes(range(256)) * 16_384


@pytest.fixture
def pair() -> Iterator[tuple[TcpStream, socket.socket]]:
    """A stream, and the other end of its connection."""
    mine, theirs = socket.socketpair()
    for each in (mine, theirs):
        each.setblocking(False)
    with mine, theirs:
        yield TcpStream(mine), theirs


async def read_from(theirs: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        await trio.lowlevel.wait_readable(theirs)
        data += theirs.recv(65_536)
    return data


def test_what_fits_goes_out_at_once(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, theirs = pair
    assert stream.send_now(b"request") == 7
    assert theirs.recv(100) == b"request"


def test_what_does_not_fit_waits_for_room(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, theirs = pair

    async def scenario() -> bytes:
        sent = stream.send_now(MORE_THAN_FITS)
        assert 0 < sent < len(MORE_THAN_FITS)
        assert stream.send_now(MORE_THAN_FITS[sent:]) == 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, MORE_THAN_FITS[sent:])
            return await read_from(theirs, len(MORE_THAN_FITS))

    assert trio.run(scenario) == MORE_THAN_FITS


def test_a_peer_that_is_gone_is_told_by_what_waits(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, theirs = pair
    theirs.close()
    assert stream.send_now(b"request") == 0

    async def scenario() -> int:
        with pytest.raises(OSError, match=r"[Bb]roken pipe|reset"):
            await stream.send_all(b"request")
        return await stream.receive_into(memoryview(bytearray(10)), 1)

    assert trio.run(scenario) == 0


def test_bytes_are_waited_for_and_land_in_the_buffer(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, theirs = pair
    buffer = bytearray(10)

    async def scenario() -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            return await stream.receive_into(memoryview(buffer), 1)

    async def answer() -> None:
        await trio.testing.wait_all_tasks_blocked()
        theirs.send(b"answer")

    assert trio.run(scenario) == 6
    assert buffer[:6] == b"answer"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every byte wakes")
def test_a_large_answer_wakes_once_much_of_it_is_there(tcp_pair: tuple[TcpStream, socket.socket]) -> None:
    stream, theirs = tcp_pair
    buffer = memoryview(bytearray(100_000))

    async def scenario() -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_in_parts)
            return await stream.receive_into(buffer, len(buffer))

    async def answer_in_parts() -> None:
        for _ in range(10):
            theirs.send(bytes(10_000))
            await trio.testing.wait_all_tasks_blocked()

    room_bytes = stream._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert trio.run(scenario) >= min(100_000, room_bytes // 4)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every byte wakes")
def test_the_rest_of_a_small_answer_is_waited_for_as_a_whole(tcp_pair: tuple[TcpStream, socket.socket]) -> None:
    """A broker sends the head of a fetch, and then each partition's records: several wake-ups, for one answer."""
    stream, theirs = tcp_pair

    async def scenario() -> list[int]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_in_parts)
            return [await stream.receive_into(memoryview(bytearray(1_000)), missing) for missing in (1, 200)]

    async def answer_in_parts() -> None:
        for size_bytes in (60, 40, 100, 60):
            theirs.send(bytes(size_bytes))
            await trio.testing.wait_all_tasks_blocked()

    assert trio.run(scenario) == [60, 200]


def test_after_a_large_answer_every_byte_wakes_again(tcp_pair: tuple[TcpStream, socket.socket]) -> None:
    stream, theirs = tcp_pair
    theirs.send(bytes(100_000))

    async def scenario() -> int:
        left = 100_000
        while left:
            left -= await stream.receive_into(memoryview(bytearray(left)), left)
        theirs.send(b"x")
        with trio.fail_after(5):
            return await stream.receive_into(memoryview(bytearray(100)), 1)

    assert trio.run(scenario) == 1


def test_an_answer_larger_than_the_socket_takes_comes_through(tcp_pair: tuple[TcpStream, socket.socket]) -> None:
    """Waiting for more than the kernel has room for would be waiting for ever."""
    stream, theirs = tcp_pair
    stream._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    size = 3_000_000

    async def scenario() -> int:
        received = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(TcpStream(theirs).send_all, bytes(size))
            with trio.fail_after(5):
                while received < size:
                    received += await stream.receive_into(memoryview(bytearray(size - received)), size - received)
        return received

    assert trio.run(scenario) == size


def test_a_peer_that_hangs_up_within_a_large_answer_is_heard(tcp_pair: tuple[TcpStream, socket.socket]) -> None:
    stream, theirs = tcp_pair
    theirs.send(bytes(1_000))
    theirs.close()

    async def scenario() -> list[int]:
        with trio.fail_after(5):
            return [await stream.receive_into(memoryview(bytearray(100_000)), 100_000) for _ in range(2)]

    assert trio.run(scenario) == [1_000, 0]


def test_closing_twice_is_no_error(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, _ = pair

    async def scenario() -> None:
        await stream.aclose()
        await stream.aclose()

    trio.run(scenario)


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_peer_can_answer_after_an_end_and_not_after_a_reset(
    tcp_pair: tuple[TcpStream, socket.socket], is_reset: bool
) -> None:
    """A broker that can still answer goes on to what it has not read."""
    stream, theirs = tcp_pair

    async def scenario() -> None:
        assert stream.send_now(b"request") == 7
        if is_reset:
            stream.reset_when_closed()
        await stream.aclose()

    trio.run(scenario)
    if is_reset:
        with pytest.raises(ConnectionResetError):
            theirs.send(b"answer")
    else:
        assert theirs.send(b"answer") == 6


def test_a_closed_stream_may_be_told_to_reset(tcp_pair: tuple[TcpStream, socket.socket]) -> None:
    stream, _theirs = tcp_pair
    trio.run(stream.aclose)
    stream.reset_when_closed()
