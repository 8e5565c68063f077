"""All request managers of one consumer, wired together and polled in a fixed order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kwire.assignors.base import Assignor
from kwire.clock import NEVER_MS, Backoff, chance, new_uuid
from kwire.config import ConsumerConfig, GroupProtocol, MetadataRecoveryStrategy
from kwire.events import Delivered, GetClientInstanceId
from kwire.fetching.buffer import FetchBuffer
from kwire.managers.base import Deliver, RequestManager, TellOperator
from kwire.managers.classic_group import ClassicGroupManager
from kwire.managers.consumer_group import ConsumerGroupManager
from kwire.managers.consumer_heartbeat import new_member_id
from kwire.managers.cursor import AnyCursor, CursorContext, CursorManagers
from kwire.managers.find_coordinator import FindCoordinatorManager
from kwire.managers.heartbeat import HeartbeatManager
from kwire.managers.lag_policy import LagContext, LagPolicy, MakeLagPolicy
from kwire.managers.list_offsets import ListOffsetsManager
from kwire.managers.membership import Membership, PollTimer
from kwire.managers.metadata import MetadataManager
from kwire.managers.offset_fetch import OffsetFetchManager
from kwire.managers.offset_look_ups import OffsetLookUps
from kwire.managers.positions import PositionsManager
from kwire.managers.telemetry import TelemetryManager, TelemetrySource
from kwire.managers.unsent import AnyUnsentRequest, PollResult
from kwire.metrics import ConsumerMetrics
from kwire.model import CatchUpProgress, Cursor, TopicPartition
from kwire.subscription.subscription import Subscription

if TYPE_CHECKING:
    from kwire.managers.operator_watch import OperatorWatch

FLOOR_MS = 10.0
CATCH_UP_TOLD_EVERY_MS = 100.0  # by the metrics


class Environment(NamedTuple):
    """What the managers get from outside: where their news goes, and clocks and chance, so that they stay pure."""

    deliver: Deliver
    on_data: Callable[[], None]
    polled_at_ms: Callable[[], float]
    wall_clock_ms: Callable[[], int]
    chance: Callable[[], float] = chance
    new_uuid: Callable[[], UUID] = new_uuid
    metrics: ConsumerMetrics | None = None
    telemetry: TelemetrySource | None = None
    """What brokers are told of the metrics, if they want any."""
    tell_operator: TellOperator | None = None
    """Takes what operators are told, if there are any."""


class RequestManagers:
    """The network thread's managers.

    The order of polling matters in three places: commits before the membership, so that a commit of this generation is
    queued before a leave; what is decided about lags before the cursors that read them; and cursors before the managers
    they ask through. `impatient` lists managers that broke the wait rule of `PollResult`; tests want it empty.

    Args:
        lag_policy: makes what decides about lags.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        assignors: Sequence[Assignor],
        subscription: Subscription,
        buffer: FetchBuffer,
        environment: Environment,
        lag_policy: MakeLagPolicy = LagPolicy,
    ) -> None:
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, environment.chance)
        self._config = config
        self._deliver = deliver = environment.deliver
        self._early: list[AnyUnsentRequest] = []
        """Requests that were made before their turn: the next poll sends them first."""
        self._metrics = environment.metrics or ConsumerMetrics()
        self._catch_up_due_ms = -NEVER_MS
        self.subscription = subscription
        self.impatient: deque[str] = deque(maxlen=100)
        self.coordinator = FindCoordinatorManager(config.group_id, backoff, deliver)
        self.metadata = _metadata(config, subscription, deliver, backoff)
        self.membership, keeping_membership = self._membership(assignors, environment, backoff)
        self.offset_fetch = OffsetFetchManager(config.group_id, self.coordinator, self.membership, backoff)
        self.list_offsets = ListOffsetsManager(config, self.metadata, backoff)
        parts = self.metadata, deliver, environment.on_data, backoff, self._metrics.consumed, environment.tell_operator
        cursors = CursorContext(config, *parts)
        self.lags = lag_policy(self._lag_context(cursors, buffer, environment))
        self.offset_commit = self.lags.commits
        self.offset_look_ups = OffsetLookUps(subscription, self.list_offsets, self.lags)
        self.main = self._main(cursors, buffer, environment)
        self.cursors: Sequence[AnyCursor] = (self.main, *self.lags.cursors)
        self._telemetry = self._with_telemetry(environment)
        self._in_order: tuple[RequestManager, ...] = (
            self.offset_commit,
            *keeping_membership,
            self.lags,
            *(manager for cursor in self.cursors for manager in cursor.in_order),
            self.offset_fetch,
            self.list_offsets,
            self.coordinator,
            self.metadata,
            *self._telemetry,
            *self._watch(environment),
        )

    def _membership(
        self, assignors: Sequence[Assignor], environment: Environment, backoff: Backoff
    ) -> tuple[Membership, Sequence[RequestManager]]:
        """The membership, by the group's protocol, and the managers that keep it, in the order of polling."""
        config, group = self._config, (self.subscription, self.coordinator, self.metadata, self._deliver, backoff)
        poll_timer = PollTimer(config.max_poll_interval_ms, environment.polled_at_ms)
        if config.group_protocol is GroupProtocol.CONSUMER:
            member_id = new_member_id(environment.new_uuid)
            manager = ConsumerGroupManager(config, *group, poll_timer, member_id, self._metrics, self._auto_commit)
            return manager, (manager,)
        classic = ClassicGroupManager(config, assignors, *group)
        heartbeat = HeartbeatManager(
            classic,
            self.coordinator,
            poll_timer,
            backoff,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
        )
        return classic, (heartbeat, classic)

    def _auto_commit(self, now_ms: float) -> None:
        """For the membership, without which there are no commits: it is made first."""
        self.offset_commit.auto_commit(now_ms)

    def _lag_context(self, cursors: CursorContext, buffer: FetchBuffer, environment: Environment) -> LagContext:
        return LagContext(
            cursors,
            self.subscription,
            buffer,
            self.list_offsets,
            self.offset_fetch,
            self.coordinator,
            self.membership,
            environment.wall_clock_ms,
            environment.new_uuid,
        )

    def _main(
        self, context: CursorContext, buffer: FetchBuffer, environment: Environment
    ) -> CursorManagers[PositionsManager]:
        def positions_of(main: CursorManagers[PositionsManager]) -> PositionsManager:
            return PositionsManager(
                self._config,
                self.subscription,
                self.lags.committed,
                self.list_offsets,
                main.validation,
                self._deliver,
                environment.wall_clock_ms,
                main.reset_events,
            )

        return CursorManagers(Cursor.MAIN, context, self.subscription, buffer, positions_of)

    def _with_telemetry(self, environment: Environment) -> Sequence[TelemetryManager]:
        if not self._config.enable_metrics_push or environment.telemetry is None:
            return ()
        return (TelemetryManager(environment.telemetry, lambda: bool(self.metadata.cluster.nodes), environment.chance),)

    def _watch(self, environment: Environment) -> Sequence[OperatorWatch]:
        if environment.tell_operator is None:
            return ()
        from kwire.managers.operator_watch import OperatorWatch

        group = self.membership, self.subscription, self._metrics.coordinator
        return (OperatorWatch(self._config, *group, environment.polled_at_ms, environment.tell_operator),)

    # --- the loop -------------------------------------------------------------------------------------------

    @property
    def awaits_poll(self) -> bool:
        """Whether anybody has to hear of the application's next poll. Mostly nobody: records flow, and that is all."""
        return self.membership.awaits_poll or any(cursor.awaits_poll for cursor in self.cursors)

    def catch_up_progress(self, handed_out: Sequence[Delivered] | None = None) -> dict[TopicPartition, CatchUpProgress]:
        """How far each partition that has a lag has caught up; the metrics show the same from now on."""
        progress = self.lags.progress(handed_out)
        self._metrics.catch_up = tuple(progress.values())
        return progress

    def tell_catch_up(self, now_ms: float) -> float:
        """Update the progress that the metrics show, now and then; returns when that is due again."""
        if now_ms >= self._catch_up_due_ms:
            self.catch_up_progress()
            self._catch_up_due_ms = now_ms + CATCH_UP_TOLD_EVERY_MS
        return self._catch_up_due_ms if self._metrics.catch_up else NEVER_MS

    def ask_client_instance_id(self, event: GetClientInstanceId) -> None:
        """Answered when a broker has given one."""
        for telemetry in self._telemetry:
            telemetry.ask_client_instance_id(event.reply)

    def poll_on_close(self, now_ms: float) -> list[AnyUnsentRequest]:
        """Requests that end the fetch sessions of all cursors, and the last metrics."""
        ends = [request for cursor in self.cursors for request in cursor.poll_on_close()]
        return ends + [request for telemetry in self._telemetry for request in telemetry.close(now_ms)]

    def poll(self, now_ms: float) -> PollResult:
        """Everything there is to send, and the earliest moment any manager wants to be polled again."""
        return self._poll(self._in_order, now_ms)

    def poll_commits(self, now_ms: float) -> PollResult:
        """As `poll`, for commits alone: the consumer is being closed, so nobody joins or fetches any more."""
        return self._poll((self.offset_commit, self.coordinator), now_ms)

    def make_commits_now(self, now_ms: float) -> None:
        """The membership is about to end. Commits that were made before belong to it, so their requests are made now.
        The next poll sends them in front of the leave."""
        self._early += self.offset_commit.poll(now_ms).requests

    def poll_leaving(self, now_ms: float) -> PollResult:
        """As `poll`, for requests to leave alone."""
        return self._poll((self.membership.leaving, self.coordinator), now_ms)

    def _poll(self, managers: Iterable[RequestManager], now_ms: float) -> PollResult:
        requests, self._early = self._early, []
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


def _metadata(
    config: ConsumerConfig, subscription: Subscription, deliver: Deliver, backoff: Backoff
) -> MetadataManager:
    rebootstraps = config.metadata_recovery_strategy is MetadataRecoveryStrategy.REBOOTSTRAP
    return MetadataManager(
        subscription,
        backoff,
        deliver,
        max_age_ms=config.metadata_max_age_ms,
        allow_auto_create_topics=config.allow_auto_create_topics,
        rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms if rebootstraps else None,
    )
