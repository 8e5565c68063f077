"""What each partition has in work and may commit: a tracker each, and the way to and from a commit's metadata.

Contract: pure, and of one thread: the processor's. What others wrote into the metadata of commits is left as it is;
then nothing is said of what is finished behind them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kwire.events import Processed
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition
from kwire.offset_set import NO_OFFSETS, OffsetSet
from kwire.processing.offset_map import OffsetMap, decode, encode, is_offset_map
from kwire.processing.partition_queues import EVERYTHING
from kwire.processing.sources import Source, partition_of
from kwire.processing.tracker import Offer, Tracker


class Offered(NamedTuple):
    """What is to be committed of a partition.

    Attributes:
        parts: Whose it is.
        position: The commit; None, if there are two cursors.
        processed: And theirs.
    """

    parts: tuple[tuple[Tracker, Offer], ...]
    position: OffsetAndMetadata | None = None
    processed: Processed | None = None


Offers: TypeAlias = dict[TopicPartition, Offered]
Void: TypeAlias = tuple[Source, range]
"""Offsets of a source: what was delivered with these counts no more."""


@dataclass(slots=True, eq=False)
class PartitionProgress:
    """Of one partition, for one assignment; the object itself stands for it."""

    tracker: Tracker | None
    """None: nothing was committed, and nothing has been delivered."""
    topic_id: UUID
    foreign_metadata: str = ""
    believed_epoch: int | None = None
    """The leader epoch up to which the map of the earlier life speaks of these records; None: there was none."""
    epochs: deque[tuple[int, int | None]] = field(default_factory=deque)
    """Positions behind what was delivered, and the leader epoch there."""

    def take_over(self, at: OffsetAndMetadata) -> OffsetSet:
        """What an earlier life finished behind its commit; nothing, if that has no map, a damaged one, or one of a
        topic that had the name before."""
        if not is_offset_map(at.metadata):
            self.foreign_metadata = at.metadata
            return NO_OFFSETS
        found = decode(at.offset, at.metadata)
        if found is None or found.topic_id != self.topic_id:
            return NO_OFFSETS
        self.believed_epoch = found.leader_epoch
        return OffsetSet(found.finished)

    def note_epoch(self, behind: OffsetAndMetadata) -> None:
        """Of positions that follow each other with the same epoch, the first and the last will do: while one record
        takes its time there may be millions."""
        if len(self.epochs) > 1 and self.epochs[-1][1] == self.epochs[-2][1] == behind.leader_epoch:
            self.epochs.pop()
        self.epochs.append((behind.offset, behind.leader_epoch))

    def truncate(self, position: int) -> None:
        """The log was cut there. Between two positions with the same epoch there is no other."""
        if self.tracker is not None:
            self.tracker.truncate(position)
        cut: set[int | None] = set()
        while self.epochs and self.epochs[-1][0] > position:
            cut = {self.epochs.pop()[1]}
        if self.epochs and self.epochs[-1][1] in cut:
            self.epochs.append((position, self.epochs[-1][1]))

    @property
    def newest_epoch(self) -> int | None:
        """Up to which epoch a map of this life may be believed: what it takes over from an earlier one may be of
        records that have not come again, and are newer than all that have."""
        seen = self.epochs[-1][1] if self.epochs else None
        return max((epoch for epoch in (seen, self.believed_epoch) if epoch is not None), default=None)

    def epoch_at(self, base: int) -> int | None:
        """The epoch at the next position we know of: it is that of the record in front of the base, or a later one,
        with which the broker cannot take a sound position for one that was cut off (KIP-320). Behind all of them there
        is only what an earlier life had finished."""
        while self.epochs and self.epochs[0][0] < base:
            self.epochs.popleft()
        return self.epochs[0][1] if self.epochs else self.believed_epoch


class CompletionTracker:
    """Knows of each partition which records are done, and what may be committed.

    Args:
        with_map: Whether commits say what is finished behind them.
    """

    def __init__(self, *, with_map: bool) -> None:
        self._with_map = with_map
        self._completion: dict[TopicPartition, PartitionProgress] = {}

    def open(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None], topic_ids: Mapping[str, UUID]) -> None:
        """Partitions were assigned, with what their group has committed, and which topics they are of."""
        for tp, at in committed.items():
            self._completion[tp] = _opened(at, topic_ids[tp.topic])

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are not ours any more."""
        for tp in partitions:
            self._completion.pop(tp, None)

    def progress(self, source: Source) -> PartitionProgress | None:
        """What stands for the assignment that the partition is in."""
        return self._completion.get(partition_of(source))

    def source_of(self, tp: TopicPartition, _cursor: Cursor, _epoch: int | None, /) -> Source:
        """Where records that a cursor has read, in this assignment epoch, belong to."""
        return tp

    def overtaken(self, source: Source, first: int, _behind: int, _epoch: int | None, /) -> list[Void]:
        """What counts no more when records from `first` on are delivered, which end in front of `behind`."""
        progress = self._completion.get(partition_of(source))
        has_moved_back = progress is not None and progress.tracker is not None and first < progress.tracker.position
        return [(source, EVERYTHING[first:])] if has_moved_back else []

    def finish(self, source: Source, offsets: Iterable[int]) -> None:
        """Records are done with."""
        progress = self._completion[partition_of(source)]
        if progress.tracker is not None:
            progress.tracker.finish_all(offsets)

    def deliver(
        self,
        source: Source,
        offsets: Sequence[int],
        epochs: Callable[[], Sequence[int]],
        behind: OffsetAndMetadata,
        _epoch: int | None = None,
        /,
    ) -> Collection[int]:
        """Records of a partition that is open have come; which of them are to be worked on. Their leader epochs are
        asked for when they matter.

        A position that has moved back says that the log was cut, or somebody sought: what was delivered from there on
        counts no more (`Tracker.truncate`).
        """
        progress = self._completion[partition_of(source)]
        first = offsets[0] if offsets else behind.offset
        if progress.tracker is None:
            progress.tracker = Tracker(first)
        elif first < progress.tracker.position:
            progress.truncate(first)
        if progress.believed_epoch is not None:
            newer = (offset for offset, epoch in zip(offsets, epochs(), strict=True) if epoch > progress.believed_epoch)
            if (cut := next(newer, None)) is not None:  # written anew since the map was made
                progress.tracker.disbelieve(cut)
                progress.believed_epoch = None
        progress.note_epoch(behind)
        return progress.tracker.deliver(offsets, behind.offset)

    def offers(self, partitions: Iterable[TopicPartition] | None = None) -> Offers:
        """What is to be committed: of these partitions, or of all."""
        found: Offers = {}
        for tp in list(self._completion) if partitions is None else sorted(partitions):
            progress = self._completion.get(tp)
            offer = None if progress is None or progress.tracker is None else progress.tracker.offer()
            if progress is not None and offer is not None:
                assert progress.tracker is not None
                found[tp] = Offered(((progress.tracker, offer),), self._commit_of(progress, offer))
        return found

    def acknowledged(self, offers: Offers, completion: Mapping[TopicPartition, PartitionProgress]) -> None:
        """The broker has these; of partitions that were given up since they were offered, nobody need know."""
        for tp, offered in offers.items():
            progress = self.progress(tp)
            if progress is not None and progress is completion.get(tp):
                for tracker, offer in offered.parts:
                    tracker.acknowledged(offer)

    def progress_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionProgress]:
        """Those that are open now."""
        return {tp: self._completion[tp] for tp in partitions if tp in self._completion}

    def begins_at(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Where the next reader of the partition begins; None where that is not ours to say. With its epoch, so that
        a log that is cut meanwhile is noticed."""
        progress = self._completion.get(tp)
        if progress is None or progress.tracker is None:
            return None
        base = progress.tracker.next_to_do  # in front of that, a map has been merged into the commit
        return OffsetAndMetadata(base, leader_epoch=progress.epoch_at(base))

    def _commit_of(self, progress: PartitionProgress, offer: Offer) -> OffsetAndMetadata:
        epoch = progress.epoch_at(offer.base)
        metadata = progress.foreign_metadata
        if self._with_map and not metadata and offer.finished:
            metadata = encode(offer.base, OffsetMap(progress.topic_id, progress.newest_epoch, offer.finished))
        return OffsetAndMetadata(offer.base, metadata, epoch)


def _opened(at: OffsetAndMetadata | None, topic_id: UUID) -> PartitionProgress:
    if at is None:
        return PartitionProgress(None, topic_id)
    progress = PartitionProgress(None, topic_id, epochs=deque([(at.offset, at.leader_epoch)]))
    progress.tracker = Tracker(at.offset, progress.take_over(at))
    return progress
