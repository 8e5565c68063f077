"""What each partition has in work and may commit when a consumer reads it with several cursors
(`enable_parallel_rebalance`): a tracker for each run of offsets, and one commit of all of them.

Records of the main cursor and of its children finish side by side. What a commit says of a partition is one piece,
which the group's own log gets: of what children were given, from where on each run is not finished; how far the main
cursor's are; and, as one map, what is finished behind any of these. So no crash between two commits leaves half of it.

Contract: as `CompletionTracker`, whose place this takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kwire.events import Processed, Unfinished
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition
from kwire.offset_set import NO_OFFSETS, OffsetSet
from kwire.processing.completion_tracker import CompletionTracker, Offered, Offers, PartitionProgress, Void
from kwire.processing.offset_map import LIMIT_CHARS, OffsetMap, encode
from kwire.processing.partition_queues import EVERYTHING
from kwire.processing.sources import LagOf, Source, partition_of
from kwire.processing.tracker import Offer, Tracker

# The consumer's own account of ranges goes in front of the map.
_ROOM_CHARS = 1024


@dataclass(slots=True, eq=False)
class _Run:
    """What one cursor has delivered in one assignment epoch, without a gap."""

    source: Source
    epoch: int | None
    start: int
    tracker: Tracker
    progress: PartitionProgress

    @property
    def delivered(self) -> range:
        return range(self.start, self.tracker.position)


@dataclass(slots=True, eq=False)
class _Partition:
    """Of one partition, for one assignment; `progress` stands for it."""

    progress: PartitionProgress
    finished: OffsetSet
    """By an earlier life, of what has not been delivered."""
    main: _Run | None = None
    lags: list[_Run] = field(default_factory=list)

    @property
    def runs(self) -> Iterator[_Run]:
        yield from self.lags
        if self.main is not None:
            yield self.main


class RangeCompletionTracker(CompletionTracker):
    """The completion tracker of a consumer with two cursors.

    Args:
        with_map: Whether commits say what is finished behind them.
        has_one_child: Whether all lags are read by the same one, whose records keep their order.
    """

    def __init__(self, *, with_map: bool, has_one_child: bool) -> None:
        super().__init__(with_map=with_map)
        self._has_one_child = has_one_child
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._is_lost = False
        self.to_redeliver: list[tuple[TopicPartition, OffsetAndMetadata, int]] = []
        """What was delivered, and is void although nobody is known to deliver it once more; and where it ends."""

    # --- partitions come and go -----------------------------------------------------------------------------

    def open(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None], topic_ids: Mapping[str, UUID]) -> None:
        for tp, at in committed.items():
            self._partitions[tp] = _opened(at, topic_ids[tp.topic])

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._partitions.pop(tp, None)

    def progress(self, source: Source) -> PartitionProgress | None:
        found = self._partitions.get(partition_of(source))
        return None if found is None else found.progress

    def progress_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionProgress]:
        return {tp: self._partitions[tp].progress for tp in partitions if tp in self._partitions}

    # --- what is delivered, and done ------------------------------------------------------------------------

    def source_of(self, tp: TopicPartition, cursor: Cursor, epoch: int | None, /) -> Source:
        if cursor is Cursor.MAIN:
            return tp
        return LagOf(tp) if self._has_one_child else LagOf(tp, epoch or 0)

    def overtaken(self, source: Source, first: int, behind: int, _epoch: int | None, /) -> list[Void]:
        """The main cursor reads everything from where it went back to. A child reads to the end of its part: what
        others have delivered of that counts no more."""
        found = self._partitions[partition_of(source)]
        return [(run.source, _void(run, first)) for run in _overtaken(found, source, first, behind)]

    def deliver(
        self,
        source: Source,
        offsets: Sequence[int],
        epochs: Callable[[], Sequence[int]],
        behind: OffsetAndMetadata,
        epoch: int | None = None,
        /,
    ) -> Collection[int]:
        found = self._partitions[partition_of(source)]
        first = offsets[0] if offsets else behind.offset
        for run in _overtaken(found, source, first, behind.offset):
            end = run.tracker.position
            if run is found.main:
                run.start = min(run.start, first)
            run.progress.truncate(max(run.start, first))
            if isinstance(source, LagOf) and end > behind.offset:
                self.to_redeliver.append((partition_of(source), behind, end))
        run = _run_for(found, source, first, epoch)
        _check_belief(found, offsets, epochs)
        run.tracker.deliver(offsets, behind.offset)
        run.progress.note_epoch(behind)
        known = found.finished.within(range(first, behind.offset))
        if not known:
            return offsets
        found.finished -= known
        wanted = [offset for offset in offsets if not known.covers(offset)]
        run.tracker.finish_all(set(offsets).difference(wanted))
        return wanted

    def finish(self, source: Source, offsets: Iterable[int]) -> None:
        done = set(offsets)
        for run in self._partitions[partition_of(source)].runs:
            if run.source == source:
                run.tracker.finish_all(done)

    def lose_track(self) -> None:
        """Somebody may have been given records that are not in here: of lags nothing more is known to be done."""
        self._is_lost = True

    # --- what is committed ----------------------------------------------------------------------------------

    def offers(self, partitions: Iterable[TopicPartition] | None = None) -> Offers:
        offers: Offers = {}
        for tp in sorted(self._partitions) if partitions is None else sorted(partitions):
            if (found := self._partitions.get(tp)) is None:
                continue
            found.lags = [run for run in found.lags if run.tracker.unfinished or not run.tracker.is_clean]
            parts = [(run.tracker, offer) for run in found.runs if (offer := run.tracker.offer()) is not None]
            if parts:
                offers[tp] = Offered(tuple(parts), processed=self._processed(found))
        return offers

    def _processed(self, found: _Partition) -> Processed:
        latest = [(run, run.tracker.latest) for run in found.runs]
        unfinished = [
            Unfinished(range(offer.base, run.tracker.position), run.progress.epoch_at(offer.base))
            for run, offer in latest
            if run is not found.main and run.tracker.unfinished
        ]
        head = None
        if found.main is not None:
            base = latest[-1][1].base
            head = OffsetAndMetadata(base, leader_epoch=found.main.progress.epoch_at(base))
        if self._is_lost:
            unfinished = [Unfinished(EVERYTHING)]
        return Processed(head, tuple(unfinished), *self._metadata(found, latest))

    def _metadata(self, found: _Partition, latest: Sequence[tuple[_Run, Offer]]) -> tuple[str, int | None]:
        """And where it ends: of what an earlier life finished in front of its head nothing is delivered any more, so
        only the network thread, which knows all that is left to catch up, can say when it is not needed any more."""
        if not self._with_map or found.progress.foreign_metadata:
            return found.progress.foreign_metadata, None
        seen = [epoch for run, _ in latest if (epoch := run.progress.newest_epoch) is not None]
        newest, believed = max(seen, default=None), found.progress.believed_epoch
        left = NO_OFFSETS
        done = [part for run, offer in latest for part in (range(run.start, offer.base), *offer.finished)]
        if newest is None or (believed is not None and newest <= believed):
            newest = believed
            left = found.finished  # else those who read the map would believe of it what may have been written anew
        done += left
        # What an earlier life finished of a lag nobody has begun with is in front of everything that was delivered.
        base = min([offer.base for _, offer in latest] + [max(0, part.start - 1) for part in left[:1]])
        finished = OffsetSet(done) - (range(base),)
        if finished and finished[0].start == base:  # all of it is done up to there
            base, finished = finished[0].stop, finished - finished[:1]
        if not finished:
            return "", None
        known = OffsetMap(found.progress.topic_id, newest, finished)
        return encode(base, known, limit_chars=LIMIT_CHARS - _ROOM_CHARS), finished[-1].stop

    def begins_at(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Of the main cursor."""
        found = self._partitions.get(tp)
        if found is None or found.main is None:
            return None
        base = found.main.tracker.next_to_do
        return OffsetAndMetadata(base, leader_epoch=found.main.progress.epoch_at(base))

    def left_of_lags(self, tp: TopicPartition) -> list[tuple[OffsetAndMetadata, int]]:
        """What children have delivered of it and is not finished: from where to where."""
        found = self._partitions.get(tp)
        left = [run for run in found.lags if run.tracker.unfinished] if found is not None else []
        bases = [(run, run.tracker.next_to_do) for run in left]
        return [
            (OffsetAndMetadata(base, leader_epoch=run.progress.epoch_at(base)), run.tracker.position)
            for run, base in bases
        ]


