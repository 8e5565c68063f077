"""Incremental fetch sessions (KIP-227): after a first full request, only what changed is sent.

One session per broker. Pure bookkeeping: what the broker has in its half of the session, what is to be changed, and
what an answer does to both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.epochs import AssignmentEpoch
from kwire.model import ZERO_UUID
from kwire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from uuid import UUID

    from kwire.model import TopicPartition

NO_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1


class FetchSpec(NamedTuple):
    """What to fetch of one partition.

    The broker is not told `epoch`, the assignment epoch, nor `turn`: partitions with a lower one come first.
    """

    topic_id: UUID
    offset: int
    leader_epoch: int
    epoch: AssignmentEpoch
    max_bytes: int
    turn: int = 0


class Told(NamedTuple):
    """Where the log of a partition begins and ends, as the broker said last. It says so again only when it changes."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


class SessionRequest(NamedTuple):
    """The session's part of one Fetch request. Only partitions in `specs` are written out, in that order: a broker with
    more records than fit answers those that come first (KIP-74)."""

    session_id: int
    session_epoch: int
    specs: dict[TopicPartition, FetchSpec]
    forgotten: dict[TopicPartition, UUID]


class FetchSession:
    """The wanted partitions of one broker, and its session.

    Attributes:
        wanted: What the broker's half of the session is to hold after the next request.
        sent: What the broker's half of the session holds since the last request; its answer is held against this.
        told: What the broker has told of those in `sent`.
        topic_names: The names behind the topic ids that were sent.
    """

    def __init__(self) -> None:
        self._session_id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
        # In order: a set would have another one in each process.
        self._changed: dict[TopicPartition, None] = {}
        self._without_id: set[TopicPartition] = set()
        self.wanted: dict[TopicPartition, FetchSpec] = {}
        self.sent: dict[TopicPartition, FetchSpec] = {}
        self.told: dict[TopicPartition, Told] = {}
        self.topic_names: dict[UUID, str] = {}

    def want(self, tp: TopicPartition, spec: FetchSpec) -> None:
        if self.wanted.get(tp) != spec:
            self.wanted[tp] = spec
            self._changed[tp] = None

    def unwant(self, tp: TopicPartition) -> None:
        if self.wanted.pop(tp, None) is not None:
            self._changed[tp] = None

    def next_request(self) -> SessionRequest:
        """What to send now. The changes count as sent: an answer or a failure must follow."""
        if self._epoch == INITIAL_EPOCH:
            request = SessionRequest(self._session_id, INITIAL_EPOCH, in_turn(self.wanted), {})
            self.sent.clear()
            self.told.clear()
            self._without_id.clear()
        else:
            request = self._incremental()
        self._changed.clear()
        self._count_as_sent(request)
        return request

    def _incremental(self) -> SessionRequest:
        specs = in_turn({tp: self.wanted[tp] for tp in self._changed if tp in self.wanted})
        forgotten = {
            tp: self.sent[tp].topic_id
            for tp in self._changed
            # A recreated topic has a new id: the old one is forgotten, the new one added.
            if tp in self.sent and (tp not in specs or specs[tp].topic_id != self.sent[tp].topic_id)
        }
        return SessionRequest(self._session_id, self._epoch, specs, forgotten)

    def _count_as_sent(self, request: SessionRequest) -> None:
        for tp in request.forgotten:
            del self.sent[tp]
            self.told.pop(tp, None)
            self._without_id.discard(tp)
        for tp, spec in request.specs.items():
            self.sent[tp] = spec
            self.topic_names[spec.topic_id] = tp.topic
            if spec.topic_id == ZERO_UUID:
                self._without_id.add(tp)

    def can_use_ids(self, request: SessionRequest) -> bool:
        """Whether every topic of the session has an id, so that the request can be written in Fetch v13 (KIP-516)."""
        return not self._without_id and ZERO_UUID not in request.forgotten.values()

    def answered(self, code: ErrorCode, session_id: int) -> None:
        """Take the session part of an answer."""
        if code is ErrorCode.NONE and session_id != NO_SESSION_ID:
            self._session_id = session_id
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        elif code in {ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND}:
            # The broker keeps no session for us (its cache is full), or has dropped it: go on with full requests.
            self._session_id = NO_SESSION_ID
            self._epoch = INITIAL_EPOCH
        else:
            self.failed()

    def failed(self) -> None:
        """No answer, or one that makes no sense: nobody knows what the broker has. Close that session, begin anew."""
        self._epoch = INITIAL_EPOCH

    def closing_request(self) -> SessionRequest | None:
        """The request that ends the session, or None when there is none."""
        if self._session_id == NO_SESSION_ID:
            return None
        return SessionRequest(self._session_id, FINAL_EPOCH, {}, {})


def in_turn(specs: dict[TopicPartition, FetchSpec]) -> dict[TopicPartition, FetchSpec]:
    """The same, the lowest turn first. Without a session each request's order decides who is served; in a session the
    broker moves those that it has served to the end itself."""
    return dict(sorted(specs.items(), key=_turn))


def _turn(item: tuple[TopicPartition, FetchSpec]) -> int:
    return item[1].turn
