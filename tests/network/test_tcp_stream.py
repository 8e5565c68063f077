"""`TcpStream` over a real pair of sockets: what goes out at once, what waits for room, what a hang-up looks like."""

from __future__ import annotations

import socket
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
        return await stream.receive_into(memoryview(bytearray(10)))

    assert trio.run(scenario) == 0


def test_bytes_are_waited_for_and_land_in_the_buffer(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, theirs = pair
    buffer = bytearray(10)

    async def scenario() -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            return await stream.receive_into(memoryview(buffer))

    async def answer() -> None:
        await trio.testing.wait_all_tasks_blocked()
        theirs.send(b"answer")

    assert trio.run(scenario) == 6
    assert buffer[:6] == b"answer"


def test_closing_twice_is_no_error(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, _ = pair

    async def scenario() -> None:
        await stream.aclose()
        await stream.aclose()

    trio.run(scenario)
