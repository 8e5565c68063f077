"""What each application event means to the managers: a table, and the one place where the two are connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar, cast

from kwire.events import (
    ApplicationEvent,
    Assign,
    AssignRanges,
    BufferDrained,
    CallbackCompleted,
    Close,
    Commit,
    CommitAsync,
    Describe,
    EndOfTurn,
    EnforceRebalance,
    GetCatchUp,
    GetClientInstanceId,
    GetCommitted,
    GetLag,
    GetLeaders,
    GetLogEnds,
    GetPosition,
    LookUpOffsets,
    LookUpTopics,
    PartitionsReleased,
    PollStarted,
    RecordsDelivered,
    Redeliver,
    ResetPositions,
    Seek,
    SetHold,
    Subscribe,
    Unsubscribe,
)
from kwire.managers.registry import RequestManagers
from kwire.model import Cursor, LogEnds, Node, TopicPartition
from kwire.subscription.subscription import Subscription

E = TypeVar("E")
Handler: TypeAlias = Callable[[ApplicationEvent], None]


class Inbox:
    """Hands the application's events to the managers that they are for.

    Args:
        on_close: told of the Close event, which is the loop's own business.
        on_describe: told of the Describe event, which is about the client as well.
    """

    def __init__(
        self,
        managers: RequestManagers,
        on_close: Callable[[Close], None],
        on_describe: Callable[[Describe], None] = lambda _: None,
        *,
        read_committed: bool,
    ) -> None:
        self._managers = managers
        self._read_committed = read_committed
        self._now_ms = 0.0
        self._at_end_of_turn: list[EndOfTurn] = []
        self._handlers: dict[type[object], Handler] = {}
        on, membership = self._on, managers.membership
        on(RecordsDelivered, self._note_delivered)
        on(PollStarted, self._poll_started)
        on(BufferDrained, lambda _: None)  # the turn it causes polls the fetches
        on(Subscribe, self._subscribe)
        on(Assign, self._assign)
        on(AssignRanges, self._assign_ranges)
        on(Unsubscribe, self._unsubscribe)
        on(Seek, self._seek)
        on(ResetPositions, self._reset_positions)
        on(SetHold, self._set_hold)
        on(Redeliver, self._redeliver)
        on(GetPosition, self._get_position)
        on(GetLag, lambda event: event.reply.succeed(self._lag(event)))
        on(GetLogEnds, lambda event: event.reply.succeed(self._log_ends(event)))
        on(GetLeaders, lambda event: event.reply.succeed(self._leaders(event)))
        on(GetCatchUp, lambda event: event.reply.succeed(managers.catch_up_progress(event.handed_out)))
        on(GetClientInstanceId, managers.ask_client_instance_id)
        on(GetCommitted, managers.offset_fetch.committed)
        on(LookUpOffsets, managers.offset_look_ups.look_up)
        on(LookUpTopics, managers.metadata.look_up)
        on(Commit, managers.offset_commit.commit)
        on(CommitAsync, lambda event: managers.offset_commit.commit_async(event, self._now_ms))
        on(CallbackCompleted, lambda event: membership.on_callback_completed(event.attempt))
        on(PartitionsReleased, lambda event: managers.subscription.set_released(event.partitions))
        on(EnforceRebalance, lambda event: membership.rejoin_needed(event.reason))
        on(Describe, on_describe)
        on(EndOfTurn, self._at_end_of_turn.append)
        on(Close, on_close)

    def _on(self, kind: type[E], handle: Callable[[E], None]) -> None:
        self._handlers[kind] = cast("Handler", handle)

    @property
    def handled(self) -> frozenset[type[object]]:
        return frozenset(self._handlers)

    @property
    def _subscription(self) -> Subscription:
        return self._managers.subscription

    def process(self, event: ApplicationEvent, now_ms: float) -> None:
        """Carry out one event."""
        self._now_ms = now_ms
        self._handlers[type(event)](event)

    def end_turn(self) -> None:
        """What came before has been looked at by everybody."""
        for event in self._at_end_of_turn:
            event.reply.succeed(None)
        self._at_end_of_turn.clear()

    # --- what the application does --------------------------------------------------------------------------

    def _poll_started(self, _: PollStarted) -> None:
        self._managers.membership.on_poll()
        for cursor in self._managers.cursors:
            cursor.on_poll()
        self._managers.lags.on_poll()

    def _note_delivered(self, event: RecordsDelivered) -> None:
        for cursor in self._managers.cursors:
            cursor.note_delivered(event.delivered, is_seek=event.is_seek, came_back=event.came_back)
        self._managers.lags.on_delivered(event.delivered, came_back=event.came_back)

    def _subscribe(self, event: Subscribe) -> None:
        self._subscription.subscribe(event.topics, event.pattern)
        self._managers.membership.on_subscription_changed()
        event.reply.succeed(None)

    def _assign(self, event: Assign) -> None:
        # What the old assignment has consumed is committed before its partitions are forgotten (Java's assign).
        self._managers.offset_commit.auto_commit(self._now_ms)
        new = event.partitions - self._subscription.partitions.keys()
        self._subscription.assign_manually(event.partitions)
        self._managers.main.positions.await_poll(new)
        event.reply.succeed(None)

    def _assign_ranges(self, event: AssignRanges) -> None:
        self._subscription.assign_ranges(event.ranges)
        event.reply.succeed(None)

    def _unsubscribe(self, event: Unsubscribe) -> None:
        self._managers.make_commits_now(self._now_ms)
        self._subscription.unsubscribe()  # the view shows it when the reply is there, which may be at once
        self._managers.membership.leave("the consumer unsubscribed", event.reply)

    # --- positions ------------------------------------------------------------------------------------------

    def _seek(self, event: Seek) -> None:
        """Move the cursor that is meant."""
        if self._managers.lags.seek(event):
            event.reply.succeed(None)
        else:
            self._managers.main.positions.seek(event)

    def _reset_positions(self, event: ResetPositions) -> None:
        self._managers.lags.on_reset(event.partitions)
        self._managers.main.positions.reset_to(event)

    def _set_hold(self, event: SetHold) -> None:
        """Hold partitions in one cursor or in all, or no longer."""
        if event.cursor is not Cursor.CHILD:
            change = self._subscription.hold if event.is_held else self._subscription.unhold
            change(event.partitions, event.hold)
        if event.cursor is not Cursor.MAIN:
            self._managers.lags.set_hold(event.partitions, event.hold, event.is_held)
        event.reply.succeed(None)

    def _redeliver(self, event: Redeliver) -> None:
        self._managers.lags.redeliver(event.partition, event.position, event.stop)
        event.reply.succeed(None)

    def _get_position(self, event: GetPosition) -> None:
        self._managers.main.validation.settle(event.partition)
        self._managers.main.positions.position(event)

    # --- what is known --------------------------------------------------------------------------------------

    def _leaders(self, event: GetLeaders) -> dict[TopicPartition, Node | None]:
        cluster = self._managers.metadata.cluster
        leaders = {tp: cluster.leader_id(tp) for tp in event.partitions}
        return {tp: None if leader is None else cluster.nodes[leader] for tp, leader in leaders.items()}

    def _lag(self, event: GetLag) -> int | None:
        partition = self._subscription.partitions.get(event.partition)
        if partition is None:
            return None
        return partition.lag(read_committed=self._read_committed, position=event.position)

    def _log_ends(self, event: GetLogEnds) -> LogEnds | None:
        partition = self._subscription.partitions.get(event.partition)
        return None if partition is None else partition.log_ends()
