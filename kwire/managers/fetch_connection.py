"""A connection to a broker that fetches: where it goes, its session, what it was asked for and has not answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.fetching.session import FetchSession
from kwire.managers.base import RequestState

if TYPE_CHECKING:
    from kwire.clock import Backoff
    from kwire.managers.unsent import Channel


class FetchConnectionId(NamedTuple):
    """Which connection it is: a broker may have a second one, for those of its partitions that are idle."""

    node_id: int
    channel: Channel


class FetchConnection:
    """One connection's fetch session, and the request that is under way."""

    __slots__ = ("_max_bytes", "id", "request", "session")

    def __init__(self, connection_id: FetchConnectionId, backoff: Backoff) -> None:
        self.id = connection_id
        self.session = FetchSession()
        self.request = RequestState(backoff)
        self._max_bytes = 0

    def sent(self, max_bytes: int) -> None:
        """It was asked for this much."""
        self.request.sent()
        self._max_bytes = max_bytes

    @property
    def due_bytes(self) -> int:
        """How much may come in any moment: the buffer's room for it is taken."""
        return self._max_bytes if self.request.in_flight else 0
