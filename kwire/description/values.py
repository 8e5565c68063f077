"""What `Consumer.describe()` consists of: frozen values of plain types. Times are ages, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import overload


@overload
def age_s(since_ms: float, now_ms: float) -> float: ...
@overload
def age_s(since_ms: float | None, now_ms: float) -> float | None: ...
def age_s(since_ms: float | None, now_ms: float) -> float | None:
    """How long ago that was, in seconds; None if it never was."""
    return None if since_ms is None else round(max(0.0, now_ms - since_ms) / 1000.0, 3)


class CauseKind(StrEnum):
    """Why no records come, for programs. The first ones concern the consumer, the others one partition; some, both."""

    NETWORK_THREAD_DEAD = "network_thread_dead"
    NETWORK_THREAD_BUSY = "network_thread_busy"
    """It has not answered in time, so only what the application's side knows is told."""
    CLOSED = "closed"
    ENDED = "ended"
    """A processor has ended with an error."""
    NOT_SUBSCRIBED = "not_subscribed"
    NOT_POLLED = "not_polled"
    CALLBACK_RUNS = "callback_runs"
    """A method of the rebalance listener has not returned."""
    SLOW_HANDLER = "slow_handler"
    REGISTRY_DOWN = "registry_down"
    """A schema registry does not answer, so a record waits that nobody else can read."""
    BROKER_DOWN = "broker_down"
    THROTTLED = "throttled"
    """The broker holds this client back, by a quota."""
    NO_COORDINATOR = "no_coordinator"
    UNKNOWN_TOPIC = "unknown_topic"
    AUTHENTICATION = "authentication"
    AUTHORIZATION = "authorization"
    FENCED = "fenced"
    MEMBERSHIP_LOST = "membership_lost"
    """The group has gone on without this member, which joins again."""
    REFUSED = "refused"
    """The group does not take this member, for another reason."""
    JOINING = "joining"
    """On the way to an assignment; other members may not have done their part."""
    POLL_OVERDUE = "poll_overdue"
    HEARTBEAT_OVERDUE = "heartbeat_overdue"
    LAG = "lag"
    """Longer than the caller of `healthy` allows."""
    NO_PARTITIONS = "no_partitions"
    """A member that the group has given nothing."""

    USER_PAUSED = "user_paused"
    CALLBACK_PENDING = "callback_pending"
    BACKPRESSURE = "backpressure"
    LAG_UNKNOWN = "lag_unknown"
    LOG_TRUNCATED = "log_truncated"
    RANGE_CUT = "range_cut"
    NO_LEADER = "no_leader"
    NO_OFFSET = "no_offset"
    """`auto_offset_reset` is "none", and there is no offset to go on at."""
    LOOKING_UP = "looking_up"
    """Where to begin, or whether the log is still the same, is being asked."""
    FETCH_FAILED = "fetch_failed"
    FETCH_OVERDUE = "fetch_overdue"
    """A broker has waited for records as long as it may, and has not answered yet."""
    NOT_TAKEN = "not_taken"
    """Records are here, and wait for the application."""
    OPEN_TRANSACTION = "open_transaction"
    """What comes next belongs to a transaction that has not ended, or lies behind its beginning."""
    AT_END = "at_end"
    """There is nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One reason why no records come.

    Attributes:
        text: In words.
        error: What went wrong last, in words.
        address: The broker's, if it is about one.
        for_s: How long it has been so, in seconds, if that is known.
        next_try_in_s: When it is tried again; None if that does not depend on time alone.
    """

    kind: CauseKind
    text: str
    error: str | None = None
    address: str | None = None
    for_s: float | None = None
    next_try_in_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """The membership.

    Attributes:
        protocol: "classic" or "consumer".
        state: A state of the protocol's table, as DESIGN.md shows them; "" while nobody can be asked.
        waits_for: What that state waits for.
        generation: Of the consumer protocol the member epoch; None: no member.
        coordinator: Its address; None while it is not known.
        last_heartbeat_s: Since the last one was answered; None: none was.
        rebalancing_s: How long the rebalance under way takes; None: there is none.
    """

    group_id: str
    protocol: str
    state: str = ""
    waits_for: str = ""
    member_id: str = ""
    group_instance_id: str | None = None
    generation: int | None = None
    coordinator: str | None = None
    is_coordinator_connected: bool = False
    last_heartbeat_s: float | None = None
    rebalancing_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition that is assigned.

    Attributes:
        cursor: "main", or "child": then it is a lag that is caught up with.
        state: A state of the partition's table.
        leader: Its address; None while nobody leads it, and `causes` says why.
        position: The next offset that the application is to get, as far as it has come back for more.
        fetch_position: The next offset to be fetched.
        committed: The last commit that this consumer knows of.
        lag: How many offsets the position is behind the end, as of the last fetch; with `isolation_level`
            read_committed, behind the last stable offset.
        high_watermark: Where the log ends, as of the last fetch.
        last_stable_offset: Where the first transaction that is open begins, or else the log ends.
        is_fetch_in_flight: Whether a broker has been asked for more, and has not answered.
        causes: Why nothing comes; empty while records flow.
    """

    topic: str
    partition: int
    cursor: str = "main"
    state: str = ""
    leader: str | None = None
    position: int | None = None
    fetch_position: int | None = None
    committed: int | None = None
    lag: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    is_fetch_in_flight: bool = False
    last_error: str | None = None
    next_try_in_s: float | None = None
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionDescription:
    """What is subscribed or assigned. Of a pattern, `topics` are those that it matches now.

    Attributes:
        is_by_hand: Whether partitions were assigned without a group.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    is_by_hand: bool = False
