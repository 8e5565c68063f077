"""The two ways of a connection, in toxiproxy's words, which the tampering proxy shares."""

from __future__ import annotations

from enum import Enum


class Stream(Enum):
    """Which way bytes flow."""

    UPSTREAM = "upstream"  # requests: client to broker
    DOWNSTREAM = "downstream"  # answers: broker to client


BOTH_STREAMS = frozenset(Stream)
