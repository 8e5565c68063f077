"""One connection to one broker, from dialling to closed. A closed connection is never reused: a new one is made."""

from __future__ import annotations

from enum import Enum, auto

from kwire.states.machine import Row, Table


class ConnectionState(Enum):
    CONNECTING = auto()
    """Waits for the TCP (and TLS) handshake, at most `socket_connection_setup_timeout_ms`."""
    NEGOTIATING = auto()
    """Waits for the ApiVersions answer: until then no other request has a version to be written in."""
    READY = auto()
    """Takes requests."""
    CLOSED = auto()
    """Done; everything that was in flight has failed."""


class ConnectionEvent(Enum):
    CONNECTED = auto()
    NEGOTIATED = auto()
    BROKEN = auto()
    CLOSE_WANTED = auto()


class ConnectionEffect(Enum):
    SEND_API_VERSIONS = auto()
    FAIL_IN_FLIGHT = auto()


S, E, F = ConnectionState, ConnectionEvent, ConnectionEffect

CONNECTION: Table[ConnectionState, ConnectionEvent, ConnectionEffect] = Table(
    "connection",
    S.CONNECTING,
    [
        Row(S.CONNECTING, E.CONNECTED, S.NEGOTIATING, (F.SEND_API_VERSIONS,)),
        Row(S.NEGOTIATING, E.NEGOTIATED, S.READY),
        Row(S.CONNECTING, E.BROKEN, S.CLOSED, (F.FAIL_IN_FLIGHT,), "refused, unreachable or too slow"),
        Row(S.NEGOTIATING, E.BROKEN, S.CLOSED, (F.FAIL_IN_FLIGHT,), "not a Kafka broker, or it hung up"),
        Row(S.READY, E.BROKEN, S.CLOSED, (F.FAIL_IN_FLIGHT,), "end of stream, bad bytes or a request timeout"),
        Row(S.CONNECTING, E.CLOSE_WANTED, S.CLOSED, (F.FAIL_IN_FLIGHT,)),
        Row(S.NEGOTIATING, E.CLOSE_WANTED, S.CLOSED, (F.FAIL_IN_FLIGHT,)),
        Row(S.READY, E.CLOSE_WANTED, S.CLOSED, (F.FAIL_IN_FLIGHT,)),
    ],
    dropped={
        (S.CLOSED, E.BROKEN): "closing a socket wakes its reader with an error",
        (S.CLOSED, E.CLOSE_WANTED): "closed twice",
        (S.CLOSED, E.CONNECTED): "the dial finished while the connection was being given up",
        (S.CLOSED, E.NEGOTIATED): "the answer was read while the connection was being given up",
    },
    impossible={
        (S.NEGOTIATING, E.CONNECTED): "a connection is dialled once",
        (S.READY, E.CONNECTED): "a connection is dialled once",
        (S.CONNECTING, E.NEGOTIATED): "nothing was sent yet",
        (S.READY, E.NEGOTIATED): "versions are asked for once",
    },
)
