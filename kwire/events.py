"""What the two threads say to each other: values, plus the `Reply` a command is answered through.

Application events travel from the application thread to the network thread, background events the other way. The
`AssignmentView` is not sent but published: the newest one replaces the last. Events are named tuples: as thirty frozen
dataclasses they made `import kwire` take an eighth longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from re import Pattern
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from kwire.epochs import NOT_SUBSCRIBED, AssignmentEpoch, Attempt, SubscriptionEpoch
from kwire.errors import KafkaError
from kwire.holds import Hold
from kwire.model import (
    CatchUpProgress,
    ConsumerGroupMetadata,
    Cursor,
    LogEnds,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    SubscriptionPattern,
    TopicPartition,
)
from kwire.offset_set import OffsetSet

if TYPE_CHECKING:
    from kwire.description.consumer_description import ConsumerDescription  # loaded when somebody asks

T = TypeVar("T")
W = TypeVar("W")

CommitCallback: TypeAlias = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], object]


class Reply(Generic[T]):
    """The answer slot of one command: filled once, by the network thread; read by the one who waits for it.

    Needs no lock: the value is stored before `done` turns true, and only one thread writes. `waiting_for` says at any
    moment what the answer still depends on; a timeout quotes it. A caller that gives up calls `abandon()`, and the
    network thread then drops what was not sent yet.
    """

    __slots__ = ("_error", "_on_done", "_value", "abandoned", "done", "waiting_for")

    def __init__(self, waiting_for: str = "the network thread", on_done: Callable[[], None] | None = None) -> None:
        self.waiting_for = waiting_for
        self.abandoned = False
        self.done = False
        self._on_done = on_done
        self._value: T | None = None
        self._error: KafkaError | None = None

    def succeed(self, value: T) -> None:
        if not self.done:
            self._value = value
            self._finish()

    def fail(self, error: KafkaError) -> None:
        if not self.done:
            self._error = error
            self._finish()

    def _finish(self) -> None:
        self.done = True
        if self._on_done is not None:
            self._on_done()

    def abandon(self) -> None:
        self.abandoned = True

    def result(self) -> T:
        """The value, or the error raised. Only after `done`."""
        if self._error is not None:
            raise self._error.with_traceback(None)  # it may be the answer of many calls
        return self._value  # type: ignore[return-value]  # a finished reply without error holds a T


class ReplyPart(Reply[T]):
    """The reply to a question that has to be answered before another reply, the whole, can be.

    What the part waits for is what the whole waits for. A part is abandoned when its whole is.

    Args:
        on_done: called when the part is done. It is for the caller to fill the whole.
    """

    __slots__ = ("_is_given_up", "_whole")

    def __init__(self, whole: Reply[W], on_done: Callable[[], None]) -> None:
        self._whole: Reply[W] = whole
        self._is_given_up = False
        super().__init__(whole.waiting_for, on_done)

    @property
    def waiting_for(self) -> str:
        return self._whole.waiting_for

    @waiting_for.setter
    def waiting_for(self, what: str) -> None:
        self._whole.waiting_for = what

    @property
    def abandoned(self) -> bool:
        return self._is_given_up or self._whole.abandoned or self._whole.done

    @abandoned.setter
    def abandoned(self, is_given_up: bool) -> None:
        self._is_given_up = is_given_up

    def fails_whole(self) -> bool:
        """Whether this part has failed. If so, the whole fails as well. Only after `done`."""
        if self._error is not None:
            self._whole.fail(self._error)
        return self._error is not None


# --- application thread -> network thread --------------------------------------------------------------------

Delivered: TypeAlias = tuple[TopicPartition, int, OffsetAndMetadata]
"""A partition, the assignment epoch its records carried, and the offset after the last one handed out."""


class RecordsDelivered(NamedTuple):
    """How far the application got in what polls returned. The next poll notes it before it collects anything, so
    commits can rely on it; a commit notes what it is about.

    `is_seek`: these were sought, within what is buffered. A seek may go back; nothing else does.
    `came_back`: whether this is all that was returned. Else the application is still at the rest, as a commit in the
    middle of a `for` loop.
    """

    delivered: Sequence[Delivered]
    is_seek: bool = False
    came_back: bool = True


class PollStarted(NamedTuple):
    """The application polls: what waits for that may begin, such as joining, or looking up positions."""


class BufferDrained(NamedTuple):
    """There is room for fetches again."""


class Subscribe(NamedTuple):
    reply: Reply[None]
    topics: frozenset[str] = frozenset()
    pattern: Pattern[str] | SubscriptionPattern | None = None


class Assign(NamedTuple):
    """Replace the assignment by hand. The positions of new partitions are looked up from the next poll on."""

    partitions: frozenset[TopicPartition]
    reply: Reply[None]


class AssignRanges(NamedTuple):
    """Replace the assignment, by ranges of offsets (start, end) that are read to their ends and no further."""

    ranges: Mapping[TopicPartition, tuple[int, int]]
    reply: Reply[None]


class Unsubscribe(NamedTuple):
    """Leave the group if there is one; callbacks have been run."""

    reply: Reply[None]


class Seek(NamedTuple):
    """`epoch`: only if this is still the assignment epoch of one of the cursors, which then is the one to be moved."""

    partition: TopicPartition
    position: OffsetAndMetadata
    reply: Reply[None]
    epoch: AssignmentEpoch | None = None


class ResetTo(Enum):
    """Where a partition without a usable position goes."""

    EARLIEST = auto()
    LATEST = auto()


class ResetPositions(NamedTuple):
    """`seek_to_beginning` and `seek_to_end`. The offsets are looked up from the next poll on."""

    partitions: frozenset[TopicPartition]
    to: ResetTo
    reply: Reply[None]


class SetHold(NamedTuple):
    """Hold these partitions for this reason, or no longer.

    Attributes:
        cursor: The one that is meant; None for all.
    """

    partitions: frozenset[TopicPartition]
    hold: Hold
    is_held: bool
    reply: Reply[None]
    cursor: Cursor | None = None


class Redeliver(NamedTuple):
    """Return the records from `position` to `stop` once more: a child returned them, and the application did not
    process them."""

    partition: TopicPartition
    position: OffsetAndMetadata
    stop: int
    reply: Reply[None]


class GetPosition(NamedTuple):
    partition: TopicPartition
    reply: Reply[int]


class GetLag(NamedTuple):
    """`position` follows the records handed out since the last `RecordsDelivered`, of which the network thread does not
    know yet; None if there are none."""

    partition: TopicPartition
    position: int | None
    reply: Reply[int | None]


class GetLogEnds(NamedTuple):
    partition: TopicPartition
    reply: Reply[LogEnds | None]


class GetLeaders(NamedTuple):
    """The leader of each partition, or None if it is not known: for an error that says whose records do not come."""

    partitions: frozenset[TopicPartition]
    reply: Reply[dict[TopicPartition, Node | None]]


class Unfinished(NamedTuple):
    """Offsets that a child has returned, from the first record on that is not finished.

    Attributes:
        leader_epoch: The leader epoch of the record in front of `part`, if it is known.
    """

    part: range
    leader_epoch: int | None = None


class ProcessedOffsets(NamedTuple):
    """What a `Processor` commits of one partition that several cursors read: what its handlers have finished.

    The cursors' records finish in any order, so one offset cannot say what is finished. All that the children have
    returned is finished, but for `unfinished`. The metadata says what is finished behind that.

    Attributes:
        head: What the main cursor has returned is finished up to here; None: it has returned nothing.
        unfinished: What the children have returned and is not finished.
        metadata: The metadata of the commit.
        metadata_end_offset: The metadata is about offsets below this one. None: it is the user's, and goes with every
            commit.
    """

    head: OffsetAndMetadata | None
    unfinished: tuple[Unfinished, ...] = ()
    metadata: str = ""
    metadata_end_offset: int | None = None

    def metadata_at(self, offset: int) -> str:
        """The metadata of a commit of `offset`: empty if it is about offsets that this commit itself covers."""
        return "" if self.metadata_end_offset is not None and self.metadata_end_offset <= offset else self.metadata

    @property
    def kept(self) -> OffsetSet:
        """The offsets that no commit may cover."""
        return OffsetSet(each.part for each in self.unfinished)


class Commit(NamedTuple):
    """Commit `offsets`, or all delivered positions when it is None; retried until the caller gives up.

    `is_last`: the partitions are being given up, perhaps because their topic was deleted. So the commit does not wait
    until metadata says whether it was.
    `processed`: instead of offsets, with parallel rebalance.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata] | None
    reply: Reply[None]
    is_last: bool = False
    processed: Mapping[TopicPartition, ProcessedOffsets] | None = None


