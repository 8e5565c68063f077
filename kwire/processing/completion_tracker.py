"""What each partition has in work and may commit, and the way to and from a commit's metadata.

Records of a partition finish out of order, and with parallel rebalance those of several cursors side by side. A commit
says all of it in one piece, so no crash between two commits leaves half of it.

Contract: pure, and of one thread: the processor's. What others wrote into the metadata of commits is left as it is;
then nothing is said of what is finished behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kwire.epochs import AssignmentEpoch
from kwire.events import ProcessedOffsets, Unfinished
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition
from kwire.offset_set import OffsetSet
from kwire.processing.offset_map import LIMIT_CHARS, OffsetMap, encode
from kwire.processing.partition_progress import CursorProgress, PartitionProgress
from kwire.processing.partition_queues import EVERYTHING
from kwire.processing.sources import LagOf, Source, partition_of
from kwire.processing.tracker import Committable, Tracker

# Room for the token of parallel rebalance, which stands in front of the map.
_ROOM_CHARS = 1024


class Offered(NamedTuple):
    """What is to be committed of a partition.

    Attributes:
        parts: Whose it is.
        position: The commit, if there is one cursor.
        processed: The commit, if there are several.
    """

    parts: tuple[tuple[Tracker, Committable], ...]
    position: OffsetAndMetadata | None = None
    processed: ProcessedOffsets | None = None


Offers: TypeAlias = dict[TopicPartition, Offered]
SupersededRange: TypeAlias = tuple[Source, range]
"""Offsets of a source that are delivered once more: what was delivered with them before counts no more."""


class CompletionTracker:
    """Knows of each partition which records are done, and what may be committed.

    Args:
        with_map: Whether commits say what is finished behind them.
        children: How many cursors catch up with lags beside the main one.
    """

    def __init__(self, *, with_map: bool, children: int = 0) -> None:
        self._with_map = with_map
        self._children = children
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self._is_lost = False
        self.has_begun = False
        """Whether, since its owner looked, a partition of which the group has no commit was given its beginning."""
        self.to_redeliver: list[tuple[TopicPartition, OffsetAndMetadata, int]] = []
        """Ranges delivered by a cursor that has moved back since, each with its end: to be delivered again."""

    # --- partitions come and go -----------------------------------------------------------------------------

    def open(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None], topic_ids: Mapping[str, UUID]) -> None:
        """Partitions were assigned, with what their group has committed, and which topics they are of."""
        for tp, at in committed.items():
            progress = self._partitions[tp] = PartitionProgress(topic_ids[tp.topic], has_commit=at is not None)
            if at is not None:
                progress.take_over(at)
                if not self._children:  # else the cursors begin where the ranges in the commit say
                    progress.cursor_for(tp, at.offset, None).note_position(at)

    def begin(self, tp: TopicPartition, position: int) -> None:
        """This is where a partition begins, if nothing of it was delivered."""
        if (progress := self._partitions.get(tp)) is not None and progress.main is None:
            self.deliver(tp, (), list, OffsetAndMetadata(position))

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are not ours any more."""
        for tp in partitions:
            self._partitions.pop(tp, None)

    def progress(self, source: Source) -> PartitionProgress | None:
        """The progress of the partition in its assignment of now; the object stands for the assignment."""
        return self._partitions.get(partition_of(source))

    def progress_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionProgress]:
        """The progress of those that are open now."""
        return {tp: self._partitions[tp] for tp in partitions if tp in self._partitions}

    # --- what is delivered, and done ------------------------------------------------------------------------

    def source_of(self, tp: TopicPartition, cursor: Cursor, epoch: AssignmentEpoch | None, /) -> Source:
        """Where records that a cursor has read, in this assignment epoch, belong to. One child keeps their order."""
        if cursor is Cursor.MAIN:
            return tp
        return LagOf(tp) if self._children == 1 else LagOf(tp, epoch or 0)

    def overtaken(self, source: Source, first: int, behind: int) -> list[SupersededRange]:
        """The ranges that count no more once records from `first` on are delivered, which end in front of `behind`."""
        overtaken = self._partitions[partition_of(source)].overtaken(source, first, behind)
        return [(each.source, range(max(first, each.start), each.tracker.position)) for each in overtaken]

    def deliver(
        self,
        source: Source,
        offsets: Sequence[int],
        epochs: Callable[[], Sequence[int]],
        behind: OffsetAndMetadata,
        epoch: AssignmentEpoch | None = None,
        /,
    ) -> Collection[int]:
        """Records of a partition that is open have come; which of them are to be worked on. Their leader epochs are
        asked for when they matter.

        A position that has moved back says that the log was cut, or that the cursor takes over what others have read:
        what was delivered from there on counts no more (`Tracker.truncate`).
        """
        progress = self._partitions[partition_of(source)]
        first = offsets[0] if offsets else behind.offset
        self._truncate(progress, source, first, behind)
        begins = progress.main is None and not progress.has_commit
        cursor = progress.cursor_for(source, first, epoch)
        self.has_begun = self.has_begun or (begins and cursor is progress.main)
        begin = cursor.tracker.position
        cursor.tracker.deliver(offsets, behind.offset)
        cursor.note_position(behind)
        if not progress.finished:  # by an earlier owner: as a rule nothing is
            return offsets
        progress.cut_map(offsets, epochs)
        # Offsets that the only cursor passes over do not come any more; with several, another cursor may read them.
        known = progress.finished.within(range(first if self._children else begin, behind.offset))
        if not known:
            return offsets
        progress.finished -= known
        wanted = [offset for offset in offsets if not known.covers(offset)]
        cursor.tracker.finish_all(set(offsets).difference(wanted))
        return wanted

    def _truncate(self, progress: PartitionProgress, source: Source, first: int, behind: OffsetAndMetadata) -> None:
        for cursor in progress.overtaken(source, first, behind.offset):
            end = cursor.tracker.position
            if cursor is progress.main:
                cursor.start = min(cursor.start, first)
                if not self._children:  # the log was cut: nothing else takes the only cursor back
                    progress.finished = progress.finished.below(first)
            cursor.truncate(max(cursor.start, first))
            if isinstance(source, LagOf) and end > behind.offset:
                self.to_redeliver.append((partition_of(source), behind, end))

    def finish(self, source: Source, offsets: Iterable[int]) -> None:
        """Records are done with."""
        cursors = [each for each in self._partitions[partition_of(source)].cursors if each.source == source]
        done = offsets if len(cursors) == 1 else set(offsets)  # it may be an iterator
        for cursor in cursors:
            cursor.tracker.finish_all(done)

    def lose_track(self) -> None:
        """Records may have been handed out that are not in here: from now on nothing of a lag counts as done."""
        self._is_lost = True

    # --- what is committed ----------------------------------------------------------------------------------

    def offers(self, partitions: Iterable[TopicPartition] | None = None) -> Offers:
        """What is to be committed: of these partitions, or of all."""
        offers: Offers = {}
        for tp in sorted(self._partitions if partitions is None else partitions):
            if (progress := self._partitions.get(tp)) is None:
                continue
            progress.lags = [lag for lag in progress.lags if lag.tracker.unfinished or not lag.tracker.is_clean]
            trackers = [cursor.tracker for cursor in progress.cursors]
            parts = tuple((tracker, offer) for tracker in trackers if (offer := tracker.offer()) is not None)
            if parts and self._children:
                offers[tp] = Offered(parts, processed=self._processed(progress))
            elif parts:
                offers[tp] = Offered(parts, position=self._position(progress))
        return offers

    def acknowledged(self, offers: Offers, progress: Mapping[TopicPartition, PartitionProgress]) -> None:
        """The broker has these; of partitions that were given up since they were offered, nobody need know."""
        for tp, offered in offers.items():
            now = self.progress(tp)
            if now is not None and now is progress.get(tp):
                for tracker, offer in offered.parts:
                    tracker.acknowledged(offer)

    def begins_at(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Where the main cursor's next reader begins; None where that is not ours to say. With its epoch, so that a
        log that is cut meanwhile is noticed."""
        progress = self._partitions.get(tp)
        if progress is None or progress.main is None:
            return None
        # With one cursor the next reader begins where the commit does: behind what the offset map says is finished.
        base = progress.main.tracker.base if self._children else _finished(progress, [progress.main])[0]
        return OffsetAndMetadata(base, leader_epoch=progress.epoch_at(progress.main, base))

    def left_of_lags(self, tp: TopicPartition) -> list[tuple[OffsetAndMetadata, int]]:
        """The ranges that children have delivered and that are not finished: begin and end of each."""
        left = _unfinished(self._partitions[tp]) if tp in self._partitions else []
        return [(OffsetAndMetadata(part.start, leader_epoch=epoch), part.stop) for part, epoch in left]

    def _position(self, progress: PartitionProgress) -> OffsetAndMetadata:
        """The commit of the only cursor."""
        assert progress.main is not None
        base, known = _finished(progress, [progress.main])
        metadata = progress.foreign_metadata
        if self._with_map and not metadata and known.finished:
            metadata = encode(base, known)
        return OffsetAndMetadata(base, metadata, progress.epoch_at(progress.main, base))

    def _processed(self, progress: PartitionProgress) -> ProcessedOffsets:
        """The commit of several: it names what is not finished of what children were given, and the main cursor's
        position. Only the network thread knows of offsets without a record."""
        head = None
        if progress.main is not None:
            base = progress.main.tracker.base
            head = OffsetAndMetadata(base, leader_epoch=progress.epoch_at(progress.main, base))
        unfinished = [Unfinished(EVERYTHING)] if self._is_lost else _unfinished(progress)
        return ProcessedOffsets(head, tuple(unfinished), *self._metadata(progress))

    def _metadata(self, progress: PartitionProgress) -> tuple[str, int | None]:
        """The offset map, and where it ends. Records that an earlier owner finished in front of its head are not
        delivered any more. So only the network thread, which knows what is left of the lag, can tell when the map is
        not needed any more."""
        if not self._with_map or progress.foreign_metadata:
            return progress.foreign_metadata, None
        base, known = _finished(progress, progress.cursors)
        if not known.finished:
            return "", None
        return encode(base, known, limit_chars=LIMIT_CHARS - _ROOM_CHARS), known.finished[-1].stop


def _unfinished(progress: PartitionProgress) -> list[Unfinished]:
    """What children have delivered, each from the first record on that is not finished."""
    left = [(lag, lag.tracker.base) for lag in progress.lags if lag.tracker.unfinished]
    return [Unfinished(range(base, lag.tracker.position), progress.epoch_at(lag, base)) for lag, base in left]


def _finished(progress: PartitionProgress, cursors: Sequence[CursorProgress]) -> tuple[int, OffsetMap]:
    """Where the lowest of these cursors is not finished, and what is behind that."""
    latest = [(cursor, cursor.tracker.latest) for cursor in cursors]
    epoch, left = progress.map_epoch()
    done = [part for cursor, offer in latest for part in (range(cursor.start, offer.base), *offer.finished)]
    # What an earlier owner finished of a lag that nobody has begun with is in front of all that was delivered.
    base = min([offer.base for _, offer in latest] + [max(0, part.start - 1) for part in left[:1]])
    finished = OffsetSet((*done, *left)) - (range(base),)
    if finished and finished[0].start == base:  # all of it is done up to there
        base, finished = finished[0].stop, finished - finished[:1]
    return base, OffsetMap(progress.topic_id, epoch, finished)
