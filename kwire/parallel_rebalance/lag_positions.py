"""Where a child cursor reads: parts of lags, each to its end, and what happens when the log has them no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from kwire.clock import NEVER_MS
from kwire.config import OffsetReset, ResetKind
from kwire.epochs import AssignmentEpoch
from kwire.errors import KafkaError
from kwire.events import EARLIEST_TIMESTAMP, AssignmentView, ErrorRaised, Reply
from kwire.fetching.buffer import FetchBuffer
from kwire.holds import Hold
from kwire.logs import part_logger
from kwire.managers.cursor import CursorManagers
from kwire.managers.lag_policy import LagContext
from kwire.managers.list_offsets import Found
from kwire.managers.unsent import NOTHING_TO_SEND, PollResult
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition
from kwire.states.partition import PartitionEvent
from kwire.subscription.partition import AssignedPartition
from kwire.subscription.subscription import Subscription

log = part_logger("catch_up")


@dataclass(slots=True)
class Part:
    """What a child reads of a partition, and how far the application is known to have been given it."""

    start: int
    stop: int
    reached: int


class Losses(NamedTuple):
    """Who is told of what a child cannot read.

    Attributes:
        on_offsets_lost: Of offsets that the log has no more.
        on_log_diverged: Of partitions whose log has nothing in common with what was read of it.
    """

    on_offsets_lost: Callable[[TopicPartition, range], None]
    on_log_diverged: Callable[[TopicPartition], None]


class LagPositions:
    """The positions of a child cursor, which has what a consumer with a manual assignment has."""

    def __init__(self, context: LagContext, losses: Losses, child: ChildCursor) -> None:
        self._main = context.main
        self._deliver = context.cursors.deliver
        self._list_offsets = context.list_offsets
        self._losses = losses
        self._child = child
        self.subscription = child.subscription
        self.parts: dict[TopicPartition, Part] = {}
        # Partitions of which another cursor reads the rest, and whether the application has come back since.
        self._ending: dict[TopicPartition, bool] = {}
        # Partitions that are out of range, since which assignment epoch, and the reply about the log's start, if asked.
        self._out_of_range: dict[TopicPartition, tuple[AssignmentEpoch, Reply[Found] | None]] = {}

    # --- what it reads --------------------------------------------------------------------------------------

    def start(self, tp: TopicPartition, part: range, leader_epoch: int | None) -> None:
        """Read this part of a partition that it is not reading."""
        self.parts[tp] = Part(part.start, part.stop, part.start)
        self.subscription.assign_manually(frozenset((*self.subscription.partitions, tp)))
        self.subscription.partitions[tp].stop_offset = part.stop
        self._set_position(tp, OffsetAndMetadata(part.start, leader_epoch=leader_epoch))
        log.info("catching up with %s from %d to %d", tp, part.start, part.stop)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more; what is buffered of them is dropped."""
        gone = self.parts.keys() & set(partitions)
        for tp in gone:
            del self.parts[tp]
            self._forget_out_of_range(tp)
            self._ending.pop(tp, None)
        if gone:
            self.subscription.remove(gone)

    def end(self, tp: TopicPartition, stop: int) -> None:
        """Another cursor reads everything from `stop` on. What the application has been given in front of that may not
        be known before it comes back: until then nothing more is handed out, and nobody else begins there."""
        part, partition = self.parts[tp], self.subscription.partitions[tp]
        if stop <= part.reached or not partition.is_ahead:
            self.stop((tp,))
            return
        part.stop = partition.stop_offset = min(stop, part.stop)
        self._ending[tp] = False
        self.subscription.hold((tp,), Hold.RANGE_CUT)

    def come_back(self) -> Iterable[TopicPartition]:
        """The application has come back, and what it was given is noted; returns the partitions that end by that."""
        for tp in self._ending:
            self._ending[tp] = True
        return self._ending

    def is_over(self, tp: TopicPartition) -> bool:
        """Whether there is nothing more to wait for in its part."""
        part = self.parts[tp]
        return part.reached >= part.stop or self._ending.get(tp, False)

    def seek(self, tp: TopicPartition, position: OffsetAndMetadata) -> None:
        """Go on at another place of the part."""
        self._forget_out_of_range(tp)
        self._set_position(tp, position)
        self.subscription.publish()

    def seek_in_epoch(self, tp: TopicPartition, position: OffsetAndMetadata, epoch: AssignmentEpoch) -> None:
        """`seek`, if this is still the assignment epoch of the partition."""
        partition = self.subscription.partitions.get(tp)
        if partition is not None and partition.epoch == epoch:
            self.seek(tp, position)

    def _set_position(self, tp: TopicPartition, position: OffsetAndMetadata) -> None:
        self.subscription.fire(tp, PartitionEvent.SEEK, position=position)

    # --- how far it got -------------------------------------------------------------------------------------

    def position(self, tp: TopicPartition) -> OffsetAndMetadata:
        """How far the application is known to have been given the records of its part."""
        position = self.subscription.partitions[tp].consumed
        assert position is not None
        return position

    def is_fetched(self, tp: TopicPartition) -> bool:
        """Whether nothing is missing but the application."""
        return self.subscription.partitions[tp].fetch_offset >= self.parts[tp].stop

    # --- retention ------------------------------------------------------------------------------------------

    def out_of_range(self, partition: AssignedPartition) -> None:
        """What was fetched before is good, and is returned first. Then it is asked where the log starts."""
        self._out_of_range[partition.topic_partition] = partition.epoch, None
        partition.blocked_until_ms = NEVER_MS

    def _forget_out_of_range(self, tp: TopicPartition) -> None:
        _, reply = self._out_of_range.pop(tp, (None, None))
        if reply is not None:
            reply.abandon()

    def _settle_out_of_range(self, now_ms: float) -> None:
        for tp, (epoch, reply) in list(self._out_of_range.items()):
            partition = self.subscription.partitions[tp]
            if partition.epoch != epoch or tp in self._ending:
                self._forget_out_of_range(tp)
            elif reply is not None:
                self._look_at_log_start(partition, reply, now_ms)
            elif not partition.is_ahead and partition.has_valid_position:
                asked: Reply[Found] = Reply()
                self._out_of_range[tp] = epoch, asked
                self._list_offsets.ask(tp, EARLIEST_TIMESTAMP, asked)

    def _look_at_log_start(self, partition: AssignedPartition, reply: Reply[Found], now_ms: float) -> None:
        tp = partition.topic_partition
        if not reply.done:
            return
        try:
            found = reply.result()
        except KafkaError as error:
            # The user hears of it. After the back-off it is fetched again, and asked about if it is still out of range:
            # what has been refused may be granted meanwhile.
            self._deliver(ErrorRaised(error, self._main.epoch))
            self._forget_out_of_range(tp)
            self._child.fetch.block(partition, now_ms)
            return
        if found is None:
            return
        if found.offset > partition.fetch_offset:
            gone = range(partition.fetch_offset, min(found.offset, self.parts[tp].stop))
            self.seek(tp, OffsetAndMetadata(gone.stop))
            self._losses.on_offsets_lost(tp, gone)
        else:
            # The log ends in front of the position: it was cut. The main cursor finds that out as well, and goes back;
            # then this part is its own.
            self._forget_out_of_range(tp)
            self._child.fetch.block(partition, now_ms)

    # --- the loop -------------------------------------------------------------------------------------------

    @property
    def awaits_poll(self) -> bool:
        """Whether it matters how far the application is."""
        return bool(self._out_of_range or self._ending) or any(map(self.is_fetched, self.parts))

    def on_poll(self) -> None:
        """The policy looks after that, when all cursors know."""

    def problem(self, tp: TopicPartition) -> KafkaError | None:
        """None: a child always knows where to go on, or asks."""

    def waits_for(self, tp: TopicPartition) -> str | None:
        """Where the log starts, if it has lost the position."""
        return f"where the log of {tp} starts" if tp in self._out_of_range else None

    def poll(self, now_ms: float) -> PollResult:
        """Asks through another manager, so it has no requests of its own."""
        self._settle_out_of_range(now_ms)
        for tp in list(self.subscription.awaiting_reset):
            self._losses.on_log_diverged(tp)
        return NOTHING_TO_SEND


ChildCursor: TypeAlias = CursorManagers[LagPositions]


def child_cursor(context: LagContext, buffer: FetchBuffer, losses: Losses) -> ChildCursor:
    """A cursor beside the main one. Made once, it stays on standby while it has nothing to read."""

    def publish(_: AssignmentView) -> None:
        context.main.publish()  # as a part of its view, so that the application thread sees both change at once

    # Whatever the policy, a lag is never left before its end: the log may have been cut, then it goes on there.
    config = replace(context.cursors.config, auto_offset_reset=OffsetReset(ResetKind.EARLIEST))
    return CursorManagers(
        Cursor.CHILD,
        context.cursors._replace(config=config),
        Subscription(publish, buffer.drop, context.main.epochs),
        buffer,
        partial(LagPositions, context, losses),
    )