class CommitAsync(NamedTuple):
    """Commit once, without retries; the outcome is delivered as `CommitCompleted`."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata] | None
    callback: CommitCallback | None
    processed: Mapping[TopicPartition, ProcessedOffsets] | None = None


class GetCommitted(NamedTuple):
    partitions: frozenset[TopicPartition]
    reply: Reply[dict[TopicPartition, OffsetAndMetadata | None]]


class GetCatchUp(NamedTuple):
    """How far each partition that has a lag has caught up.

    `handed_out` is what was handed out since the last `RecordsDelivered`: the network thread does not know of it yet.
    """

    handed_out: Sequence[Delivered]
    reply: Reply[dict[TopicPartition, CatchUpProgress]]


class GetClientInstanceId(NamedTuple):
    """The id that brokers know this client's metrics by (KIP-714)."""

    reply: Reply[UUID]


# ListOffsets takes these in the place of a time: the end of the log, and its beginning.
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


class LookUpOffsets(NamedTuple):
    """ListOffsets by timestamp in ms, or one of the two above for the end and the beginning."""

    timestamps: Mapping[TopicPartition, int]
    reply: Reply[dict[TopicPartition, OffsetAndTimestamp | None]]


class FoundTopics(dict[str, list[PartitionInfo]]):
    """Topics by name, and what the broker said of its cluster. A `controller_id` of -1 is not known."""

    def __init__(
        self,
        topics: Mapping[str, list[PartitionInfo]],
        *,
        nodes: Iterable[Node] = (),
        cluster_id: str | None = None,
        controller_id: int = -1,
    ) -> None:
        super().__init__(topics)
        self.nodes = tuple(nodes)
        self.cluster_id = cluster_id
        self.controller_id = controller_id


