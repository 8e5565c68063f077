"""The events that `on_event=` is called with: what an operator wants to be told at once.

Texts are for people. Programs look at the class, and at the other fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kwire.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerEvent:
    """The base class of all events.

    Attributes:
        at_ms: When it was noticed, in ms since 1970.
        client_id: Which consumer it is about.
        group_id: Its group, if it has one.
    """

    at_ms: int = 0
    client_id: str = ""
    group_id: str | None = None


OnEvent: TypeAlias = Callable[[ConsumerEvent], object]


class EventSink(Protocol):
    """Where events go to. Called by the network thread, which it never keeps waiting."""

    def tell(self, event: ConsumerEvent) -> None:
        """Pass the event on. Returns at once: somebody else handles it."""
        ...

    def end(self) -> None:
        """There will be no more events."""
        ...


# --- the group ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatsUnanswered(ConsumerEvent):
    """No heartbeat was answered for half of the session, and once more when the session may be over.

    Attributes:
        unanswered_ms: The time since the last heartbeat that was answered.
        session_timeout_ms: After this time without a heartbeat the group goes on without this member. With the consumer
            protocol it is Kafka's default, since brokers do not tell theirs.
        may_be_over: Whether the session may be over: then others may be reading the same partitions, and commits fail.
    """

    unanswered_ms: float
    session_timeout_ms: float
    may_be_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatsAnswered(ConsumerEvent):
    """Heartbeats are answered again, or the group has said that it has gone on without this member."""

    unanswered_ms: float
    is_member: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceBegan(ConsumerEvent):
    """This member is on its way to a new assignment."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEnded(ConsumerEvent):
    """This member has a new assignment, or its rebalance has ended without one.

    Attributes:
        reason: As when the rebalance began.
        duration_ms: What `rebalance-latency-*` of the metrics counts.
        succeeded: False if the membership, or the subscription, ended first.
        generation: The group's generation, or the member epoch (KIP-848); None if this is no member.
    """

    reason: str
    duration_ms: float
    succeeded: bool
    generation: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollOverdueSoon(ConsumerEvent):
    """The application has not polled for four fifths of `max_poll_interval_ms`, and is still a member."""

    since_poll_ms: float
    max_poll_interval_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PollOverdue(ConsumerEvent):
    """The application has not polled for `max_poll_interval_ms`: the member leaves, its partitions go to others."""

    since_poll_ms: float
    max_poll_interval_ms: float


# --- partitions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReset(ConsumerEvent):
    """`auto_offset_reset` has set the position of a partition, also when a new group starts for the first time.

    Attributes:
        from_offset: The position before, which the application had come to; None if the group had committed nothing.
        to_offset: The position now.
        reason: Why the position had to be reset.
    """

    partition: TopicPartition
    from_offset: int | None
    to_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLost(ConsumerEvent):
    """Records that the application has not read are gone. Or a log was truncated: then others may stand in the place of
    records that it has read.

    Attributes:
        from_offset: The first lost offset; None if that cannot be told, which a truncated log may cause.
        to_offset: The offset behind the last lost one.
        reason: What became of them: the log was truncated, the topic was deleted and created again, or they were
            deleted before they were read, or skipped by `auto_offset_reset` together with deleted ones.
    """

    partition: TopicPartition
    from_offset: int | None
    to_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LagExceeded(ConsumerEvent):
    """A partition is further behind the end of its log than `event_lag_records`."""

    partition: TopicPartition
    lag: int
    bound: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRecovered(ConsumerEvent):
    """A partition of which `LagExceeded` was told is at most half of the bound behind."""

    partition: TopicPartition
    lag: int
    bound: int


# --- brokers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnreachable(ConsumerEvent):
    """An attempt to connect to a broker has failed, the first in a row.

    Attributes:
        broker: `host:port`.
        error: Why.
    """

    broker: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReachable(ConsumerEvent):
    """A broker of which `BrokerUnreachable` was told can be used again."""

    broker: str
    outage_ms: float
    attempts: int
