"""A connection to a broker that fetches: where it goes, its session, what it was asked for and has not answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.clock import NEVER_MS
from kwire.fetching.session import FetchSession
from kwire.managers.base import RequestState

if TYPE_CHECKING:
    from kwire.clock import Backoff
    from kwire.errors import KafkaError
    from kwire.managers.unsent import Channel
    from kwire.model import TopicPartition


MAX_IN_VAIN = 10
"""Empty answers in a row that came at once, though the broker was to wait for data; from then on fetches back off."""

QUICK_SHARE = 0.1  # of the time that the broker was to wait

# An answer that is not there after `request_timeout_ms` never comes: over a slow line the same would be asked for again
# and again. So the first answer is small, and each may be larger than a full one that came in quickly, but not so much
# that it would be late. Over a fast line the fourth is as large as any. What counts is how long it comes in: a broker
# may take seconds before it begins, whatever the size, as with tiered storage.
FIRST_ANSWER_BYTES = 256 * 1024
MIN_ANSWER_BYTES = 16 * 1024
QUICK_PART, SLOW_PART = 6, 3
"""Of `request_timeout_ms`: what took less than a sixth of it was quick, what took more than a third slow."""
GROWTH = 4
SHARE_IF_SLOW, SHARE_IF_FAILED = 2, 8

# What is too large for a quota is answered with nothing, and the broker throttles the connection for ten seconds or
# longer: records of all its partitions wait. So from then on an answer takes about a second of the quota. It stays as
# large as the first one, though: a quota may be one of the broker's time, and small answers take more of that.
LONG_THROTTLE_MS = 1_000.0
STEADY_MS = 60_000.0
"""Answers do not grow for so long after one that was throttled for long."""

MIN_WAIT_MS = 10.0
"""How long a broker may wait for records right after a partition was assigned, sought or resumed."""


class FetchConnectionId(NamedTuple):
    """Which connection it is: a broker may have several, see `Channel`."""

    node_id: int
    channel: Channel


class FetchConnection:
    """One connection's fetch session, and the request that is under way.

    Args:
        timeout_ms: How long an answer may take, beside what the broker waits for records.

    Attributes:
        sought_at_ms: When a partition of it was sought or resumed.
        most_bytes: How large an answer may be, as far as the line to the broker and its quotas are concerned.
        error: Why there was no answer to the newest request, or why the broker has refused it.
        is_refused: The broker has refused the newest request as a whole.
    """

    __slots__ = (
        "_arrival_ms",
        "_grows_from_ms",
        "_in_vain",
        "_max_bytes",
        "_sent_at_ms",
        "_timeout_ms",
        "_wait_ms",
        "error",
        "id",
        "is_refused",
        "most_bytes",
        "request",
        "session",
        "sought_at_ms",
    )

    def __init__(self, connection_id: FetchConnectionId, backoff: Backoff, timeout_ms: float) -> None:
        self.id = connection_id
        self.session = FetchSession()
        self.request = RequestState(backoff)
        self._timeout_ms = timeout_ms
        self._max_bytes = 0
        self._sent_at_ms = 0.0
        self._arrival_ms = 0.0
        self._wait_ms = 0.0
        self._in_vain = 0
        self._grows_from_ms = -NEVER_MS
        self.sought_at_ms = -NEVER_MS
        self.most_bytes = FIRST_ANSWER_BYTES
        self.error: KafkaError | None = None
        self.is_refused = False

    def wait_ms(self, most_ms: float, now_ms: float) -> float:
        """How long the broker may wait for records: at most the time since the last seek, but at least 10 ms. A
        partition that is sought meanwhile may have to wait for the answer, and one seek is often followed by another.
        """
        return min(most_ms, max(MIN_WAIT_MS, now_ms - self.sought_at_ms))

    def sent(self, max_bytes: int, wait_ms: float, now_ms: float) -> None:
        """A fetch was sent that asks for this much; the broker may wait so long for records."""
        self.request.sent()
        self._max_bytes = max_bytes
        self._wait_ms = wait_ms
        self._sent_at_ms = now_ms
        self._arrival_ms = 0.0

    def arrived(self, took_ms: float) -> None:
        """The answer, which comes next, took so long from its first byte to its last."""
        self._arrival_ms = took_ms

    def throttled(self, throttle_ms: float, now_ms: float) -> None:
        """The broker throttles for so long, because of the answer that comes next; 0 as a rule (KIP-219)."""
        if throttle_ms > LONG_THROTTLE_MS:
            self._ask_for_less(throttle_ms / LONG_THROTTLE_MS, FIRST_ANSWER_BYTES)
            self._grows_from_ms = now_ms + STEADY_MS

    def answered(self, size_bytes: int, now_ms: float) -> None:
        """The answer has records of this size, or errors of partitions."""
        self._succeeded()
        self._in_vain = 0
        if self._arrival_ms > self._timeout_ms / SLOW_PART:
            self._ask_for_less(SHARE_IF_SLOW)
        elif self._may_grow(now_ms) and self._is_full(size_bytes):
            self.most_bytes *= GROWTH

    def _may_grow(self, now_ms: float) -> bool:
        """Whether the answer came in quickly, and no quota has held back another one lately, or answers are small."""
        is_held_back = now_ms < self._grows_from_ms and self.most_bytes >= FIRST_ANSWER_BYTES
        return self._arrival_ms < self._timeout_ms / QUICK_PART and not is_held_back

    def _is_full(self, size_bytes: int) -> bool:
        """Whether the answer filled at least half of what was asked for, and the line's bound alone kept that small."""
        return 2 * size_bytes >= self._max_bytes >= self.most_bytes

    def answered_with_nothing(self, now_ms: float) -> None:
        """The answer is empty, which is no failure. But a broker that answers so each time without having waited would
        be asked as fast as it answers: then fetches back off."""
        self._succeeded()
        is_quick = now_ms - self._sent_at_ms < self._wait_ms * QUICK_SHARE
        self._in_vain = self._in_vain + 1 if is_quick else 0
        if self._in_vain > MAX_IN_VAIN:
            self.request.failed(now_ms)

    def _succeeded(self) -> None:
        self.request.succeeded()
        self.error = None
        self.is_refused = False

    def refused(self, error: KafkaError | None, now_ms: float) -> None:
        """The answer is an error about the fetch as a whole; None: one that the next fetch is to cure."""
        self.request.failed(now_ms)
        self.error = error
        self.is_refused = True

    def failed(self, error: KafkaError, now_ms: float) -> None:
        """The fetch got no answer. If it is the second in a row, something on the way may cut off what is large."""
        is_late = now_ms - self._sent_at_ms - self._wait_ms > self._timeout_ms / SLOW_PART
        if is_late or self.error is not None:
            self._ask_for_less(SHARE_IF_FAILED)
        self.request.failed(now_ms)
        self.error = error
        self.is_refused = False

    def _ask_for_less(self, share: float, least_bytes: int = MIN_ANSWER_BYTES) -> None:
        now_bytes = min(self.most_bytes, self._max_bytes)
        self.most_bytes = max(min(least_bytes, now_bytes), int(now_bytes / share))

    def is_asked_for(self, tp: TopicPartition) -> bool:
        """Whether the broker may answer with records of this partition."""
        return self.request.in_flight and tp in self.session.sent and tp in self.session.wanted

    @property
    def due_ms(self) -> float:
        """When the newest request has to be answered: the broker has waited for records as long as it may."""
        return self._sent_at_ms + self._wait_ms

    @property
    def due_bytes(self) -> int:
        """How many bytes the open request may bring: room for them is reserved in the buffer."""
        return self._max_bytes if self.request.in_flight else 0