class LookUpTopics(NamedTuple):
    """Metadata of some topics, or of all of them. Topics that do not exist are absent from the answer."""

    topics: frozenset[str] | None
    reply: Reply[FoundTopics]


class CallbackCompleted(NamedTuple):
    """The application thread has finished what a `RunCallback` asked for, with or without an exception."""

    attempt: Attempt


class PartitionsReleased(NamedTuple):
    """The callback has run for these partitions of a `RunCallback`, and will run for the others later: a commit of all
    that was returned must not cover these any more."""

    partitions: frozenset[TopicPartition]


class EnforceRebalance(NamedTuple):
    reason: str


class Close(NamedTuple):
    """Leave the group, close fetch sessions, stop; at most until `deadline_ms`.

    `leave_group` (KIP-1092): True leaves, False stays, and None leaves unless the member is static.
    """

    deadline_ms: float
    leave_group: bool | None


class Describe(NamedTuple):
    """The state of everything that the network thread owns; the application's side adds what it knows."""

    reply: Reply[ConsumerDescription]


class EndOfTurn(NamedTuple):
    """Answered when the turn is over: all that was posted before has been looked at, and sent if it could be."""

    reply: Reply[None]


ApplicationEvent: TypeAlias = (
    RecordsDelivered
    | PollStarted
    | BufferDrained
    | Subscribe
    | Assign
    | AssignRanges
    | Unsubscribe
    | Seek
    | ResetPositions
    | SetHold
    | Redeliver
    | GetPosition
    | GetLag
    | GetLogEnds
    | GetLeaders
    | Commit
    | CommitAsync
    | GetCommitted
    | GetCatchUp
    | GetClientInstanceId
    | LookUpOffsets
    | LookUpTopics
    | CallbackCompleted
    | PartitionsReleased
    | EnforceRebalance
    | Close
    | Describe
    | EndOfTurn
)