def _opened(at: OffsetAndMetadata | None, topic_id: UUID) -> _Partition:
    progress = PartitionProgress(None, topic_id)
    return _Partition(progress, NO_OFFSETS if at is None else progress.take_over(at))


def _overtaken(found: _Partition, source: Source, first: int, behind: int) -> list[_Run]:
    later = [run for run in found.runs if first < run.tracker.position]
    if isinstance(source, LagOf):
        return [run for run in later if run is not found.main and run.start < behind]
    return later


def _void(run: _Run, first: int) -> range:
    return range(max(first, run.start), run.tracker.position)


def _run_for(found: _Partition, source: Source, first: int, epoch: int | None) -> _Run:
    """The main cursor's, whatever it passes over; of a child's epoch, or a new one."""
    is_main = not isinstance(source, LagOf)
    run = found.main if is_main else next((run for run in found.lags if run.epoch == epoch), None)
    if run is not None:
        return run
    tracker = Tracker(first)
    run = _Run(source, epoch, first, tracker, PartitionProgress(tracker, found.progress.topic_id))
    if is_main:
        found.main = run
    else:
        found.lags.append(run)
    return run


def _check_belief(found: _Partition, offsets: Sequence[int], epochs: Callable[[], Sequence[int]]) -> None:
    """What is newer than the map of the earlier life was written after it was made, and so was what lies behind it."""
    believed = found.progress.believed_epoch
    if not found.finished or believed is None:
        return
    newer = (offset for offset, epoch in zip(offsets, epochs(), strict=True) if epoch > believed)
    if (cut := next(newer, None)) is not None:
        found.finished = found.finished.within(range(cut))
