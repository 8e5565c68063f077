"""What the application was handed: the one record of positions that the application thread owns.

The last poll's records count as delivered when the application comes back: with the next poll, with a commit of all
that was returned, or when it closes. If it left an iteration over them in the middle, closing counts them up to there.
Until then no auto-commit may cover them, except those in front of offsets that it commits itself. A `for` loop over the
consumer counts up to the record it is at. When it is left, the next poll first hands out the records that it has not
seen.

An exception of a signal handler (Ctrl-C, a time limit) may strike between any two lines of a poll. So a poll collects
into `pending` and hands out by one assignment. Only the next call counts its records as returned: a poll that raises
puts back what it was about to return, and the next one hands it out first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeAlias

from kwire.clock import monotonic_ms
from kwire.consumer.failure_watch import FailureWatch
from kwire.epochs import AssignmentEpoch
from kwire.events import AssignmentView, Delivered
from kwire.fetching.columns import Records
from kwire.fetching.cursor_collector import Collected, Pending, settle_last
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import K, OffsetAndMetadata, Record, TopicPartition, V

# A loop polls at least this often, however long its body takes for a record: then the member counts as alive, what the
# loop has seen may be committed, and a rebalance goes on.
LOOP_MS = 100.0


class _InHand(NamedTuple):
    """A record that the application is at, and the assignment epoch of its chunk."""

    topic_partition: TopicPartition
    epoch: int | None
    offset: int


class _Loop(Generic[K, V]):
    """A `for` loop over what one poll returned.

    Attributes:
        current: The record that the loop is at.
        has_seen_current: False if an exception came before the loop's body was given that record.
        is_over: Whether the loop was left, or goes on elsewhere.
        due_ms: When the next poll is due; before that, the loop gets one record at least.
        goes_on: Whether it is behind records of the same poll that were taken at once.
    """

    __slots__ = ("_seen_before", "chunks", "current", "due_ms", "goes_on", "has_seen_current", "is_over")

    def __init__(
        self, chunks: Sequence[PartitionRecords[K, V]], due_ms: float, seen_before: Sequence[Delivered] = ()
    ) -> None:
        self.current: Record[K, V] | None = None
        self.has_seen_current = True
        self.is_over = False
        self.due_ms = due_ms
        self.goes_on = bool(seen_before)
        # Behind the last records of a partition there may be more to skip: transaction markers, aborted records.
        ends = {(chunk.topic_partition, chunk.epoch): chunk.next for chunk in chunks}
        full = [chunk for chunk in chunks if len(chunk)]
        last = {(chunk.topic_partition, chunk.epoch): chunk for chunk in full}
        self.chunks = [
            replace(chunk, next=ends[key])
            if chunk is last[key := (chunk.topic_partition, chunk.epoch)] and chunk.next != ends[key]
            else chunk
            for chunk in full
        ]
        nothing_to_see = [chunk.delivered for chunk in chunks if chunk.delivered[:2] not in last]
        self._seen_before = _last_of_each([*seen_before, *nothing_to_see])

    def is_due(self) -> bool:
        """Whether the next poll comes before the next record."""
        return (self.goes_on or self.current is not None) and monotonic_ms() >= self.due_ms

    def in_hand(self) -> _InHand | None:
        """The record that it is at."""
        record = self.current
        if record is None:
            return None
        epoch = next((chunk.epoch for chunk in self.chunks if _row_of(record, chunk) is not None), None)
        return _InHand(TopicPartition(record.topic, record.partition), epoch, record.offset)

    def whole(self) -> list[Delivered]:
        """What the loop has seen at its end."""
        return [*self._seen_before, *(chunk.delivered for chunk in self.chunks)]

    def split(self) -> tuple[list[Delivered], list[PartitionRecords[K, V]]]:
        """What the loop has seen, the current record included, and what it has not."""
        index, row = self._place(self.current, is_seen=self.has_seen_current)
        chunks = self.chunks[index:]
        if row:
            chunks[:1] = [chunks[0].behind(row - 1)] if row < len(chunks[0]) else []
        return self._in_front_of(index, row), chunks

    def seen(self) -> list[Delivered]:
        """What the loop has seen, the current record included."""
        return self._in_front_of(*self._place(self.current, is_seen=self.has_seen_current))

    def in_front(self) -> Sequence[Delivered]:
        """What lies in front of the record that the loop is at; nothing before its first one."""
        current = self.current  # read once: the loop may go on in another thread
        return () if current is None else self._in_front_of(*self._place(current, is_seen=False))

    def _place(self, current: Record[K, V] | None, *, is_seen: bool) -> tuple[int, int]:
        """Where the first record is that the loop has not seen: which chunk, and which row of it. With `is_seen` it is
        the one behind the record that the loop is at, else that one."""
        if current is None:
            return 0, 0
        for index, chunk in enumerate(self.chunks):
            if (row := _row_of(current, chunk)) is not None:
                return index, row + is_seen
        return len(self.chunks), 0

    def _in_front_of(self, index: int, row: int) -> list[Delivered]:
        """What lies in front of this row of this chunk."""
        seen = [*self._seen_before, *(chunk.delivered for chunk in self.chunks[:index])]
        if row:
            chunk = self.chunks[index]
            seen.append((chunk.topic_partition, chunk.epoch, chunk.position_behind(row - 1)))
        return seen


class _HandedOut(NamedTuple, Generic[K, V]):
    """What the last poll returned, and what is to be returned by the next ones.

    Attributes:
        pending: What was collected and not returned; what a loop that was left has not seen.
        chunks: What the last poll returned, until the application comes back.
        delivered: How far the application got, once it comes back; empty if the network thread knows already.
        loop: The loop that walks through the chunks.
        in_hand: Where it was, if it was interrupted. Its body may still fail over that.
        has_failed: Whether the application failed, and what it failed over is no part of `delivered`.
    """

    pending: Pending[K, V]
    chunks: Sequence[PartitionRecords[K, V]] = ()
    delivered: Sequence[Delivered] = ()
    loop: _Loop[K, V] | None = None
    in_hand: _InHand | None = None
    has_failed: bool = False


LoopMark: TypeAlias = tuple[_HandedOut[K, V], Record[K, V] | None]


class Delivery(Generic[K, V]):
    """What polls have handed to the application, and how far it got. Used by the application thread; the network
    thread asks for `in_front_of_loop` alone."""

    def __init__(self) -> None:
        self._now: _HandedOut[K, V] = _HandedOut([])
        self._returned = self._now
        """What the last poll that has returned handed out: what a poll that raised handed out, nobody has."""
        self.records: Records[K, V] | None = None
        """What the last poll has returned, or was about to."""
        self._passed: list[PartitionRecords[K, V]] = []
        """See `passed`."""
        self._failures = FailureWatch()

    @property
    def pending(self) -> Pending[K, V]:
        """Where a poll collects into."""
        return self._now.pending

    @property
    def is_all_handed_out(self) -> bool:
        """Whether nothing that was collected is left: not pending, and not in a loop."""
        now = self._now
        return now.loop is None and not now.pending

    @property
    def is_in_loop(self) -> bool:
        """Whether a loop has not come to the end of what it walks through."""
        return self._now.loop is not None

    # --- a poll ---------------------------------------------------------------------------------------------

    def come_back(self) -> None:
        """A poll begins: the one before has returned, or has put back what it was about to return."""
        self._returned = self._now
        self.records = None
        self._failures.begin()
        if self._passed:
            self._passed = []

    def has_due(self, view: AssignmentView) -> bool:
        """Whether records are pending that may be returned now."""
        pending = self._now.pending
        return bool(pending) and any(entry.records and _is_due(entry.chunk, view) for entry in pending)

    def due_count(self, view: AssignmentView) -> int:
        """How many records are pending that may be returned now."""
        pending = self._now.pending  # nothing, as a rule
        return sum(entry.records for entry in pending if _is_due(entry.chunk, view)) if pending else 0

    def hand_out(
        self, view: AssignmentView, max_records: int, *, to_loop: bool = False
    ) -> Sequence[PartitionRecords[K, V]]:
        """A poll is about to return the pending chunks that are due, up to this many records; for a loop, all of them.
        If none of them has a record, it returns nothing, and they become `passed`.

        Chunks that a seek or a rebalance has made stale are dropped; those of a paused partition wait for `resume`.
        """
        pending = self._now.pending
        settle_last(pending)
        chunks: list[PartitionRecords[K, V]] = []
        waiting: list[Collected[K, V]] = []
        records = 0
        for entry in pending:
            chunk = entry.chunk
            if _is_due(chunk, view):
                chunks.append(chunk)
                records += entry.records
            elif view.is_current(chunk.topic_partition, chunk.epoch):
                waiting.append(Collected(chunk, entry.records))
        # Collected for a larger poll, or while their partitions were paused. A loop leaves what it has not seen anyway.
        if records > max_records and not to_loop:
            chunks, rest = _parted(chunks, max_records)
            waiting = [*map(Collected.of, rest), *waiting]
        self._hand_out(chunks, waiting, to_loop=to_loop)
        if records:
            return chunks
        self._passed += chunks
        return ()

    def hand_out_only(self, chunk: PartitionRecords[K, V], *, to_loop: bool = False) -> None:
        """As `hand_out`, where this is all that is pending, and is due."""
        self._hand_out((chunk,), [], to_loop=to_loop)

    def _hand_out(self, chunks: Sequence[PartitionRecords[K, V]], waiting: Pending[K, V], *, to_loop: bool) -> None:
        if to_loop:
            self._now = _HandedOut(waiting, chunks, (), _Loop(chunks, monotonic_ms() + LOOP_MS))
        else:
            self._now = _HandedOut(waiting, chunks, [chunk.delivered for chunk in chunks])

    def passed(self, view: AssignmentView) -> Sequence[PartitionRecords[K, V]]:
        """The chunks without records that this poll has met before it had any: they say where it goes on."""
        return [chunk for chunk in self._passed if _is_due(chunk, view)] if self._passed else ()

    def put_back(self) -> None:
        """The poll that was about to return this has raised: the next one returns it. One that raised before it had
        anything may have ended a loop: what that has seen stays delivered."""
        now = self._now
        if now is not self._returned and now.chunks:
            self._now = _HandedOut([*map(Collected.of, now.chunks), *now.pending])

    # --- a loop ---------------------------------------------------------------------------------------------

    def iterate(self) -> Iterator[Record[K, V]]:
        """The records of the last poll one by one, keeping track of how far the loop got.

        Ends early when it is interrupted, and when the next poll is due, which returns the rest.
        """
        loop = self._now.loop
        if loop is None or loop.is_due():
            return
        for record in Records(loop.chunks):
            try:
                loop.current = record
                yield record
            except GeneratorExit:  # the loop was left
                raise
            except BaseException:  # of a signal handler: the loop's body was not given the record
                loop.has_seen_current = loop.current is not record
                raise
            if loop.is_over or monotonic_ms() >= loop.due_ms:
                return
        self._now = _HandedOut(self._now.pending, (), loop.whole())

    def take(
        self, max_records: int, partitions: Collection[TopicPartition] | None = None
    ) -> Sequence[PartitionRecords[K, V]]:
        """The next records of the loop at once, at most `max_records`, only of `partitions` if they are given; none
        when the next poll is due. The loop goes on behind them."""
        loop = self._now.loop
        if loop is None or loop.is_due():
            return ()
        seen, unseen = loop.split()
        others = [] if partitions is None else [each for each in unseen if each.topic_partition not in partitions]
        wanted = unseen if partitions is None else [each for each in unseen if each.topic_partition in partitions]
        taken, rest = _parted(wanted, max_records)
        rest += others
        behind = _Loop(rest, loop.due_ms, [*seen, *(chunk.delivered for chunk in taken)])
        pending = self._now.pending
        self._now = _HandedOut(pending, (), (), behind) if rest else _HandedOut(pending, (), behind.whole())
        return taken

    def not_seen(self) -> None:
        """The record that the loop is at has not reached the application."""
        if self._now.loop is not None:
            self._now.loop.has_seen_current = False

    def mark(self) -> LoopMark[K, V]:
        """Where the loop is."""
        now = self._now
        return now, None if now.loop is None else now.loop.current

    def go_back(self, mark: LoopMark[K, V]) -> None:
        """Go back to where the loop was then: what it has passed since has not reached the application."""
        self._now, current = mark
        if (loop := self._now.loop) is not None:
            loop.current, loop.has_seen_current = current, True

    def interrupt(self) -> None:
        """The loop was left, or goes on elsewhere (a seek, a pause): what it has not seen is for the next poll."""
        now = self._now
        if now.loop is not None:
            delivered, unseen = now.loop.split()
            pending = [*map(Collected.of, unseen), *now.pending]
            self._now = _HandedOut(pending, (), delivered, in_hand=now.loop.in_hand())
            now.loop.is_over = True

    # --- what is delivered ----------------------------------------------------------------------------------

    def so_far(self) -> Sequence[Delivered]:
        """The application came back: what it has been handed since it was told last."""
        now = self._now
        return now.delivered if now.loop is None else now.loop.seen()

    def in_front_of_loop(self) -> Sequence[Delivered]:
        """Network thread: what a loop has passed, without the record that it is at. Its body may take long over that
        one, and says nothing meanwhile."""
        loop = self._now.loop
        return () if loop is None else loop.in_front()

    def up_to(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Sequence[Delivered]:
        """`so_far`, cut at these offsets. An offset behind what a cursor has handed out is for another cursor."""
        return [
            (tp, epoch, OffsetAndMetadata(at.offset, leader_epoch=at.leader_epoch))
            for tp, epoch, position in self.so_far()
            if (at := offsets.get(tp)) is not None and at.offset <= position.offset
        ]

    def sought(self, view: AssignmentView, in_buffer: TopicPartition | None = None) -> None:
        """Forget how far the application got in epochs that a seek has ended. A seek within the buffer ends no epoch,
        so it names its partition (`in_buffer`)."""
        now = self._now
        left = [
            entry
            for entry in now.delivered
            if entry[0] != in_buffer and view.is_current(entry[0], AssignmentEpoch(entry[1]))
        ]
        if len(left) < len(now.delivered):
            self._now = now._replace(chunks=(), delivered=left)

    def told(self) -> None:
        """The network thread knows how far the application got."""
        if self._now.loop is None:
            self._now = _HandedOut(self._now.pending)
            self.records = None
            self._returned = self._now  # which holds no records that the application has let go of

    def is_failing(self) -> bool:
        """See `FailureWatch`."""
        return self._failures.is_failing()

    def abandon(self) -> None:
        """The application failed over what it was handed last: that must be handed out again.

        It may tell twice: the task that loops is cancelled, and the `async with` block that it is in fails.
        """
        if self._now.has_failed:
            return
        loop = self._now.loop
        failed_at = self._now.in_hand if loop is None else loop.in_hand()
        if failed_at is None:
            self._now = _HandedOut(self._now.pending)
        else:
            capped = [_capped(entry, *failed_at) for entry in self.so_far()]
            self._now = _HandedOut(self._now.pending, (), capped, has_failed=True)
        if loop is not None:
            loop.is_over = True

    def leave(self) -> None:
        """The consumer is closed. If the application has left an iteration over what a poll returned (`Records`) in the
        middle, it has got as far as that."""
        reached = None if self.records is None else self.records._reached()
        if reached is None or self._now.loop is not None:
            return
        known = {entry[:2] for entry in self._now.delivered}  # without those that a seek has ended
        self._now = self._now._replace(chunks=(), delivered=[entry for entry in reached if entry[:2] in known])

    def clear(self) -> None:
        """Nothing is subscribed any more; a loop ends."""
        self._failures.end()
        loop, self._now = self._now.loop, _HandedOut([])
        if loop is not None:
            loop.is_over = True

    def position(self, tp: TopicPartition, epoch: AssignmentEpoch) -> int | None:
        """The offset behind what was handed out of this partition last, if it was in this assignment."""
        found = [position.offset for key, at, position in self.so_far() if key == tp and at == epoch]
        return found[-1] if found else None


def _is_due(chunk: PartitionRecords[K, V], view: AssignmentView) -> bool:
    tp, epoch = chunk.topic_partition, chunk.epoch
    if not view.children:  # as a rule, and each poll asks
        return view.epochs.get(tp) == epoch and tp not in view.withheld
    return view.is_current(tp, epoch) and not view.withholds(tp, epoch)


def _row_of(record: Record[K, V], chunk: PartitionRecords[K, V]) -> int | None:
    """Where the record is in the chunk."""
    columns = chunk.columns
    if chunk.topic_partition != (record.topic, record.partition) or not len(columns):
        return None
    is_inside = columns.first_offset <= record.offset <= columns.last_position[0]
    return columns.row_of(record.offset) if is_inside else None


def _parted(
    chunks: Sequence[PartitionRecords[K, V]], max_records: int
) -> tuple[list[PartitionRecords[K, V]], list[PartitionRecords[K, V]]]:
    """The chunks in two parts: at most `max_records` records, and the rest."""
    taken: list[PartitionRecords[K, V]] = []
    for index, chunk in enumerate(chunks):
        if max_records < len(chunk):
            if max_records:
                taken.append(chunk.up_to(max_records - 1))
            return taken, [chunk.behind(max_records - 1), *chunks[index + 1 :]]
        taken.append(chunk)
        max_records -= len(chunk)
    return taken, []


def _last_of_each(delivered: Sequence[Delivered]) -> list[Delivered]:
    """The last entry of each partition and epoch."""
    return list({entry[:2]: entry for entry in delivered}.values())


def _capped(entry: Delivered, tp: TopicPartition, failed_in: int | None, offset: int) -> Delivered:
    key, epoch, position = entry
    return (
        entry
        if (key, epoch) != (tp, failed_in)
        else (key, epoch, OffsetAndMetadata(offset, leader_epoch=position.leader_epoch))
    )
