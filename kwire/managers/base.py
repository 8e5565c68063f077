"""What all request managers share: the interface the loop polls, and the bookkeeping of one kind of request."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from kwire.clock import NEVER_MS, Backoff
from kwire.errors import KafkaError
from kwire.events import BackgroundEvent
from kwire.managers.unsent import PollResult
from kwire.model import TopicPartition

if TYPE_CHECKING:
    from kwire.consumer_events import ConsumerEvent

Deliver: TypeAlias = Callable[[BackgroundEvent], None]
"""Takes an event for the application thread."""

TellOperator: TypeAlias = "Callable[[ConsumerEvent], None]"
"""Takes an event for operators (`on_event=`). Few consumers want any, so their classes are loaded where one is made."""


class AnsweredPartition(Protocol):
    """What an answer says of one partition."""

    partition_index: int


P = TypeVar("P", bound=AnsweredPartition)
P_co = TypeVar("P_co", bound=AnsweredPartition, covariant=True)


class AnsweredTopic(Protocol[P_co]):
    """What an answer says of the partitions of one topic."""

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


def answered(topics: Iterable[AnsweredTopic[P]], asked: Container[TopicPartition]) -> dict[TopicPartition, P]:
    """What an answer says of the partitions it was asked about; what it says of others is of no interest."""
    return {
        tp: partition
        for topic in topics
        for partition in topic.partitions
        if (tp := TopicPartition(topic.name, partition.partition_index)) in asked
    }


class RequestManager(Protocol):
    """A passive part of the network thread: no method blocks, none is called by another thread."""

    def poll(self, now_ms: float) -> PollResult:
        """Requests to send now, and when to call again."""
        ...


class RequestState:
    """One kind of request: at most one in flight, with back-off after failures (Java's RequestState)."""

    __slots__ = ("_backoff", "failures", "in_flight", "not_before_ms")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.in_flight = False
        self.failures = 0
        self.not_before_ms = 0.0

    def ready(self, now_ms: float) -> bool:
        return not self.in_flight and now_ms >= self.not_before_ms

    def sent(self) -> None:
        self.in_flight = True

    def succeeded(self) -> None:
        self.in_flight = False
        self.failures = 0
        self.not_before_ms = 0.0

    def failed(self, now_ms: float) -> None:
        """Try again after a back-off that grows with each failure in a row."""
        self.in_flight = False
        self.failures += 1
        self.not_before_ms = now_ms + self._backoff.delay_ms(self.failures)

    def again(self, now_ms: float) -> None:
        """Repeat the request, though it did not fail: at once the first time in a row, then with the back-off."""
        self.failed(now_ms)
        if self.failures == 1:
            self.not_before_ms = now_ms

    def cancelled(self) -> None:
        """The answer is no longer wanted; the back-off of earlier failures still counts."""
        self.in_flight = False

    def reset(self) -> None:
        """Forget the past: the request is wanted anew."""
        self.succeeded()

    @property
    def wake_at_ms(self) -> float:
        """When `ready` turns true by itself; never while an answer is due."""
        return NEVER_MS if self.in_flight else self.not_before_ms


class LastError:
    """The newest failure of one activity, quoted when somebody times out waiting for it."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def __str__(self) -> str:
        return f" (last error: {self.error})" if self.error is not None else ""