# --- network thread -> application thread --------------------------------------------------------------------


class CallbackKind(Enum):
    ASSIGNED = auto()
    REVOKED = auto()
    LOST = auto()


class RunCallback(NamedTuple):
    """Run the listener for these partitions inside `poll()`, then answer with `CallbackCompleted(attempt)`."""

    kind: CallbackKind
    partitions: frozenset[TopicPartition]
    attempt: Attempt
    subscription_epoch: SubscriptionEpoch


class ErrorRaised(NamedTuple):
    """An error that no call is waiting for: the next `poll()` raises it.

    `subscription_epoch` is that of the subscription it belongs to; a subscribe, assign or unsubscribe since then makes
    it stale. None means it belongs to the consumer as a whole.
    """

    error: KafkaError
    subscription_epoch: SubscriptionEpoch | None = None


class CommitCompleted(NamedTuple):
    callback: CommitCallback
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    error: KafkaError | None


BackgroundEvent: TypeAlias = RunCallback | ErrorRaised | CommitCompleted


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentView:
    """What the application thread may know of the subscription: immutable, replaced as a whole on every change.

    `epochs` has each assigned partition with its assignment epoch: records of another epoch are dropped. `withheld` are
    partitions whose records must wait (paused) or must not come any more (their revocation is under way).
    `backpressured` are the withheld partitions that backpressure alone holds: the application has enough of what this
    cursor has read. `children` are the views of the cursors that read a lag, each with `epochs` of its own.
    """

    subscription_epoch: SubscriptionEpoch = NOT_SUBSCRIBED
    subscribed: bool = False
    is_group: bool = False
    topics: frozenset[str] = frozenset()
    epochs: Mapping[TopicPartition, AssignmentEpoch] = field(default_factory=dict)
    paused: frozenset[TopicPartition] = frozenset()
    withheld: frozenset[TopicPartition] = frozenset()
    backpressured: frozenset[TopicPartition] = frozenset()
    group: ConsumerGroupMetadata | None = None
    children: tuple[AssignmentView, ...] = ()

    def is_current(self, tp: TopicPartition, epoch: AssignmentEpoch | None) -> bool:
        """Whether one of the cursors reads the partition in this assignment epoch."""
        return self.epochs.get(tp) == epoch or any(child.is_current(tp, epoch) for child in self.children)

    def beside(self, main: AssignmentView) -> AssignmentView:
        """A child's view that also withholds what the main cursor withholds, or has no more. Backpressure on the main
        cursor does not hold the child: it reads other records."""
        gone = self.epochs.keys() - main.epochs.keys()
        return replace(self, withheld=self.withheld | (main.withheld - main.backpressured) | gone)

    def withholds(self, tp: TopicPartition, epoch: AssignmentEpoch) -> bool:
        """Whether the records that one of the cursors has read in this assignment epoch must wait."""
        if self.epochs.get(tp) == epoch or not self.children:
            return tp in self.withheld
        return any(tp in child.beside(self).withheld for child in self.children if child.is_current(tp, epoch))

    @property
    def is_member(self) -> bool:
        """Whether the group counts this consumer as its member, as far as is known."""
        return self.group is not None and self.group.generation_id >= 0
