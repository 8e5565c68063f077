"""Peers that are no login servers: whatever they send, the question ends in an answer or in an error of kwire's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwire.config import Secret
from kwire.network.login.failures import TokenRequestError
from kwire.network.login.https import HttpAnswer, Timeouts, post

RIGHT = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nRetry-After: 5\r\n\r\n"
    b'16\r\n{"access_token":"abc"}\r\n0\r\n\r\n'
)


class RawPeer:
    """Sends `answer` on each connection, and hangs up."""

    def __init__(self) -> None:
        self.answer = b""
        self.listener = socket.create_server(("127.0.0.1", 0))

    def serve(self) -> None:
        while True:
            try:
                connected, _ = self.listener.accept()
            except OSError:
                return  # the test is over
            with connected:
                connected.recv(65536)
                connected.sendall(self.answer)

    def ask(self) -> HttpAnswer | None:
        url = urlsplit(f"http://127.0.0.1:{self.listener.getsockname()[1]}/token")
        try:
            return post(url, {"Accept": Secret("json")}, Secret("a=b"), Timeouts(connect_ms=5000, read_ms=5000), None)
        except TokenRequestError:
            return None


@pytest.fixture(scope="module")
def raw_peer() -> Iterator[RawPeer]:
    peer = RawPeer()
    thread = threading.Thread(target=peer.serve)
    thread.start()
    yield peer
    peer.listener.shutdown(socket.SHUT_RDWR)
    peer.listener.close()
    thread.join()


def test_a_right_answer_in_chunks(raw_peer: RawPeer) -> None:
    raw_peer.answer = RIGHT

    answer = raw_peer.ask()

    assert answer is not None
    assert (answer.status, answer.body, answer.retry_after) == (200, b'{"access_token":"abc"}', "5")


@pytest.mark.slow
@given(position=st.integers(0, len(RIGHT)), removed=st.integers(0, 20), inserted=st.binary(max_size=20))
@example(position=0, removed=len(RIGHT), inserted=b"")
@example(position=0, removed=0, inserted=b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
@example(position=17, removed=0, inserted=b"X-Header: 1\r\n" * 200)
@example(position=17, removed=0, inserted=b"X-Header: " + b"x" * 100_000)
def test_whatever_a_peer_sends_there_is_an_answer_or_an_error(
    raw_peer: RawPeer, position: int, removed: int, inserted: bytes
) -> None:
    raw_peer.answer = RIGHT[:position] + inserted + RIGHT[position + removed :]

    answer = raw_peer.ask()

    assert answer is None or len(answer.body) <= 1024 * 1024
