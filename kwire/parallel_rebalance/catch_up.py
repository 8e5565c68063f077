"""Parallel rebalance: after a crash the main cursor goes on at the end of the log, and child cursors catch up with the
lag beside it (KIP draft "enable.parallel.rebalance").

A partition whose committed position is known is held until it is known how long its lag is. If it is long enough, the
main cursor is sought to the end, and what lies in front of it is added to the partition's `CatchUpState`, beside what
earlier owners have left. From there children take their parts, the lowest first; when a part has been returned to the
application, the child takes the next one, or stays on standby. Everything here is about one assignment: when a
partition goes, so does its state, and the next owner begins with what was committed (`commits.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from kwire.config import ResetKind
from kwire.errors import OffsetOutOfRangeError
from kwire.events import EARLIEST_TIMESTAMP, Delivered, ErrorRaised, Seek
from kwire.holds import Hold
from kwire.logs import part_logger
from kwire.managers.lag_policy import LagContext, LagPolicy
from kwire.managers.unsent import NOTHING_TO_SEND, PollResult
from kwire.model import ZERO_UUID, CatchUpProgress, OffsetAndMetadata, TopicPartition
from kwire.parallel_rebalance.division import buffer_shares, first_part
from kwire.parallel_rebalance.lag import Lag, LagLookUp
from kwire.parallel_rebalance.lag_positions import LagPositions, Losses, child_cursor
from kwire.parallel_rebalance.recovery import Recovered
from kwire.parallel_rebalance.state import CatchUpState
from kwire.parallel_rebalance.token import incarnation_of
from kwire.states.partition import PartitionEvent

log = part_logger("catch_up")


class CatchUpManager(LagPolicy):
    """Decides what the children read of which lag, and when the main cursor goes on at the end of the log.

    Attributes:
        states: The partitions that have, or may have, something to catch up.
        unclaimed: Those whose token the group's log does not have yet.
    """

    def __init__(self, context: LagContext) -> None:
        shared = context.cursors
        self._config, self._metadata, self._deliver = shared.config, shared.metadata, shared.deliver
        self._main = context.main
        self._main_buffer = context.buffer
        self._new_uuid = context.new_uuid
        self.states: dict[TopicPartition, CatchUpState] = {}
        self.unclaimed: set[TopicPartition] = set()
        self._asked: dict[TopicPartition, int | None] = {}
        """Held partitions, with the assignment epoch their lag was asked for in."""
        self._changed: set[TopicPartition] = set()
        self._holds: dict[TopicPartition, set[Hold]] = {}
        """What holds the children of a partition, as the application has said."""
        self._handed_out: Sequence[Delivered] = ()
        """What the application had been handed and not come back from when it asked for progress."""
        self._now_ms = 0.0
        self._sought: set[TopicPartition] = set()
        """Partitions of which the user has said where the main cursor goes on."""
        self._seen = self._metadata.cluster
        self._lag = LagLookUp(context)
        losses = Losses(self._on_offsets_lost, self._on_log_diverged)
        self._cursors = [child_cursor(context, buffer, losses) for buffer in context.buffer.children]
        self._children = [cursor.positions for cursor in self._cursors]
        self.cursors = self._cursors
        context.main.on_removed.append(self.forget)
        for subscription in (context.main, *(cursor.subscription for cursor in self._cursors)):
            subscription.on_moved.append(self._changed.add)

    # --- a partition begins ---------------------------------------------------------------------------------

    def recovered(self, tp: TopicPartition, found: Recovered) -> None:
        """A partition is about to get its position, at `found.head`. Until its lag is known, it is not fetched."""
        partition = self._main.partitions[tp]
        self.states[tp] = CatchUpState(
            tp,
            found,
            incarnation=self._new_incarnation(),
            topic_id=self.topic_id(tp),
            main_epoch=partition.epoch,
            now_ms=self._now_ms,
        )
        self._asked[tp] = None
        self._sought.discard(tp)
        partition.holds.add(Hold.LAG_UNKNOWN)

    @property
    def held(self) -> Collection[TopicPartition]:
        """The partitions whose lag is not known yet."""
        return self._asked.keys()

    def _new_incarnation(self) -> str:
        return incarnation_of(self._new_uuid())

    def topic_id(self, tp: TopicPartition) -> UUID:
        return self._metadata.cluster.topic_id(tp.topic)

    def _look_up_lags(self) -> None:
        for tp, answer in self._lag.answers():
            if isinstance(answer, Lag):
                self._on_lag(tp, answer)
            else:
                # Its fetches will be refused for the same reason, and the user hear of it then.
                log.warning("the lag of %s cannot be looked up, so the partition is read in order: %s", tp, answer)
                self._let_go(tp)
        for tp, epoch in self._asked.items():
            partition = self._main.partitions[tp]
            if partition.has_valid_position and partition.epoch != epoch:
                self._asked[tp] = partition.epoch
                self._lag.ask(tp)

    def _on_lag(self, tp: TopicPartition, lag: Lag) -> None:
        self._follow(tp)
        state = self.states.get(tp)
        if lag.is_long and state is not None:
            position = self._main.partitions[tp].consumed
            assert position is not None
            state.commit_head(position)
            # With the epoch: should the log be cut, it is known where.
            end = OffsetAndMetadata(lag.end, leader_epoch=lag.leader_epoch)
            state.split(end, self._new_incarnation())
            log.info("%s goes on at its end, %d; to be caught up: %s", tp, lag.end, state.undone)
            self._main.fire(tp, PartitionEvent.SEEK, position=end)
            state.main_epoch = self._main.partitions[tp].epoch
            self._main.publish()
        self._let_go(tp)

    def _let_go(self, tp: TopicPartition) -> None:
        """Have the partition fetched from now on."""
        self._asked.pop(tp, None)
        if tp in self.states:
            self._claim_again(self.states[tp])
            self._changed.add(tp)
        if tp in self._main.partitions:
            self._main.partitions[tp].holds.discard(Hold.LAG_UNKNOWN)
            self._main.touched.add(tp)

    def _claim_again(self, state: CatchUpState) -> None:
        if not state.claimed and state.topic_partition not in self._asked:
            self.unclaimed.add(state.topic_partition)

    # --- the user -------------------------------------------------------------------------------------------

    def seek(self, event: Seek) -> bool:
        """Move a child, if the seek is for one; whether it was. A seek with an epoch, to fetch damaged records again,
        is for the cursor in that epoch. One into the part that a child reads is for that child. Any other seek is for
        the main cursor, which reads everything from there on."""
        self.refresh()
        tp, position = event.partition, event.position
        if event.epoch is not None:
            for child in self._children:
                child.seek_in_epoch(tp, position, event.epoch)
            partition = self._main.partitions.get(tp)
            return partition is None or partition.epoch != event.epoch
        for child in self._children:
            part = child.parts.get(tp)
            if part is not None and part.reached < position.offset < part.stop:
                self.states[tp].lose(range(part.reached, position.offset))
                child.seek(tp, position)
                return True
        self.on_reset((tp,))
        return False

    def on_reset(self, partitions: Collection[TopicPartition]) -> None:
        """The user says where the main cursor goes on: its lag is not looked up any more."""
        self._sought.update(self.states.keys() & set(partitions))
        for tp in set(partitions) & self._asked.keys():
            self._let_go(tp)

    def set_hold(self, partitions: Collection[TopicPartition], hold: Hold, is_held: bool) -> None:
        """Hold all children, those included that begin later; only of assigned partitions: nobody would end others."""
        for tp in self._main.partitions.keys() & partitions:
            holds = self._holds.setdefault(tp, set())
            holds.add(hold) if is_held else holds.discard(hold)
        for child in self._children:
            if mine := child.parts.keys() & set(partitions):
                child.subscription.hold(mine, hold) if is_held else child.subscription.unhold(mine, hold)

    def redeliver(self, tp: TopicPartition, position: OffsetAndMetadata, stop: int) -> None:
        """The application puts back the records from this position up to `stop`. The child that reads that part returns
        them again, in order; if none does any more, a free child."""
        self.refresh()
        if tp not in self.states:
            return
        again = range(position.offset, stop)
        for child in self._children:
            part = child.parts.get(tp)
            if part is not None and part.start <= again.start < part.reached:
                child.seek(tp, position)
                return
        self.states[tp].redeliver(again)
        self._changed.add(tp)

    def progress(self, handed_out: Sequence[Delivered] | None = None) -> dict[TopicPartition, CatchUpProgress]:
        self.refresh()
        if handed_out is not None:
            self._handed_out = handed_out
        return {
            tp: state.progress(self._now_ms, self._in_hand(tp))
            for tp, state in sorted(self.states.items())
            if state.undone
        }

    def _in_hand(self, tp: TopicPartition) -> list[range]:
        return [
            range(child.parts[tp].reached, position.offset)
            for key, epoch, position in self._handed_out
            for child in self._children
            if key == tp and tp in child.parts and child.subscription.partitions[tp].epoch == epoch
        ]

    def widened(self, tp: TopicPartition, timestamp: int, offset: int) -> int:
        """An end of the log as both cursors see it: no beginning behind what one of them may still return, no end in
        front of where one of them is."""
        if tp not in self.states:
            return offset
        cursors = [self._main.partitions.get(tp), *(child.subscription.partitions.get(tp) for child in self._children)]
        offsets = [cursor.consumed.offset for cursor in cursors if cursor is not None and cursor.consumed is not None]
        return min([offset, *offsets]) if timestamp == EARLIEST_TIMESTAMP else max([offset, *offsets])

    # --- what happens to positions --------------------------------------------------------------------------

    def on_delivered(self, delivered: Iterable[Delivered], *, came_back: bool) -> None:
        if came_back:
            self._handed_out = ()
        for child in self._children:
            if child.parts:
                self._changed.update(child.parts.keys() & {tp for tp, _, _ in delivered})
                self._changed.update(child.come_back() if came_back else ())

    def refresh(self) -> None:
        """Bring the states of changed partitions up to date."""
        changed = self._changed & self.states.keys()
        self._changed.clear()
        for tp in sorted(changed):
            self._follow(tp)
            if tp in self.states:
                self._update(tp)

    def _follow(self, tp: TopicPartition) -> None:
        """The main cursor may have moved, because it was out of range, or by a seek: from there on it reads everything
        itself. If another topic has the name now, all that is known is void."""
        partition, state = self._main.partitions[tp], self.states[tp]
        if self._is_recreated(state):
            self._start_over(tp)
        elif partition.has_position and partition.epoch != state.main_epoch and partition.consumed is not None:
            reading = self._update_parts(tp)
            state.main_moved(partition.consumed, partition.epoch, self._new_incarnation())
            self._claim_again(state)
            for child in reading:
                if child.parts[tp].stop > partition.consumed.offset:
                    child.end(tp, partition.consumed.offset)

    def _start_over(self, tp: TopicPartition) -> None:
        """Its topic is another one. A position in the old topic is void, as validation finds for a cursor that has been
        served from it; if only a child has been, the main cursor's position is as void.

        While nobody has been served, nobody knows which of the topics the group's offset is of. The main cursor goes on
        there, as it would without children: not at its head, which was the old topic's.
        """
        self._update_parts(tp)
        partition, state, is_sought = self._main.partitions[tp], self.states[tp], tp in self._sought
        self.forget((tp,))
        if is_sought or partition.topic_id != ZERO_UUID or not partition.has_position:
            return
        if state.is_begun:
            partition.topic_id = state.topic_id
            self._main.unvalidated.add(tp)
        elif partition.fetch_offset == state.head.offset != (low := state.low_water().offset):
            self._main.fire(tp, PartitionEvent.SEEK, position=OffsetAndMetadata(low))
            self._main.publish()

    def _update_parts(self, tp: TopicPartition) -> list[LagPositions]:
        """Note how far the children are that read of this partition; returns them."""
        reading = [child for child in self._children if tp in child.parts]
        for child in reading:
            self._update_part(child, tp)
        return reading

    def _update(self, tp: TopicPartition) -> None:
        for child in self._children:
            if tp in child.parts:
                self._update_part(child, tp)
                if child.is_over(tp):
                    child.stop((tp,))
        self.states[tp].tick(self._now_ms)
        self._close_if_done(tp)
        self._hand_out(tp)

    def _update_part(self, child: LagPositions, tp: TopicPartition) -> None:
        state, part, position = self.states[tp], child.parts[tp], child.position(tp)
        if position.offset < part.reached:
            state.read_again(position.offset, part.reached)
            part.start = min(part.start, position.offset)
        else:
            state.note_delivered(range(part.start, part.stop), position)
        part.reached = position.offset

    def _close_if_done(self, tp: TopicPartition) -> None:
        state = self.states[tp]
        if not state.undone and tp not in self._asked:
            del self.states[tp]
            self.unclaimed.discard(tp)

    def _hand_out(self, tp: TopicPartition) -> None:
        """Give the children that read nothing of this partition a part of what is left of it."""
        state = self.states.get(tp)
        if state is None or tp in self._asked:
            return
        free = state.unread()
        for child in self._children:
            if tp in child.parts:
                free -= (range(child.parts[tp].reached, child.parts[tp].stop),)
        idle = [child for child in self._children if tp not in child.parts]
        for left, child in enumerate(idle):
            part = first_part(free, len(idle) - left)
            if part is None:
                return
            self._start(child, tp, part, state.epoch_at(part.start))
            free -= (part,)

    def _start(self, child: LagPositions, tp: TopicPartition, part: range, leader_epoch: int | None) -> None:
        if child.subscription not in self._main.children:
            self._main.children.append(child.subscription)
        child.start(tp, part, leader_epoch)
        for hold in self._holds.get(tp, ()):
            child.subscription.hold((tp,), hold)

    def _on_offsets_lost(self, tp: TopicPartition, gone: range) -> None:
        """The log begins behind what was to be read. As without a child: a warning, or, without a policy, an error."""
        log.warning("%s has lost the offsets from %d to %d of what was to be caught up", tp, gone.start, gone.stop)
        self.states[tp].lose(gone)
        self._changed.add(tp)
        if self._config.auto_offset_reset.kind is ResetKind.NONE:
            self._deliver(ErrorRaised(OffsetOutOfRangeError({tp: gone.start}), self._main.epoch))

    def _on_log_diverged(self, tp: TopicPartition) -> None:
        """A new topic of that name: nothing to catch up. Else the leader does not know the epoch of what was read, and
        the child goes on where it was."""
        if self._is_recreated(self.states[tp]):
            self._start_over(tp)
            return
        for child in self._children:
            if tp in child.subscription.awaiting_reset:
                child.seek(tp, OffsetAndMetadata(child.position(tp).offset))

    def _is_recreated(self, state: CatchUpState) -> bool:
        now = self.topic_id(state.topic_partition)
        return now != state.topic_id and ZERO_UUID not in (now, state.topic_id)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These are not assigned any more: what was not committed, the next owner finds undone."""
        for child in self._children:
            child.stop(partitions)
        for tp in partitions:
            self._holds.pop(tp, None)
            self._sought.discard(tp)
        for tp in self.states.keys() & set(partitions):
            del self.states[tp]
            self.unclaimed.discard(tp)
            if tp in self._asked:
                self._let_go(tp)

    # --- the loop -------------------------------------------------------------------------------------------

    def on_poll(self) -> None:
        for child in self._children:
            self._changed.update(child.come_back())

    def poll(self, now_ms: float) -> PollResult:
        self._now_ms = now_ms
        if self._seen is not self._metadata.cluster:
            self._seen = self._metadata.cluster
            self._changed.update(self.states)  # a topic that was recreated is noticed before a child fetches from it
        self._look_up_lags()
        if self.states:
            self.refresh()
        self._share_buffer()
        return NOTHING_TO_SEND

    def _share_buffer(self) -> None:
        active = [cursor.buffer for cursor in self._cursors if cursor.positions.parts]
        total_bytes = self._config.fetch_buffer_bytes
        if not active:
            self._main_buffer.limit_bytes = total_bytes
            return
        head_bytes, child_bytes = buffer_shares(total_bytes, self._config.parallel_rebalance_head_share, len(active))
        self._main_buffer.limit_bytes = head_bytes
        for buffer in active:
            buffer.limit_bytes = child_bytes
