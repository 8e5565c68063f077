"""Fetch sessions (KIP-227): what a broker remembers of a reader, so that both send only what has changed.

One `FetchSessionCache` for each broker; it dies with the broker's process. Contract: pure. A request becomes a
`FetchContext`: the partitions to read, and which results belong in the answer. Called by the Fetch handler.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from kwire.testing.cluster.settings import BrokerSettings

NO_SESSION = 0
OPEN, CLOSE = 0, -1
"""Session epochs with a special meaning."""

LAST_EPOCH = 0x7FFFFFFF
TOPIC_IDS_FROM = 13
"""From this version of Fetch on topics are named by id alone (KIP-516)."""

NOT_TOLD = -1


class FetchedPartition(NamedTuple):
    """A partition as a Fetch request names it: by name up to version 12, by id from 13 on."""

    name: str
    topic_id: UUID
    partition: int


@dataclass(slots=True)
class Remembered:
    """A partition of a session: the position to read from, and the offsets that the last answer named."""

    wanted: FetchPartition
    high_watermark: int = NOT_TOLD
    log_start_offset: int = NOT_TOLD

    def has_news(self, found: PartitionData) -> bool:
        """Whether the answer has to contain this result; if so, it is noted as sent."""
        news = bool(found.records) or found.error_code != ErrorCode.NONE or found.preferred_read_replica >= 0
        news = news or found.diverging_epoch.epoch >= 0
        news = news or (found.high_watermark, found.log_start_offset) != (self.high_watermark, self.log_start_offset)
        self.high_watermark, self.log_start_offset = found.high_watermark, found.log_start_offset
        if found.error_code != ErrorCode.NONE:
            self.high_watermark = NOT_TOLD  # so that the end of the error is sent, too
        return news


@dataclass(slots=True)
class BrokerFetchSession:
    """One reader's session."""

    session_id: int
    uses_topic_ids: bool
    used_ms: float
    epoch: int = 1
    partitions: dict[FetchedPartition, Remembered] = field(default_factory=dict)

    def update(self, request: FetchRequest) -> None:
        """Apply what the request adds, changes and forgets."""
        for place, wanted in places_of(request):
            known = self.partitions.get(place)
            if known is None:
                self.partitions[place] = Remembered(wanted)
            else:
                known.wanted = wanted
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self.partitions.pop(FetchedPartition(topic.topic, topic.topic_id, index), None)


@dataclass(frozen=True, slots=True)
class FetchContext:
    """The context of one Fetch request.

    Attributes:
        error: An error of the session; nothing is read then.
        session_id: The session id in the answer; 0 without a session.
        partitions: The partitions to read.
        session: The session, if there is one.
        tells_all: Whether the answer names every partition, not only those with news.
    """

    error: ErrorCode
    session_id: int
    partitions: dict[FetchedPartition, FetchPartition]
    session: BrokerFetchSession | None = None
    tells_all: bool = True

    def told(
        self, found: Iterable[tuple[FetchedPartition, PartitionData]]
    ) -> list[tuple[FetchedPartition, PartitionData]]:
        """The results that belong in the answer. Partitions with records move to the end of the session's order, so
        that each becomes the first one in turn: its first batch is returned whole, whatever the limits are."""
        if self.session is None:
            return list(found)
        remembered = self.session.partitions
        answer = []
        for place, data in found:
            known = remembered.get(place)
            if known is not None and (known.has_news(data) or self.tells_all):
                answer.append((place, data))
                if data.records and not self.tells_all:
                    remembered[place] = remembered.pop(place)
        return answer


class FetchSessionCache:
    """All sessions of one broker.

    Args:
        settings: How many sessions there may be, and after how long without requests others take their place.
        random: The generator of session ids.
    """

    def __init__(self, settings: BrokerSettings, random: Random) -> None:
        self._slots = settings.max_incremental_fetch_session_cache_slots
        self._eviction_ms = settings.min_incremental_fetch_session_eviction_ms
        self._random = random
        self._sessions: dict[int, BrokerFetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def ids(self) -> frozenset[int]:
        """The ids of all sessions."""
        return frozenset(self._sessions)

    def context(self, request: FetchRequest, version: int, now_ms: float) -> FetchContext:
        """The context of this request; opens, updates or closes its session."""
        if request.session_epoch in (OPEN, CLOSE):
            self._sessions.pop(request.session_id, None)
            if request.session_epoch == CLOSE:
                return FetchContext(ErrorCode.NONE, NO_SESSION, dict(places_of(request)))
            return self._open(request, version, now_ms)
        session = self._sessions.get(request.session_id)
        error = _slip(session, request, version)
        if session is None or error is not ErrorCode.NONE:
            return FetchContext(error, NO_SESSION, {})
        return self._go_on(session, request, now_ms)

    def _open(self, request: FetchRequest, version: int, now_ms: float) -> FetchContext:
        wanted = dict(places_of(request))
        if not wanted or not self._has_room(now_ms):
            return FetchContext(ErrorCode.NONE, NO_SESSION, wanted)
        session = BrokerFetchSession(self._new_id(), version >= TOPIC_IDS_FROM, now_ms)
        session.update(request)
        self._sessions[session.session_id] = session
        return FetchContext(ErrorCode.NONE, session.session_id, wanted, session)

    def _go_on(self, session: BrokerFetchSession, request: FetchRequest, now_ms: float) -> FetchContext:
        session.update(request)
        session.used_ms = now_ms
        if not session.partitions:
            del self._sessions[session.session_id]
            return FetchContext(ErrorCode.NONE, NO_SESSION, {})
        session.epoch = 1 if session.epoch == LAST_EPOCH else session.epoch + 1
        wanted = {place: one.wanted for place, one in session.partitions.items()}
        return FetchContext(ErrorCode.NONE, session.session_id, wanted, session, tells_all=False)

    def _has_room(self, now_ms: float) -> bool:
        """Whether one more session may be opened; the one without requests for the longest time may be evicted for
        it."""
        if len(self._sessions) < self._slots:
            return True
        oldest = min(self._sessions.values(), key=lambda one: one.used_ms, default=None)
        if oldest is None or now_ms - oldest.used_ms <= self._eviction_ms:
            return False
        del self._sessions[oldest.session_id]
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, LAST_EPOCH)
            if session_id not in self._sessions:
                return session_id


def places_of(request: FetchRequest) -> Iterator[tuple[FetchedPartition, FetchPartition]]:
    """The partitions that a request names."""
    for topic in request.topics:
        for wanted in topic.partitions:
            yield FetchedPartition(topic.topic, topic.topic_id, wanted.partition), wanted


def _slip(session: BrokerFetchSession | None, request: FetchRequest, version: int) -> ErrorCode:
    if session is None:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.uses_topic_ids != (version >= TOPIC_IDS_FROM):
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    if session.epoch != request.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    return ErrorCode.NONE
