"""The ledger: the events of a run in order, as plain values with a canonical encoding. As long as the list of events.

Times are milliseconds since the run began. A *member* is one incarnation of a consumer: after a restart it has a new
name. Partitions are `TopicPartition`s; a record's value is text that no other record has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TypeAlias, TypeVar

from kwire.model import TopicPartition
from kwire.testing.invariants.handling_events import (
    AskedForCommits,
    HandlingBegan,
    HandlingEnded,
    Lined,
    MapArrived,
    ProcessorEnded,
    ProcessorStarted,
    StatusSeen,
    StoredMap,
)
from kwire.testing.invariants.user_events import GivenUp, UserCodeRaised


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record is in the log, and its producer knows it."""

    at_ms: float
    partition: TopicPartition
    offset: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Offsets in the log that no poll will return: transaction markers and aborted records."""

    at_ms: float
    partition: TopicPartition
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Records below `before` are gone by retention or DeleteRecords; those that went unread are no loss."""

    at_ms: float
    partition: TopicPartition
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """Records at and above `to` are gone with an unclean election, and their offsets will be given out again."""

    at_ms: float
    partition: TopicPartition
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanished:
    """Records that were in the log and are not any more, with others before and behind them: compacted away, or lost by
    the brokers. Nobody has to have read them."""

    at_ms: float
    partition: TopicPartition
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A member has started.

    Args:
        session_timeout_ms: after so much silence the group gives a member's partitions to others.
        knows_session: whether the member gives up its partitions by itself when that time is over. Java's client does
            not: out of touch with its coordinator, it goes on until it hears that it is no member any more.
        tells_processing: whether there will be a `Processed` for what it polls; if not, what was polled was processed.
        commits_on_revoke: whether all that it was handed is committed before partitions are revoked and at its end.
        commits_by_itself: whether it commits every now and then as well.
        catches_up_from: a lag of this many records is caught up with beside the newest ones
            (`enable_parallel_rebalance`); 0 for a member with one cursor.
    """

    at_ms: float
    member: str
    session_timeout_ms: float
    knows_session: bool = True
    tells_processing: bool = False
    commits_on_revoke: bool = False
    commits_by_itself: bool = False
    catches_up_from: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedAnew:
    """A member joins without a membership: for the first time, or after it was expelled."""

    at_ms: float
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    at_ms: float
    member: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    at_ms: float
    member: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Partitions were lost: taken away without a chance to commit."""

    at_ms: float
    member: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """Records of one partition that one poll returned: their offsets and values, in the order they came in.

    Args:
        cursor: "main" or "child", of a member that catches up.
    """

    at_ms: float
    member: str
    partition: TopicPartition
    offsets: tuple[int, ...]
    values: tuple[str, ...]
    cursor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """The application has processed all records that its polls have returned, which may be committed now."""

    at_ms: float
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A member's next poll of a partition is to begin here, or at the start of the log, if that is later."""

    at_ms: float
    member: str
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """No poll returns records of it until `Resumed`, or another assignment."""

    at_ms: float
    member: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    at_ms: float
    member: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A member was told that its commit is done.

    Args:
        cursor: "main" or "child", of a member that catches up: what that cursor has given is done up to the offset.
    """

    at_ms: float
    member: str
    partition: TopicPartition
    offset: int
    cursor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowWater:
    """`committed()` told a member that catches up where the group's own offset of a partition is."""

    at_ms: float
    member: str
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitArrived:
    """A member's commit of one partition reached a broker, whatever that made of it."""

    at_ms: float
    member: str
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTaken:
    """The group has a commit of one partition from now on."""

    at_ms: float
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the group has committed of a partition: written before its `Assigned`, and when all is calm.

    Args:
        offset: None for nothing.
        end: the offset behind the last record that may be read.
    """

    at_ms: float
    partition: TopicPartition
    offset: int | None
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """A call of a member raised."""

    at_ms: float
    member: str
    call: str
    error: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A network side ended by an exception: always a bug."""

    at_ms: float
    member: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """`close` has returned."""

    at_ms: float
    member: str
    took_ms: float
    timeout_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A member's process ended without a word."""

    at_ms: float
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    at_ms: float
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thawed:
    at_ms: float
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBegan:
    at_ms: float
    fault: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEnded:
    at_ms: float
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """All faults are healed, and nothing is sent any more: from here on every partition has to be drained."""

    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """Every partition is drained, and what the faults have left behind is over. Some records are still sent."""

    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The calm is over, though nothing goes wrong: somebody joins, and in the end all close."""

    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The run is over. Every partition that was to be drained has had the time for it."""

    at_ms: float


Event: TypeAlias = (
    Sent
    | Hidden
    | Removed
    | Truncated
    | Vanished
    | Started
    | JoinedAnew
    | Assigned
    | Revoked
    | Lost
    | Polled
    | Processed
    | Sought
    | Paused
    | Resumed
    | Committed
    | LowWater
    | CommitArrived
    | CommitTaken
    | Stored
    | Raised
    | Died
    | Closed
    | Killed
    | Frozen
    | Thawed
    | FaultBegan
    | FaultEnded
    | Quiet
    | Calm
    | Closing
    | Ended
    | ProcessorStarted
    | ProcessorEnded
    | AskedForCommits
    | StoredMap
    | MapArrived
    | Lined
    | HandlingBegan
    | HandlingEnded
    | StatusSeen
    | UserCodeRaised
    | GivenUp
)
E = TypeVar("E", bound=Event)

OF_TWO_CURSORS = frozenset(("cursor", "catches_up_from"))
"""Fields that lines have only where members have two cursors: histories of others are as they always were."""


@dataclass(slots=True)
class Ledger:
    """Events in the order in which they happened."""

    events: list[Event] = field(default_factory=list)

    def write(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of one kind, in order."""
        return (event for event in self.events if isinstance(event, kind))

    @property
    def is_whole(self) -> bool:
        """Whether the ledger goes to the end of the run. If not, unread records may still be polled."""
        return next(self.of(Ended), None) is not None

    def lines(self) -> Iterator[str]:
        """Each event as a line of JSON: the same events make the same bytes in every process."""
        for event in self.events:
            found = ((each.name, getattr(event, each.name)) for each in fields(event))
            values = {name: _plain(value) for name, value in found if value or name not in OF_TWO_CURSORS}
            yield json.dumps({"event": type(event).__name__, **values}, ensure_ascii=True, separators=(",", ":"))

    def digest(self) -> str:
        """SHA-256 over the lines."""
        sha = hashlib.sha256()
        for line in self.lines():
            sha.update(line.encode() + b"\n")
        return sha.hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value
