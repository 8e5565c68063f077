"""Positions: leads every assigned partition from INITIALIZING to FETCHING, through the committed offset or a reset.

Fires the events of `states.partition`. An answer is applied only while its partition still has the epoch and waits in
the state it had when the query was asked; a seek in between wins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kwire.clock import NEVER_MS
from kwire.config import ConsumerConfig, OffsetReset, ResetKind
from kwire.epochs import AssignmentEpoch
from kwire.errors import (
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationError,
)
from kwire.events import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ErrorRaised,
    GetPosition,
    Reply,
    ResetPositions,
    ResetTo,
    Seek,
)
from kwire.holds import Hold
from kwire.logs import part_logger
from kwire.managers.base import Deliver
from kwire.managers.list_offsets import Found, ListOffsetsManager
from kwire.managers.offset_fetch import Committed
from kwire.managers.offset_validation import OffsetValidationManager
from kwire.managers.reset_events import LOST_BY_DELETION, NOTHING_COMMITTED, OUT_OF_RANGE, ResetEvents
from kwire.managers.unsent import PollResult
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.states.partition import PartitionEvent
from kwire.subscription.partition import AssignedPartition
from kwire.subscription.subscription import Subscription

log = part_logger("offsets")

_RESETS = {
    ResetTo.EARLIEST: OffsetReset(ResetKind.EARLIEST),
    ResetTo.LATEST: OffsetReset(ResetKind.LATEST),
}


class CommittedLookUp(Protocol):
    """Looks up committed offsets: `OffsetFetchManager`, or one that asks more than one log."""

    def look_up(self, partitions: frozenset[TopicPartition], reply: Reply[Committed]) -> None: ...


class _PositionQuery(NamedTuple):
    """Where a partition is to go on in this assignment epoch: at the committed offset, or where this reset says."""

    epoch: AssignmentEpoch
    reset: OffsetReset | None


class PositionsManager:
    """Gives partitions their first positions, and new ones when they are out of range.

    Args:
        offset_fetch: where committed offsets are looked up.
        wall_clock_ms: now in milliseconds since the epoch, for `auto_offset_reset="by_duration:..."`.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        offset_fetch: CommittedLookUp,
        list_offsets: ListOffsetsManager,
        validation: OffsetValidationManager,
        deliver: Deliver,
        wall_clock_ms: Callable[[], int],
        events: ResetEvents,
    ) -> None:
        self._config = config
        self._subscription = subscription
        self._offset_fetch = offset_fetch
        self._list_offsets = list_offsets
        self._validation = validation
        self._deliver = deliver
        self._wall_clock_ms = wall_clock_ms
        self._events = events
        self._asked: dict[TopicPartition, _PositionQuery] = {}
        self._loads: list[tuple[dict[TopicPartition, AssignmentEpoch], Reply[Committed]]] = []
        self._resets: dict[TopicPartition, tuple[_PositionQuery, Reply[Found]]] = {}
        self._waiters: list[GetPosition] = []
        # Partitions that auto_offset_reset="none" leaves without a position, with the offset that was out of range.
        self._without_reset_policy: dict[TopicPartition, int | None] = {}
        # Where the logs of such partitions start, as operators are to be told what is lost.
        self._log_starts: dict[TopicPartition, Reply[Found]] = {}
        # Partitions that are out of range ahead of what the application was given, with their assignment epoch.
        self._ahead: dict[TopicPartition, AssignmentEpoch] = {}
        # Partitions that were assigned by hand, or are to be reset by hand, since the last poll. As in Java, the
        # application may commit before it polls where the group is to begin, or write what is to lie in front of the
        # end.
        self._await_poll: set[TopicPartition] = set()
        # Partitions whose query was refused for good: asked again by the next poll, so that it raises again.
        self._refused: dict[TopicPartition, KafkaError] = {}

    # --- what the application thread asks for ---------------------------------------------------------------

    @property
    def awaits_poll(self) -> bool:
        """Whether a look-up waits for a poll, a query was refused, the user has to say where to go on, or it matters
        how far the application got."""
        waits = self._await_poll or self._without_reset_policy or self._ahead
        return bool(waits) or any(map(self._subscription.still_wants, self._refused))

    def await_poll(self, partitions: Collection[TopicPartition]) -> None:
        """Look up the positions of these from the next poll on, or when somebody asks for them."""
        self._await_poll.update(partitions)

    def on_poll(self) -> None:
        """Begin what waits for a poll. Raise again what an earlier poll raised, until the user has sought to an offset
        or has the permission."""
        self._subscription.to_reconsider |= self._await_poll
        self._await_poll.clear()
        for tp in list(filter(self._subscription.still_wants, self._refused)):
            self._ask_again(tp)
        self._raise_stranded()

    def seek(self, event: Seek) -> None:
        partition = self._subscription.partitions.get(event.partition)
        if partition is None:
            event.reply.fail(_unassigned(event.partition))
            return
        if event.epoch in (None, partition.epoch):
            self._without_reset_policy.pop(event.partition, None)
            self._events.forget(event.partition)
            partition.is_sought = partition.has_position
            self._subscription.fire(event.partition, PartitionEvent.SEEK, position=event.position)
            self._subscription.publish()
        event.reply.succeed(None)

    def reset_to(self, event: ResetPositions) -> None:
        if missing := event.partitions - self._subscription.partitions.keys():
            event.reply.fail(_unassigned(min(missing)))
            return
        for tp in event.partitions:
            self._without_reset_policy.pop(tp, None)
            self._events.forget(tp)
            self._subscription.fire(tp, PartitionEvent.RESET_WANTED, reset=_RESETS[event.to])
        self.await_poll(event.partitions)
        self._subscription.publish()
        event.reply.succeed(None)

    def position(self, event: GetPosition) -> None:
        self._await_poll.discard(event.partition)
        self._ask_again(event.partition)
        self._subscription.to_reconsider.add(event.partition)
        self._waiters.append(event)

    def _ask_again(self, tp: TopicPartition) -> None:
        if self._refused.pop(tp, None) is not None:
            self._asked.pop(tp, None)
            self._subscription.to_reconsider.add(tp)

    def problem(self, tp: TopicPartition) -> KafkaError | None:
        """What keeps a partition from a position, if only the user can do something about it."""
        if tp in self._without_reset_policy:
            return _no_reset_policy_error({tp: self._without_reset_policy[tp]})
        return self._refused.get(tp)

    def waits_for(self, tp: TopicPartition) -> str | None:
        """What a partition without a position waits for."""
        if tp in self._await_poll:
            return "a poll"
        if tp in self._resets:
            return self._resets[tp][1].waiting_for
        return next((load.waiting_for for epochs, load in self._loads if tp in epochs), None)

    # --- what fetching finds out ----------------------------------------------------------------------------

    def out_of_range(self, partition: AssignedPartition) -> None:
        """The broker has no record at the fetch position: reset by the policy, or tell the user.

        While the application has not taken all that lies in front of it, that waits, as with Java's consumer. Those
        records are good, though the log may have lost them since. Or they are damaged: the position was taken from a
        batch's header before anybody had checked the batch, and a bit flipped in it must not become a reset.
        """
        if partition.is_ahead:
            partition.blocked_until_ms = NEVER_MS
            self._ahead[partition.topic_partition] = partition.epoch
        else:
            self._reset(partition)

    def _reset(self, partition: AssignedPartition) -> None:
        tp, offset, reset = partition.topic_partition, partition.fetch_offset, self._config.auto_offset_reset
        log.warning("offset %d of %s is out of range; auto_offset_reset is %s", offset, tp, reset, extra=tp._asdict())
        if reset.kind is ResetKind.NONE:
            self._without_reset_policy[tp] = offset
            self._ask_what_is_lost(tp, offset)
        else:
            self._events.begin(tp, OUT_OF_RANGE, offset)
        self._subscription.fire(tp, PartitionEvent.RESET_WANTED, reset=reset)
        self._subscription.publish()
        self._raise_stranded()

    def _ask_what_is_lost(self, tp: TopicPartition, offset: int) -> None:
        """Operators are told what is lost in front of the log's start. With a policy the reset finds that out."""
        if not self._events.are_heard:
            return
        self._stop_asking_what_is_lost(tp)
        reply: Reply[Found] = Reply("", lambda: self._on_log_start(tp, offset, reply))
        self._log_starts[tp] = reply
        self._list_offsets.ask(tp, EARLIEST_TIMESTAMP, reply)

    def _on_log_start(self, tp: TopicPartition, offset: int, reply: Reply[Found]) -> None:
        if self._log_starts.get(tp) is reply:
            del self._log_starts[tp]
        try:
            found = reply.result()
        except KafkaError as error:
            log.debug("operators are not told what is lost of %s: %s", tp, error)
            return
        if found is not None:
            self._events.lost(tp, offset, found.offset, LOST_BY_DELETION)

    def _stop_asking_what_is_lost(self, tp: TopicPartition) -> None:
        if (reply := self._log_starts.pop(tp, None)) is not None:
            reply.abandon()

    def _settle_ahead(self) -> None:
        """Reset those that the application has caught up with. In another epoch the partition has another position: the
        collector found damage and sought back to it, or the user sought, or the partition was revoked."""
        for tp, epoch in list(self._ahead.items()):
            partition = self._subscription.partitions.get(tp)
            if partition is None or partition.epoch != epoch:
                del self._ahead[tp]
            elif partition.has_valid_position and not partition.is_ahead:
                del self._ahead[tp]
                self._reset(partition)

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        """Asks through the other managers, so it has no requests of its own."""
        self._forget_positioned()
        self._settle_ahead()
        reconsidered, self._subscription.to_reconsider = self._subscription.to_reconsider, set()
        if due := self._not_asked(reconsidered & self._subscription.initializing):
            self._load_committed(due)
        self._ask_for_resets(reconsidered & self._subscription.awaiting_reset)
        self._waiters = [waiter for waiter in self._waiters if not self._answer(waiter)]
        return PollResult([], NEVER_MS)

    def _forget_positioned(self) -> None:
        """Forget partitions that have a position by now, or are not assigned any more."""
        changed = self._subscription.to_reconsider
        for tp in changed - self._subscription.awaiting_reset:
            self._without_reset_policy.pop(tp, None)
            if tp not in self._subscription.initializing:
                self._await_poll.discard(tp)
                self._asked.pop(tp, None)
                self._refused.pop(tp, None)
                self._events.forget_unless_unsettled(tp)
        for tp in changed & self._log_starts.keys() - self._subscription.partitions.keys():
            self._stop_asking_what_is_lost(tp)
        self._give_up_queries(changed)

    def _give_up_queries(self, changed: Collection[TopicPartition]) -> None:
        """Give up queries that a seek, another reset or a rebalance has overtaken."""
        for epochs, load in self._loads:
            for tp in [tp for tp in changed if tp in epochs and not self._waits(tp, epochs[tp])]:
                del epochs[tp]
            if not epochs:
                load.abandon()
        self._loads = [(epochs, load) for epochs, load in self._loads if not (load.done or load.abandoned)]
        for tp in [tp for tp in changed if tp in self._resets]:
            query, reply = self._resets[tp]
            if not self._is_wanted(tp, query):
                reply.abandon()
                del self._resets[tp]

    def _not_asked(self, partitions: Iterable[TopicPartition]) -> list[AssignedPartition]:
        """Those without a query under way for their epoch and reset. From now on they have one.

        A withheld partition waits for its callback, which may seek, unless that callback asks for its position.
        """
        due = []
        waited_for = {waiter.partition for waiter in self._waiters}
        for tp in sorted(partitions):
            partition = self._subscription.partitions[tp]
            query = _PositionQuery(partition.epoch, partition.reset)
            is_ready = Hold.CALLBACK_PENDING not in partition.holds or tp in waited_for
            if self._asked.get(tp) != query and is_ready and tp not in self._await_poll:
                self._asked[tp] = query
                due.append(partition)
        return due

    # --- committed offsets ----------------------------------------------------------------------------------

    def _load_committed(self, due: Sequence[AssignedPartition]) -> None:
        epochs = {partition.topic_partition: partition.epoch for partition in due}
        if self._config.group_id is None:
            self._apply_committed(epochs, dict.fromkeys(epochs))
        else:
            reply: Reply[Committed] = Reply("", lambda: self._on_committed(epochs, reply))
            self._loads.append((epochs, reply))
            self._offset_fetch.look_up(frozenset(epochs), reply)

    def _on_committed(self, epochs: dict[TopicPartition, AssignmentEpoch], reply: Reply[Committed]) -> None:
        try:
            committed = reply.result()
        except KafkaError as error:
            self._on_failed(epochs, error)
        else:
            self._apply_committed(epochs, committed)

    def _apply_committed(self, epochs: dict[TopicPartition, AssignmentEpoch], committed: Committed) -> None:
        for tp, position in committed.items():
            partition = self._current(tp, epochs[tp]) if tp in epochs else None  # else it was overtaken
            if partition is None or tp not in self._subscription.initializing:
                continue
            if position is not None:
                partition.committed_offset = position.offset
                self._subscription.fire(tp, PartitionEvent.COMMITTED_OFFSET_FOUND, position=position)
                continue
            reset = self._config.auto_offset_reset
            if self._config.group_id is not None:  # else it has no other way to begin
                self._events.begin(tp, NOTHING_COMMITTED)
            if reset.kind is ResetKind.NONE:
                self._without_reset_policy[tp] = None
            self._subscription.fire(tp, PartitionEvent.NO_COMMITTED_OFFSET, reset=reset)
        self._raise_stranded()

    # --- resets ---------------------------------------------------------------------------------------------

    def _ask_for_resets(self, wanted: Collection[TopicPartition]) -> None:
        for partition in self._not_asked(wanted):
            reset = partition.reset
            if reset is not None and reset.kind is not ResetKind.NONE:
                self._ask(partition.topic_partition, self._timestamp(reset))

    def _ask(self, tp: TopicPartition, timestamp: int) -> None:
        """The answer is taken when it comes, not in a turn of our own: a position has to be validated before that."""
        query = self._asked[tp]
        reply: Reply[Found] = Reply("", lambda: self._on_offset(tp, timestamp, query, reply))
        if tp in self._resets:
            self._resets[tp][1].abandon()
        self._resets[tp] = query, reply
        self._list_offsets.ask(tp, timestamp, reply)

    def _is_wanted(self, tp: TopicPartition, query: _PositionQuery) -> bool:
        """Whether the answer to this query still counts: not if another reset was asked for since, sent or not."""
        partition = self._current(tp, query.epoch)
        if partition is None or tp not in self._subscription.awaiting_reset:
            return False
        return partition.reset == query.reset and self._asked.get(tp) == query

    def _on_offset(self, tp: TopicPartition, timestamp: int, query: _PositionQuery, reply: Reply[Found]) -> None:
        try:
            found = reply.result()
        except KafkaError as error:
            self._on_failed({tp: query.epoch}, error)
            return
        if not self._is_wanted(tp, query):
            return
        if found is None and timestamp != LATEST_TIMESTAMP:
            self._ask(tp, LATEST_TIMESTAMP)  # every record is older than that: go to the end
        elif found is not None:
            log.info("%s begins at offset %d", tp, found.offset, extra=tp._asdict())
            is_log_start = query.reset is not None and query.reset.kind is ResetKind.EARLIEST
            self._events.found(tp, found.offset, is_log_start=is_log_start)
            position = OffsetAndMetadata(found.offset, leader_epoch=found.leader_epoch)
            self._subscription.fire(tp, PartitionEvent.RESET_DONE, position=position)
            self._subscription.partitions[tp].fetch_epoch = None  # as Java: not to be validated, it is the leader's

    def _timestamp(self, reset: OffsetReset) -> int:
        match reset.kind:
            case ResetKind.EARLIEST:
                return EARLIEST_TIMESTAMP
            case ResetKind.BY_DURATION:
                return max(0, self._wall_clock_ms() - (reset.duration_ms or 0))
            case _:
                return LATEST_TIMESTAMP

    # --- what others hear -----------------------------------------------------------------------------------

    def _current(self, tp: TopicPartition, epoch: AssignmentEpoch) -> AssignedPartition | None:
        partition = self._subscription.partitions.get(tp)
        return partition if partition is not None and partition.epoch == epoch else None

    def _waits(self, tp: TopicPartition, epoch: AssignmentEpoch) -> bool:
        """Whether the partition is still the one that was asked for, and still without a position."""
        waiting = tp in self._subscription.initializing or tp in self._subscription.awaiting_reset
        return waiting and self._current(tp, epoch) is not None

    def _on_failed(self, epochs: dict[TopicPartition, AssignmentEpoch], error: KafkaError) -> None:
        """Refused for good: the user hears of it, and the next poll asks again."""
        concerned = {tp for tp, epoch in epochs.items() if self._waits(tp, epoch)}
        self._refused.update(dict.fromkeys(concerned, error))
        if isinstance(error, TopicAuthorizationError):  # of several topics that were asked for at once
            concerned = {tp for tp in concerned if tp.topic in error.topics}
        if any(map(self._subscription.still_wants, concerned)):
            self._deliver(ErrorRaised(error, self._subscription.epoch))

    def _raise_stranded(self) -> None:
        stranded = {
            tp: offset for tp, offset in self._without_reset_policy.items() if self._subscription.still_wants(tp)
        }
        if stranded:
            self._deliver(ErrorRaised(_no_reset_policy_error(stranded), self._subscription.epoch))

    def _answer(self, waiter: GetPosition) -> bool:
        """Answer a `position()` if it can be; whether it is over."""
        tp, reply = waiter.partition, waiter.reply
        partition = self._subscription.partitions.get(tp)
        if partition is None:
            reply.fail(_unassigned(tp))
        elif Hold.LAG_UNKNOWN in partition.holds:
            reply.waiting_for = f"how far {tp} is behind the end of its log"
        elif partition.has_valid_position and partition.consumed is not None:
            reply.succeed(partition.consumed.offset)
        elif (problem := self._validation.problem(tp)) is not None or (problem := self.problem(tp)) is not None:
            reply.fail(problem)
        else:
            found = self._validation.waits_for(tp) or self.waits_for(tp)
            reply.waiting_for = found or f"the committed offset of {tp}"
        return reply.done or reply.abandoned


def _no_reset_policy_error(without_policy: Mapping[TopicPartition, int | None]) -> KafkaError:
    out_of_range = {tp: offset for tp, offset in without_policy.items() if offset is not None}
    return OffsetOutOfRangeError(out_of_range) if out_of_range else NoOffsetForPartitionError(without_policy)


def _unassigned(tp: TopicPartition) -> IllegalStateError:
    return IllegalStateError(f"{tp} is not assigned to this consumer")
