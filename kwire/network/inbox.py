"""What each application event means to the managers: the one place where the two are connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from kwire.events import (
    ApplicationEvent,
    Assign,
    AssignRanges,
    BufferDrained,
    CallbackCompleted,
    Close,
    Commit,
    CommitAsync,
    EndOfTurn,
    EnforceRebalance,
    GetCatchUp,
    GetCommitted,
    GetLag,
    GetLeaders,
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
from kwire.model import Node, TopicPartition
from kwire.subscription.subscription import Subscription


class Inbox:
    """Hands the application's events to the managers that they are for.

    Args:
        on_close: told of the Close event, which is the loop's own business.
    """

    def __init__(self, managers: RequestManagers, on_close: Callable[[Close], None], *, read_committed: bool) -> None:
        self._managers = managers
        self._on_close = on_close
        self._read_committed = read_committed
        self._at_end_of_turn: list[EndOfTurn] = []

    @property
    def _subscription(self) -> Subscription:
        return self._managers.subscription

    def process(self, event: ApplicationEvent, now_ms: float) -> None:  # noqa: C901  one case an event, one line each
        """Carry out one event."""
        match event:
            case RecordsDelivered():
                self._managers.note_delivered(event.delivered)
            case PollStarted():
                self._managers.on_poll()
            case BufferDrained():
                pass  # the turn it causes polls the fetches
            case Subscribe():
                self._subscribe(event)
            case Assign():
                self._assign(event, now_ms)
            case AssignRanges():
                self._subscription.assign_ranges(event.ranges)
                event.reply.succeed(None)
            case Unsubscribe():
                self._unsubscribe(event)
            case Seek():
                self._managers.seek(event)
            case ResetPositions():
                self._managers.reset_to(event)
            case SetHold():
                self._managers.set_hold(event)
            case Redeliver():
                self._managers.redeliver(event)
            case GetPosition():
                self._managers.main.validation.settle()
                self._managers.main.positions.position(event)
            case GetLag():
                event.reply.succeed(self._lag(event))
            case GetLeaders():
                event.reply.succeed(self._leaders(event))
            case Commit():
                self._managers.offset_commit.commit(event)
            case CommitAsync():
                self._managers.offset_commit.commit_async(event, now_ms)
            case GetCommitted():
                self._managers.offset_fetch.committed(event)
            case GetCatchUp():
                event.reply.succeed(self._managers.lags.progress())
            case LookUpOffsets():
                self._managers.offset_look_ups.look_up(event)
            case LookUpTopics():
                self._managers.metadata.look_up(event)
            case CallbackCompleted():
                self._managers.membership.on_callback_completed(event.attempt)
            case PartitionsReleased():
                self._subscription.set_released(event.partitions)
            case EnforceRebalance():
                self._managers.membership.rejoin_needed(event.reason)
            case Close():
                self._on_close(event)
            case EndOfTurn():
                self._at_end_of_turn.append(event)
            case _:
                assert_never(event)

    def end_turn(self) -> None:
        """What came before has been looked at by everybody."""
        for event in self._at_end_of_turn:
            event.reply.succeed(None)
        self._at_end_of_turn.clear()

    def _subscribe(self, event: Subscribe) -> None:
        self._subscription.subscribe(event.topics, event.pattern)
        self._managers.membership.on_subscription_changed()
        event.reply.succeed(None)

    def _assign(self, event: Assign, now_ms: float) -> None:
        # What the old assignment has consumed is committed before its partitions are forgotten (Java's assign).
        self._managers.offset_commit.auto_commit(now_ms)
        self._subscription.assign_manually(event.partitions)
        event.reply.succeed(None)

    def _unsubscribe(self, event: Unsubscribe) -> None:
        self._managers.membership.leave("the consumer unsubscribed", event.reply)
        self._subscription.unsubscribe()

    def _leaders(self, event: GetLeaders) -> dict[TopicPartition, Node | None]:
        cluster = self._managers.metadata.cluster
        leaders = {tp: cluster.leader_id(tp) for tp in event.partitions}
        return {tp: None if leader is None else cluster.nodes[leader] for tp, leader in leaders.items()}

    def _lag(self, event: GetLag) -> int | None:
        partition = self._subscription.partitions.get(event.partition)
        if partition is None or partition.consumed is None or not partition.has_position:
            return None
        position = partition.consumed.offset if event.position is None else event.position
        end = partition.end_offset(read_committed=self._read_committed)
        return max(0, end - position) if end >= 0 else None
