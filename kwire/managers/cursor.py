"""The managers of one cursor: what a consumer has once for each position that it reads a partition from.

A consumer has the main cursor. With parallel rebalance it has others beside it, which catch up with lags: each has a
subscription of its own, positions that are validated like any other (KIP-320), fetch sessions over connections of its
own, and a buffer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from kwire.clock import Backoff
from kwire.config import ConsumerConfig
from kwire.errors import KafkaError
from kwire.events import Delivered
from kwire.fetching.buffer import FetchBuffer
from kwire.managers.base import Deliver, RequestManager, TellOperator
from kwire.managers.fetch import FetchManager, OutOfRange
from kwire.managers.metadata import MetadataManager
from kwire.managers.offset_validation import OffsetValidationManager
from kwire.managers.reset_events import ResetEvents
from kwire.managers.unsent import AnyUnsentRequest
from kwire.metrics.consumed import ConsumedMetrics
from kwire.model import Cursor, TopicPartition
from kwire.subscription.subscription import Subscription


class Positions(OutOfRange, RequestManager, Protocol):
    """Decides at which offset a cursor starts, and where it goes on when its position is out of range."""

    @property
    def awaits_poll(self) -> bool:
        """Whether the network thread has to hear of the next poll."""
        ...

    def on_poll(self) -> None:
        """The application polls."""
        ...

    def problem(self, tp: TopicPartition) -> KafkaError | None:
        """What keeps a partition from a position, if only the user can do something about it."""
        ...

    def waits_for(self, tp: TopicPartition) -> str | None:
        """What a partition without a position waits for."""
        ...


class CursorContext(NamedTuple):
    """What all cursors of a consumer have in common."""

    config: ConsumerConfig
    metadata: MetadataManager
    deliver: Deliver
    on_data: Callable[[], None]
    backoff: Backoff
    metrics: ConsumedMetrics
    tell_operator: TellOperator | None = None


P_co = TypeVar("P_co", bound=Positions, covariant=True)


class CursorManagers(Generic[P_co]):
    """Validation, positions and fetches of one cursor.

    Args:
        positions_of: makes what decides about positions, given these managers; called before there is `fetch`.
    """

    def __init__(
        self,
        cursor: Cursor,
        context: CursorContext,
        subscription: Subscription,
        buffer: FetchBuffer,
        positions_of: Callable[[CursorManagers[P_co]], P_co],
    ) -> None:
        config, metadata, deliver, on_data, backoff, metrics, tell_operator = context
        self.cursor = cursor
        self.subscription = subscription
        self.buffer = buffer
        self.reset_events = ResetEvents(tell_operator)
        self.validation = OffsetValidationManager(config, subscription, metadata, deliver, backoff, self.reset_events)
        self.positions: P_co = positions_of(self)
        self.fetch = FetchManager(
            config, subscription, metadata, self.positions, buffer, deliver, on_data, backoff, metrics, cursor
        )

    @property
    def awaits_poll(self) -> bool:
        """Whether the network thread has to hear of the next poll."""
        return self.validation.awaits_poll or self.positions.awaits_poll or self.reset_events.awaits_poll

    def on_poll(self) -> None:
        """The application polls."""
        self.reset_events.settle()
        self.validation.on_poll()
        self.positions.on_poll()

    def note_delivered(self, delivered: Collection[Delivered], *, is_seek: bool, came_back: bool) -> None:
        """The application has been given records up to these offsets, or has sought to them. `came_back`: it polls
        again, so it has been given no others."""
        self.subscription.note_delivered(delivered, is_seek=is_seek)
        self.reset_events.note_delivered(delivered)
        if came_back:
            self.reset_events.settle()
            self.validation.settle()

    @property
    def in_order(self) -> tuple[RequestManager, ...]:
        """The managers in the order of polling: positions after their validation, which may find one void, and fetches
        after both."""
        return (self.validation, self.positions, self.fetch)

    def poll_on_close(self) -> list[AnyUnsentRequest]:
        """Requests that end the fetch sessions."""
        return self.fetch.poll_on_close()


AnyCursor: TypeAlias = CursorManagers[Positions]
