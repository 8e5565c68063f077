"""How far a partition is: what its cursors have delivered, what of that is done, what an earlier owner has finished.

Contract: pure, and of one thread: the processor's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kwire.epochs import AssignmentEpoch
from kwire.model import OffsetAndMetadata
from kwire.offset_set import NO_OFFSETS, OffsetSet
from kwire.processing.offset_map import decode, is_offset_map
from kwire.processing.sources import LagOf, Source
from kwire.processing.tracker import Tracker


@dataclass(slots=True, eq=False)
class CursorProgress:
    """What one cursor has delivered of a partition without a gap: the main cursor all it reads, a child one range."""

    source: Source
    epoch: AssignmentEpoch | None
    """The assignment epoch of what a child reads."""
    start: int
    tracker: Tracker
    positions: deque[tuple[int, int | None]] = field(default_factory=deque)
    """Positions behind what was delivered, and the leader epoch there."""

    @property
    def delivered(self) -> range:
        return range(self.start, self.tracker.position)

    def note_position(self, behind: OffsetAndMetadata) -> None:
        """Of positions that follow each other with the same epoch, the first and the last will do: while one record
        takes its time there may be millions."""
        if len(self.positions) > 1 and self.positions[-1][1] == self.positions[-2][1] == behind.leader_epoch:
            self.positions.pop()
        self.positions.append((behind.offset, behind.leader_epoch))

    def truncate(self, position: int) -> None:
        """What was delivered from there on counts no more. Between two positions with the same epoch there is no
        other."""
        self.tracker.truncate(position)
        cut: set[int | None] = set()
        while self.positions and self.positions[-1][0] > position:
            cut = {self.positions.pop()[1]}
        if self.positions and self.positions[-1][1] in cut:
            self.positions.append((position, self.positions[-1][1]))

    @property
    def newest_epoch(self) -> int | None:
        """The leader epoch of the last record that was delivered."""
        return self.positions[-1][1] if self.positions else None

    def epoch_at(self, base: int, behind_all: int | None) -> int | None:
        """The epoch at the next position we know of: it is that of the record in front of the base, or a later one,
        with which the broker cannot take a sound position for one that was cut off (KIP-320).

        Args:
            behind_all: Returned if `base` lies behind every position noted here.
        """
        while self.positions and self.positions[0][0] < base:
            self.positions.popleft()
        return self.positions[0][1] if self.positions else behind_all


@dataclass(slots=True, eq=False)
class PartitionProgress:
    """How far one partition is, in one assignment; the object itself stands for the assignment."""

    topic_id: UUID
    has_commit: bool = True
    """Whether the group had a commit when the assignment began. Without one the next owner would begin where the reset
    policy says, which may be behind the first records of this one: so their position is committed at once."""
    foreign_metadata: str = ""
    """What is no offset map in the metadata of the group's commit; it stays there."""
    trusted_epoch: int | None = None
    """The leader epoch up to which an earlier owner's map holds for these records; None: there was none."""
    finished: OffsetSet = NO_OFFSETS
    """What an earlier owner has finished, and has not been delivered."""
    main: CursorProgress | None = None
    lags: list[CursorProgress] = field(default_factory=list)

    @property
    def cursors(self) -> Sequence[CursorProgress]:
        """The cursors that have delivered something; the main one is the last."""
        return self.lags if self.main is None else [*self.lags, self.main]

    def cursor_for(self, source: Source, first: int, epoch: AssignmentEpoch | None) -> CursorProgress:
        """Where records from `first` on belong to: the main cursor's, whatever it passes over; of a child those of its
        assignment epoch."""
        is_main = not isinstance(source, LagOf)
        found = self.main if is_main else next((lag for lag in self.lags if lag.epoch == epoch), None)
        if found is None:
            found = CursorProgress(source, epoch, first, Tracker(first, is_committed=self.has_commit or not is_main))
            if is_main:
                self.main = found
            else:
                self.lags.append(found)
        return found

    def overtaken(self, source: Source, first: int, behind: int) -> list[CursorProgress]:
        """The cursors whose records count no more when others come from `first` on. The main cursor reads everything
        from where it went back to; a child reads to the end of its part."""
        later = [cursor for cursor in self.cursors if first < cursor.tracker.position]
        if isinstance(source, LagOf):
            return [cursor for cursor in later if cursor is not self.main and cursor.start < behind]
        return later

    def epoch_at(self, cursor: CursorProgress, base: int) -> int | None:
        """The leader epoch that a commit of `base` carries."""
        return cursor.epoch_at(base, self.trusted_epoch)

    # --- what an earlier owner has finished -----------------------------------------------------------------

    def take_over(self, at: OffsetAndMetadata) -> None:
        """Take over the map in the group's commit, unless it has none, a damaged one, or one of a topic that had the
        name before."""
        if not is_offset_map(at.metadata):
            self.foreign_metadata = at.metadata
            return
        found = decode(at.offset, at.metadata)
        if found is not None and found.topic_id == self.topic_id:
            self.trusted_epoch, self.finished = found.leader_epoch, OffsetSet(found.finished)

    def cut_map(self, offsets: Sequence[int], epochs: Callable[[], Sequence[int]]) -> None:
        """Records have come. Forget what the map says from the first one on that was written after it was made.

        Args:
            epochs: Their leader epochs, which are asked for only if they matter.
        """
        if self.trusted_epoch is None:
            return
        newer = (offset for offset, epoch in zip(offsets, epochs(), strict=True) if epoch > self.trusted_epoch)
        if (cut := next(newer, None)) is not None:
            self.finished = self.finished.below(cut)

    def map_epoch(self) -> tuple[int | None, OffsetSet]:
        """The newest leader epoch a map may be trusted for, and the ranges of an older map to write into it. Those are
        kept only while no newer epoch was seen: they may be of records that were rewritten."""
        seen = [cursor.newest_epoch for cursor in self.cursors if cursor.newest_epoch is not None]
        newest = max(seen, default=None)
        if newest is None or (self.trusted_epoch is not None and newest <= self.trusted_epoch):
            return self.trusted_epoch, self.finished
        return newest, NO_OFFSETS
