"""A connection to a broker that fetches: where it goes, its session, what it was asked for and has not answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.fetching.session import FetchSession
from kwire.managers.base import RequestState

if TYPE_CHECKING:
    from kwire.clock import Backoff
    from kwire.errors import KafkaError
    from kwire.managers.unsent import Channel
    from kwire.model import TopicPartition


MOST_IN_VAIN = 10
"""Empty answers in a row that came at once, though the broker was to wait for data; from then on fetches back off."""

QUICK_SHARE = 0.1  # of the time that the broker was to wait


class FetchConnectionId(NamedTuple):
    """Which connection it is: a broker may have a second one, for those of its partitions that are idle."""

    node_id: int
    channel: Channel


class FetchConnection:
    """One connection's fetch session, and the request that is under way."""

    __slots__ = ("_in_vain", "_max_bytes", "_sent_at_ms", "error", "id", "request", "session")

    def __init__(self, connection_id: FetchConnectionId, backoff: Backoff) -> None:
        self.id = connection_id
        self.session = FetchSession()
        self.request = RequestState(backoff)
        self._max_bytes = 0
        self._sent_at_ms = 0.0
        self._in_vain = 0
        self.error: KafkaError | None = None
        """Why there was no answer to the newest request."""

    def sent(self, max_bytes: int, now_ms: float) -> None:
        """It was asked for this much."""
        self.request.sent()
        self._max_bytes = max_bytes
        self._sent_at_ms = now_ms

    def answered(self) -> None:
        """With something."""
        self.request.succeeded()
        self.error = None
        self._in_vain = 0

    def answered_with_nothing(self, wait_ms: float, now_ms: float) -> None:
        """With nothing, for which it was to wait `wait_ms`: no failure. But a broker that does so at once, each time,
        would be asked as fast as it answers."""
        self.request.succeeded()
        self.error = None
        is_quick = now_ms - self._sent_at_ms < wait_ms * QUICK_SHARE
        self._in_vain = self._in_vain + 1 if is_quick else 0
        if self._in_vain > MOST_IN_VAIN:
            self.request.failed(now_ms)

    def failed(self, error: KafkaError, now_ms: float) -> None:
        """There is no answer."""
        self.request.failed(now_ms)
        self.error = error

    def is_asked_for(self, tp: TopicPartition) -> bool:
        """Whether the broker may answer with records of this partition."""
        return self.request.in_flight and tp in self.session.sent and tp in self.session.wanted

    @property
    def due_bytes(self) -> int:
        """How much may come in any moment: the buffer's room for it is taken."""
        return self._max_bytes if self.request.in_flight else 0
