"""What a consumer does about a lag: it reads it in order, with one cursor and one commit log.

Parallel rebalance does otherwise: `kwire.parallel_rebalance` has a policy of its own, which nothing here knows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from kwire.events import Commit, CommitAsync, Delivered, Seek
from kwire.fetching.buffer import FetchBuffer
from kwire.holds import Hold
from kwire.managers.base import RequestManager
from kwire.managers.cursor import AnyCursor, CursorContext
from kwire.managers.find_coordinator import FindCoordinatorManager
from kwire.managers.list_offsets import ListOffsetsManager
from kwire.managers.membership import Membership
from kwire.managers.offset_commit import OffsetCommitManager
from kwire.managers.offset_fetch import OffsetFetchManager
from kwire.managers.positions import CommittedLookUp
from kwire.managers.unsent import NOTHING_TO_SEND, PollResult
from kwire.model import CatchUpProgress, OffsetAndMetadata, TopicPartition
from kwire.subscription.subscription import Subscription


class GroupCommits(RequestManager, Protocol):
    """Commits to one log of the group or to several."""

    def commit(self, event: Commit) -> None:
        """Commit; retried until it succeeds, is refused for good, or the caller gives up."""
        ...

    def commit_async(self, event: CommitAsync, now_ms: float) -> None:
        """Commit, without retries; the callback runs on the application thread."""
        ...

    def auto_commit(self, now_ms: float) -> None:
        """Commit what was delivered, without anybody waiting."""
        ...

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        ...

    def close(self) -> None:
        """The consumer ends: what is not done will not be, and its caller hears of it."""
        ...


class LagContext(NamedTuple):
    """What a policy gets from its consumer."""

    cursors: CursorContext
    main: Subscription
    buffer: FetchBuffer
    list_offsets: ListOffsetsManager
    offset_fetch: OffsetFetchManager
    coordinator: FindCoordinatorManager
    member: Membership
    wall_clock_ms: Callable[[], int]
    new_uuid: Callable[[], UUID]


class LagPolicy:
    """What is done about lags; as it stands, nothing: the main cursor reads everything in order.

    Attributes:
        commits: Where commits go to.
        committed: Where the main cursor's first positions are looked up.
        cursors: The cursors beside the main one.
    """

    def __init__(self, context: LagContext) -> None:
        shared = context.cursors
        self.commits: GroupCommits = OffsetCommitManager(
            shared.config,
            context.main,
            shared.metadata,
            context.coordinator,
            context.member,
            shared.deliver,
            shared.backoff,
        )
        self.committed: CommittedLookUp = context.offset_fetch
        self.cursors: Sequence[AnyCursor] = ()

    def on_delivered(self, delivered: Sequence[Delivered], *, came_back: bool) -> None:
        """All cursors have noted that the application was given records up to these offsets, and whether it came back
        for more."""

    def on_poll(self) -> None:
        """The application polls; all cursors know."""

    def seek(self, event: Seek) -> bool:  # noqa: ARG002
        """Move another cursor than the main one, if the event means one; whether it does."""
        return False

    def on_reset(self, partitions: Collection[TopicPartition]) -> None:
        """The user sends the main cursor to the beginning or the end of these."""

    def set_hold(self, partitions: Collection[TopicPartition], hold: Hold, is_held: bool) -> None:
        """Hold these partitions in all cursors beside the main one, or no longer."""

    def redeliver(self, tp: TopicPartition, position: OffsetAndMetadata, stop: int) -> None:
        """Return the records from `position` to `stop` once more: such a cursor returned them, and the application did
        not process them."""

    def progress(self, handed_out: Sequence[Delivered] | None = None) -> dict[TopicPartition, CatchUpProgress]:  # noqa: ARG002
        """How far each partition that has a lag has caught up.

        Args:
            handed_out: What the application has been handed, and has not come back from; None: as in the last call.
        """
        return {}

    def widened(self, tp: TopicPartition, timestamp: int, offset: int) -> int:  # noqa: ARG002
        """An end of the log (`timestamp` says which) as all cursors see it."""
        return offset

    def poll(self, now_ms: float) -> PollResult:
        return NOTHING_TO_SEND


MakeLagPolicy: TypeAlias = Callable[[LagContext], LagPolicy]
