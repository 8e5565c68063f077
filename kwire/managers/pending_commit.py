"""A commit until it is done, and the log that it goes to. `OffsetCommitManager` has a list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from kwire.clock import NEVER_MS
from kwire.errors import KafkaError
from kwire.events import Reply
from kwire.managers.base import RequestState
from kwire.model import ZERO_UUID, Offsets, TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.subscription.subscription import Subscription

OnDone: TypeAlias = Callable[[KafkaError | None], None]


class UnknownTopic(NamedTuple):
    """A broker has refused a commit because it knows no such topic or partition.

    Attributes:
        since_ms: When it did so first.
        refreshes: How often metadata had been refreshed when it was looked at last.
    """

    partition: TopicPartition
    error: KafkaError
    since_ms: float
    refreshes: int


class PendingCommit:
    """One commit until it is done. A settled commit has its outcome, and is done as soon as those before it are.

    Attributes:
        reply: The caller's, if it waits; it is told what the commit waits for.
        coordinator_asked: How many coordinator look-ups had been sent when the commit was made.
        topic_ids: The ids of the topics that the positions are in.
        unknown: Since when a broker does not know one of these topics.
        void: The error of positions that were left out, since another topic has the name now.
        superseded: Earlier commits, oldest first. They are not sent, and end as this one does.
    """

    __slots__ = (
        "coordinator_asked",
        "deadline_ms",
        "error",
        "is_last",
        "offsets",
        "on_done",
        "reply",
        "retries",
        "settled",
        "state",
        "superseded",
        "topic_ids",
        "unknown",
        "void",
    )

    def __init__(
        self,
        offsets: Offsets,
        on_done: OnDone,
        state: RequestState,
        coordinator_asked: int,
        topic_ids: Mapping[TopicPartition, UUID],
        *,
        retries: bool = False,
        is_last: bool = False,
        reply: Reply[None] | None = None,
        deadline_ms: float = NEVER_MS,
    ) -> None:
        self.offsets = offsets
        self.on_done = on_done
        self.state = state
        self.coordinator_asked = coordinator_asked
        self.topic_ids = topic_ids
        self.unknown: UnknownTopic | None = None
        self.void: KafkaError | None = None
        self.superseded: list[PendingCommit] = []
        self.retries = retries
        self.is_last = is_last
        self.reply = reply
        self.deadline_ms = deadline_ms
        self.settled = False
        self.error: KafkaError | None = None

    @property
    def has_ids(self) -> bool:
        """Whether the topic id of each position is known."""
        return all(self.topic_ids[tp] != ZERO_UUID for tp in self.offsets)

    @property
    def given_up(self) -> bool:
        return self.reply is not None and self.reply.abandoned

    def is_done_with(self, code: ErrorCode) -> bool:
        """Whether there is nothing more to do for a partition. A deleted topic is not worth holding up a rebalance."""
        return code is ErrorCode.NONE or (self.is_last and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def supersedes(self, earlier: PendingCommit) -> bool:
        """Whether this commit, the next one, overwrites all of the earlier one. A commit that is retried has a caller
        who waits, and is sent by itself."""
        if self.retries or earlier.retries:
            return False
        return self.offsets.keys() == earlier.offsets.keys() and self.topic_ids == earlier.topic_ids

    def take_over(self, earlier: PendingCommit) -> None:
        """The earlier commit is not sent, and ends as this one does."""
        self.superseded, earlier.superseded = earlier.superseded, []
        self.superseded.append(earlier)

    def waits_for(self, what: str) -> None:
        if self.reply is not None:
            self.reply.waiting_for = what


class CommitLog(Protocol):
    """Where commits go, and what a commit of all that was returned says there."""

    @property
    def group_id(self) -> str: ...

    @property
    def by_member(self) -> bool:
        """Whether only a member of the group may write to it."""
        ...

    def delivered(self) -> Offsets: ...

    def acknowledged(self, offsets: Offsets) -> None:
        """The broker has taken these."""
        ...


class GroupLog:
    """The group's own log, which says of each partition how far the application got."""

    def __init__(self, group_id: str | None, subscription: Subscription) -> None:
        self.group_id = group_id or ""
        self._subscription = subscription

    @property
    def by_member(self) -> bool:
        return self._subscription.is_group

    def delivered(self) -> Offsets:
        return self._subscription.consumed()

    def acknowledged(self, offsets: Offsets) -> None:
        """Does nothing: nobody has to know."""
