"""Asks a broker which brokers it knows: the sign that a cluster is ready.

Called by `node` while brokers start. One Metadata request, written by hand: a test of kwire should not trust kwire to
tell when its cluster is ready.
"""

from __future__ import annotations

import socket
import struct

METADATA_KEY = 3
METADATA_VERSION = 1  # the oldest that can ask for no topics at all; every broker since 0.10 has it
MAX_ANSWER_BYTES = 1 << 20
TIMEOUT_S = 2.0


def known_brokers(host: str, port: int) -> frozenset[int]:
    """The ids of the live brokers that the broker at this address knows; empty while it does not answer."""
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
            connection.sendall(metadata_request())
            (size,) = struct.unpack(">i", read_exactly(connection, 4))
            if not 0 <= size <= MAX_ANSWER_BYTES:
                return frozenset()
            return broker_ids(read_exactly(connection, size))
    except (OSError, EOFError, struct.error):
        return frozenset()


def metadata_request() -> bytes:
    """Request header 1 (key, version, correlation id, null client id) and an empty list of topics, with its size."""
    body = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, 1, -1) + struct.pack(">i", 0)
    return struct.pack(">i", len(body)) + body


def broker_ids(answer: bytes) -> frozenset[int]:
    """The node ids in a Metadata answer of version 1: brokers come first, each id, host, port, nullable rack."""
    ids = []
    (count,) = struct.unpack_from(">i", answer, 4)  # behind the correlation id
    at = 8
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", answer, at)
        at += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", answer, at)
        at += 2 + max(0, rack_length)
        ids.append(node_id)
    return frozenset(ids)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise EOFError(f"closed after {len(data)} of {size} bytes")
        data += chunk
    return bytes(data)
