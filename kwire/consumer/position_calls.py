"""Calls about positions: where each partition is read next, and whether it is read at all."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Generic

from kwire.clock import Deadline
from kwire.consumer.arguments import Timeout, checked_partitions, checked_position
from kwire.consumer.background_events import discard_position_errors
from kwire.consumer.polling import Polling
from kwire.consumer.state import ConsumerState
from kwire.consumer.steps import Steps
from kwire.epochs import AssignmentEpoch
from kwire.events import (
    GetLag,
    GetLogEnds,
    GetPosition,
    PollStarted,
    Redeliver,
    Reply,
    ResetPositions,
    ResetTo,
    Seek,
    SetHold,
)
from kwire.fetching.cursor_collector import Collected
from kwire.fetching.partition_records import PartitionRecords
from kwire.holds import Hold
from kwire.model import Cursor, K, LogEnds, OffsetAndMetadata, TopicPartition, V


class PositionCalls(Generic[K, V]):
    """The calls about positions. Part of a `ConsumerSession`."""

    def __init__(self, state: ConsumerState[K, V], polling: Polling[K, V]) -> None:
        self._state = state
        self._link = state.link
        self._polling = polling
        self._under_way: list[Reply[None]] = []
        """Replies to what the network thread was told, and may not have handled yet: a poll that is about to return
        records waits for them."""
        self._awaits_poll = False
        """Whether the network thread looks up positions when it hears of the next poll."""

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> Steps[None]:
        """See `Consumer.seek`."""
        tp = self._state.checked_own(partition)
        position = checked_position(tp, offset)
        self._state.delivery.interrupt()
        if not self._polling.seek_in_buffer(tp, position):
            self._state.note_delivered_of(tp)
            yield from self._link.command("seek", partial(Seek, tp, position))
            self._end_seek()

    def seek_within(self, tp: TopicPartition, position: OffsetAndMetadata, epoch: AssignmentEpoch) -> Steps[None]:
        """Seek with the cursor whose assignment epoch this is, if it still is."""
        yield from self._link.command("seek", partial(Seek, tp, position, epoch=epoch))

    def reset(self, partitions: Collection[TopicPartition], to: ResetTo) -> Steps[None]:
        """See `Consumer.seek_to_beginning`."""
        wanted = checked_partitions(partitions) or self._state.assignment
        if not wanted:
            return
        self._state.check_assigned(wanted)
        self._state.delivery.interrupt()
        self.await_poll()
        yield from self._link.command("seek", lambda reply: ResetPositions(wanted, to, reply))
        self._end_seek()

    def _end_seek(self) -> None:
        self._state.delivery.sought(self._state.view)
        discard_position_errors(self._link.mailbox)

    def position(self, partition: TopicPartition, timeout: Timeout | None) -> Steps[int]:
        """See `Consumer.position`."""
        tp = self._state.checked_own(partition)
        known = self._polling.local_position(tp)
        if known is not None:
            return known
        return (yield from self._link.ask(f"position of {tp}", lambda reply: GetPosition(tp, reply), timeout))

    def ask_position(self, partition: TopicPartition) -> Reply[int]:
        """`position`, without waiting: answered when there is one, or the reply is abandoned."""
        return self._link.post(partial(GetPosition, partition))

    def current_lag(self, partition: TopicPartition) -> Steps[int | None]:
        """See `Consumer.current_lag`."""
        tp = self._state.checked_own(partition)
        position = self._polling.local_position(tp)
        return (yield from self._link.command("current_lag", lambda reply: GetLag(tp, position, reply)))

    def log_ends(self, partition: TopicPartition) -> Steps[LogEnds | None]:
        """Where the log of an assigned partition ends, as of the last fetch; None while none has told it."""
        tp = self._state.checked_own(partition)
        return (yield from self._link.command("log_ends", lambda reply: GetLogEnds(tp, reply)))

    # --- whether it is read ---------------------------------------------------------------------------------

    def set_paused(self, partitions: Collection[TopicPartition], *, paused: bool) -> None:
        """See `Consumer.pause` and `Consumer.resume`."""
        wanted = checked_partitions(partitions)
        self._state.check_assigned(wanted)
        if paused:
            self._state.delivery.interrupt()
        self._tell(partial(SetHold, wanted, Hold.USER_PAUSED, paused))

    def set_backpressure(self, partitions: Collection[TopicPartition], cursor: Cursor, *, is_on: bool) -> None:
        """Stop fetching and returning what one of the cursors reads of these, or go on; `paused` does not show it."""
        wanted = checked_partitions(partitions)
        self._tell(partial(SetHold, wanted, Hold.BACKPRESSURE, is_on, cursor=cursor))

    def redeliver(self, partition: TopicPartition, position: OffsetAndMetadata, stop: int) -> None:
        """Return once more what a child has read from this position on up to `stop`."""
        tp = self._state.checked_own(partition)
        self._state.interrupt_loop()
        self._tell(partial(Redeliver, tp, position, stop))

    def pass_again(self, chunk: PartitionRecords[K, V]) -> None:
        """Have a later poll return this chunk once more, which has a position and no records."""
        self._state.delivery.pending.append(Collected.of(chunk))

    def paused(self) -> Steps[frozenset[TopicPartition]]:
        """See `Consumer.paused`."""
        yield from self.settle()
        return self._state.view.paused & self._state.assignment

    def _tell(self, event: Callable[[Reply[None]], SetHold | Redeliver]) -> None:
        """Without waiting for a turn of the network thread."""
        self._under_way.append(self._link.post(event))

    def await_poll(self) -> None:
        """Have the next poll begin look-ups, also if it has records of other partitions.

        Call this before the network thread is told what to look up: a poll that waits in another task is woken by the
        answer, and an exception may strike any line behind.
        """
        self._awaits_poll = True

    @property
    def are_settled(self) -> bool:
        """Whether a poll has nothing to look after here."""
        return not (self._under_way or self._awaits_poll)

    def settle_in_poll(self) -> Steps[None]:
        """As `settle`; the look-ups that wait for a poll begin."""
        if self._awaits_poll:
            self._link.mailbox.post(PollStarted())
            self._awaits_poll = False
        yield from self.settle()

    def settle(self) -> Steps[None]:
        """Until the network thread has looked at what it was told, and the view shows it."""
        while self._under_way:
            deadline = Deadline.after(self._state.config.default_api_timeout_ms)
            first = self._under_way[0]
            yield from self._link.wait_for(first, "pause", deadline, wakeable=False)
            if first in self._under_way:  # else another task has waited for it as well
                self._under_way.remove(first)
