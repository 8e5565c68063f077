"""A connection to a broker that fetches, and what goes over it. Used by the fetch manager."""

from __future__ import annotations

from typing import NamedTuple

from kwire.clock import Backoff
from kwire.fetching.session import FetchSession
from kwire.managers.base import RequestState
from kwire.managers.unsent import Channel


class Line(NamedTuple):
    """Which broker, over which of its connections."""

    node_id: int
    channel: Channel


class Fetching:
    """What goes over one line: a session, and one request at a time."""

    __slots__ = ("line", "request", "session")

    def __init__(self, line: Line, backoff: Backoff) -> None:
        self.line = line
        self.session = FetchSession()
        self.request = RequestState(backoff)
