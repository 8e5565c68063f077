"""All request managers of one consumer, wired together and polled in a fixed order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kwire.assignors.base import Assignor
from kwire.clock import NEVER_MS, Backoff, chance, new_uuid
from kwire.config import ConsumerConfig, GroupProtocol, MetadataRecoveryStrategy
from kwire.events import Delivered, GetCatchUp, Redeliver, ResetPositions, Seek, SetHold
from kwire.fetching.buffer import FetchBuffer
from kwire.managers.base import Deliver, RequestManager
from kwire.managers.classic_group import ClassicGroupManager
from kwire.managers.consumer_group import ConsumerGroupManager
from kwire.managers.consumer_heartbeat import new_member_id
from kwire.managers.fetch import FetchManager
from kwire.managers.find_coordinator import FindCoordinatorManager
from kwire.managers.heartbeat import HeartbeatManager
from kwire.managers.list_offsets import ListOffsetsManager
from kwire.managers.membership import Membership, PollTimer
from kwire.managers.metadata import MetadataManager
from kwire.managers.offset_commit import OffsetCommitManager
from kwire.managers.offset_fetch import OffsetFetchManager
from kwire.managers.offset_validation import OffsetValidationManager
from kwire.managers.positions import CommittedLookUp, PositionsManager
from kwire.managers.unsent import AnyUnsentRequest, PollResult
from kwire.model import Cursor, TopicPartition
from kwire.subscription.subscription import Subscription

if TYPE_CHECKING:
    from kwire.managers.catch_up import CatchUpManager
    from kwire.managers.parallel_rebalance import ParallelRebalance

FLOOR_MS = 10.0


class Environment(NamedTuple):
    """What the managers get from outside: where their news go, and what they must not find out by themselves."""

    deliver: Deliver
    on_data: Callable[[], None]
    polled_at_ms: Callable[[], float]
    wall_clock_ms: Callable[[], int]
    chance: Callable[[], float] = chance
    new_uuid: Callable[[], UUID] = new_uuid


class RequestManagers:
    """The network thread's managers.

    The order of polling matters in three places: commits before the membership, so that a commit of this generation is
    queued before a leave; positions, after their validation, before the two managers they ask through; fetches last.
    `impatient` lists managers that broke the wait rule of `PollResult`; tests want it empty.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        assignors: Sequence[Assignor],
        subscription: Subscription,
        buffer: FetchBuffer,
        environment: Environment,
    ) -> None:
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, environment.chance)
        deliver = environment.deliver
        self.subscription = subscription
        self.impatient: deque[str] = deque(maxlen=100)
        self.coordinator = FindCoordinatorManager(config.group_id, backoff, deliver)
        self.metadata = MetadataManager(
            subscription,
            backoff,
            deliver,
            max_age_ms=config.metadata_max_age_ms,
            allow_auto_create_topics=config.allow_auto_create_topics,
            rebootstrap_trigger_ms=(
                config.metadata_recovery_rebootstrap_trigger_ms
                if config.metadata_recovery_strategy is MetadataRecoveryStrategy.REBOOTSTRAP
                else None
            ),
        )
        poll_timer = PollTimer(config.max_poll_interval_ms, environment.polled_at_ms)
        keeping_membership: tuple[RequestManager, ...]
        self.membership: Membership
        if config.group_protocol is GroupProtocol.CONSUMER:
            self.membership = ConsumerGroupManager(
                config,
                subscription,
                self.coordinator,
                self.metadata,
                deliver,
                backoff,
                poll_timer,
                new_member_id(environment.new_uuid),
            )
            keeping_membership = (self.membership,)
        else:
            classic = self.membership = ClassicGroupManager(
                config, assignors, subscription, self.coordinator, self.metadata, deliver, backoff
            )
            heartbeat = HeartbeatManager(
                classic,
                self.coordinator,
                poll_timer,
                backoff,
                session_timeout_ms=config.session_timeout_ms,
                heartbeat_interval_ms=config.heartbeat_interval_ms,
            )
            keeping_membership = (heartbeat, classic)
        self.offset_fetch = OffsetFetchManager(config.group_id, self.coordinator, self.membership, backoff)
        self.list_offsets = ListOffsetsManager(config, self.metadata, backoff, self._widened)
        self.catch_up: CatchUpManager | None = None
        self.offset_commit: OffsetCommitManager | ParallelRebalance
        look_up: CommittedLookUp = self.offset_fetch
        if config.enable_parallel_rebalance and config.group_id is not None:
            # Not loaded by consumers that do without it: they would start later.
            from kwire.managers.catch_up import CatchUpManager, Chances
            from kwire.managers.child_cursor import CursorSetting
            from kwire.managers.parallel_rebalance import ParallelRebalance

            setting = CursorSetting(
                config, subscription, self.metadata, self.list_offsets, deliver, environment.on_data, backoff
            )
            chances = Chances(environment.wall_clock_ms, environment.new_uuid)
            self.catch_up = CatchUpManager(setting, buffer, self._limit_main, chances)
            self.offset_commit = look_up = ParallelRebalance(
                config,
                subscription,
                self.catch_up,
                self.coordinator,
                self.membership,
                self.offset_fetch,
                deliver,
                backoff,
            )
        else:
            self.offset_commit = OffsetCommitManager(
                config, subscription, self.coordinator, self.membership, deliver, backoff
            )
        self.validation = OffsetValidationManager(config, subscription, self.metadata, deliver, backoff)
        self.positions = PositionsManager(
            config,
            subscription,
            look_up,
            self.list_offsets,
            self.validation,
            deliver,
            environment.wall_clock_ms,
        )
        self.fetch = FetchManager(
            config, subscription, self.metadata, self.positions, buffer, deliver, environment.on_data, backoff
        )
        self._in_order: tuple[RequestManager, ...] = (
            self.offset_commit,
            *keeping_membership,
            self.validation,
            self.positions,
            *((self.catch_up,) if self.catch_up is not None else ()),
            self.offset_fetch,
            self.list_offsets,
            self.coordinator,
            self.fetch,
            self.metadata,
        )

    @property
    def awaits_poll(self) -> bool:
        """Whether anybody has to hear of the application's next poll. Mostly nobody: records flow, and that is all."""
        if self.membership.awaits_poll or self.validation.awaits_poll or self.positions.awaits_poll:
            return True
        return self.catch_up is not None and self.catch_up.awaits_poll

    @property
    def others_can_wait(self) -> bool:
        """Whether nothing but fetching depends on new records, and on how far the application got. Where a lag is
        caught up with, it does."""
        return self.catch_up is None

    def on_poll(self) -> None:
        """The application polls."""
        self.membership.on_poll()
        self.validation.on_poll()
        self.positions.on_poll()
        if self.catch_up is not None:
            self.catch_up.on_poll()

    def note_delivered(self, delivered: Sequence[Delivered]) -> None:
        """The application has been given records up to these offsets, and has come back for more."""
        self.subscription.note_delivered(delivered)
        self.validation.settle()
        if self.catch_up is not None:
            self.catch_up.note_delivered(delivered)

    def seek(self, event: Seek) -> None:
        """To the cursor that is meant."""
        if self.catch_up is not None and self.catch_up.seek(event):
            event.reply.succeed(None)
        else:
            self.positions.seek(event)

    def reset_to(self, event: ResetPositions) -> None:
        if self.catch_up is not None:
            self.catch_up.reset(event.partitions or self.subscription.partitions)
        self.positions.reset_to(event)

    def set_hold(self, event: SetHold) -> None:
        """Of one cursor, or of all."""
        if event.cursor is not Cursor.CHILD:
            change = self.subscription.hold if event.is_held else self.subscription.unhold
            change(event.partitions, event.hold)
        if event.cursor is not Cursor.MAIN and self.catch_up is not None:
            self.catch_up.set_hold(event.partitions, event.hold, event.is_held)
        event.reply.succeed(None)

    def redeliver(self, event: Redeliver) -> None:
        if self.catch_up is not None:
            self.catch_up.redeliver(event.partition, event.position, event.stop)
        event.reply.succeed(None)

    def progress(self, event: GetCatchUp) -> None:
        event.reply.succeed({} if self.catch_up is None else self.catch_up.progress())

    def _limit_main(self, limit_bytes: int) -> None:
        self.fetch.limit_bytes = limit_bytes

    def _widened(self, tp: TopicPartition, timestamp: int, offset: int) -> int:
        return offset if self.catch_up is None else self.catch_up.widened(tp, timestamp, offset)

    def poll_on_close(self) -> list[AnyUnsentRequest]:
        """Requests that end the fetch sessions of all cursors."""
        children = [] if self.catch_up is None else self.catch_up.poll_on_close()
        return self.fetch.poll_on_close() + children

    def poll(self, now_ms: float) -> PollResult:
        """Everything there is to send, and the earliest moment any manager wants to be polled again."""
        return self._poll(self._in_order, now_ms)

    def poll_commits(self, now_ms: float) -> PollResult:
        """The same of the commits alone, when the consumer is being closed: nobody joins or fetches any more."""
        return self._poll((self.offset_commit, self.coordinator), now_ms)

    def poll_leaving(self, now_ms: float) -> PollResult:
        """The same of the farewells alone."""
        return self._poll((self.membership.leaving, self.coordinator), now_ms)

    def _poll(self, managers: Iterable[RequestManager], now_ms: float) -> PollResult:
        requests: list[AnyUnsentRequest] = []
        wake_at_ms = NEVER_MS
        for manager in managers:
            result = manager.poll(now_ms)
            if result.wake_at_ms <= now_ms and not result.requests:
                # The wait rule is broken: a bug, but one that a floor under the wait turns from a spin into a delay.
                self.impatient.append(type(manager).__name__)
                result = PollResult([], now_ms + FLOOR_MS)
            requests += result.requests
            wake_at_ms = min(wake_at_ms, result.wake_at_ms)
        return PollResult(requests, wake_at_ms)
