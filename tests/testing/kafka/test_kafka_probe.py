"""The probe reads a broker's answer as a broker writes it, and takes anything else for "not ready"."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kwire.testing.kafka.probe import broker_ids, known_brokers, metadata_request

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a Kafka 4.3.1 broker answered: correlation id, brokers 0 and 1 with host, port and rack, controller 1, no topics.
ANSWER = bytes.fromhex(
    """
    00000001 00000002
    00000000 0009 3132372e302e302e31 000072d5 0004 6c656674
    00000001 0009 3132372e302e302e31 00007acb 0004 6c656674
    00000001 00000000
    """
)


@contextmanager
def broker(reply: bytes) -> Iterator[tuple[str, int]]:
    """Listens, takes one request, sends `reply` and closes."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join(5)


def test_the_request_is_metadata_1_for_no_topics() -> None:
    assert metadata_request() == bytes.fromhex("0000000e 0003 0001 00000001 ffff 00000000")


def test_broker_ids_are_read_past_hosts_and_racks() -> None:
    assert broker_ids(ANSWER) == {0, 1}


def test_a_rack_may_be_null() -> None:
    assert broker_ids(ANSWER.replace(b"\0\4left", b"\xff\xff")) == {0, 1}


def test_a_serving_broker_is_asked_over_tcp() -> None:
    with broker(struct.pack(">i", len(ANSWER)) + ANSWER) as address:
        assert known_brokers(*address) == {0, 1}


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(b"", id="closed"),
        pytest.param(b"\0\0", id="closed within the size"),
        pytest.param(struct.pack(">i", len(ANSWER)) + ANSWER[:20], id="closed within the answer"),
        pytest.param(struct.pack(">i", 20) + ANSWER[:20], id="shorter than it says"),
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="huge size"),
        pytest.param(struct.pack(">iii", 8, 1, 2**31 - 1), id="huge count"),
    ],
)
def test_a_broken_answer_means_not_ready(reply: bytes) -> None:
    with broker(reply) as address:
        assert known_brokers(*address) == frozenset()


def test_nobody_listening_means_not_ready() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can
        assert known_brokers(*reserved.getsockname()) == frozenset()
