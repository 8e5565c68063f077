"""What is done and what is not of one partition that is being caught up with.

`undone` is what the token says: it shrinks when the application commits. `delivered` is what of it the application has
been given and has come back from; that may be committed, and is not read again. `head` is the last position of the main
cursor that the application committed: nothing from there on counts as done.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from kwire.epochs import AssignmentEpoch
from kwire.events import ProcessedOffsets
from kwire.model import CatchUpProgress, OffsetAndMetadata, TopicPartition
from kwire.offset_set import NO_OFFSETS, OffsetSet
from kwire.parallel_rebalance.rate import RateWindow
from kwire.parallel_rebalance.recovery import Recovered
from kwire.parallel_rebalance.token import HeadMark, Token, encode, encode_mark


class CatchUpState:
    """What is done and what is left to do of one partition's lag.

    Args:
        incarnation: Of this owner; see `Token`.
        main_epoch: The assignment epoch of the main cursor's position that is in here.
    """

    def __init__(
        self,
        tp: TopicPartition,
        recovered: Recovered,
        *,
        incarnation: str,
        topic_id: UUID,
        main_epoch: int,
        now_ms: float,
    ) -> None:
        self.topic_partition = tp
        self.incarnation = incarnation
        self.topic_id = topic_id
        self.main_epoch = main_epoch
        self.claimed = False
        """Whether the group's own log has a token of this incarnation; before that, the head's log is not written."""
        self.undone = recovered.undone
        self.delivered = NO_OFFSETS
        self.head = recovered.head
        self._metadata = recovered.low.metadata
        self._epochs: dict[int, int | None] = {recovered.low.offset: recovered.low.leader_epoch}
        self._rate = RateWindow(now_ms)
        self._done = 0
        self.is_begun = False
        """Whether anything of the lag has been given to the application."""

    # --- what there is to do ---

    def split(self, end: OffsetAndMetadata, incarnation: str) -> None:
        """The main cursor goes on at the end of the log; what lies in front of it is to be caught up.

        That is another incarnation: a token from before knows nothing of the lag, and with it the head's log, which is
        behind the lag, must not be believed.
        """
        self._begin_incarnation(incarnation)
        self.undone |= (range(self.head.offset, end.offset),)
        self._epochs[self.head.offset] = self.head.leader_epoch
        self.head = end

    def unread(self) -> OffsetSet:
        """What the application has not been given."""
        return self.undone - self.delivered

    def epoch_at(self, offset: int) -> int | None:
        """The leader epoch of the record in front of an offset that a range begins at, if it is known."""
        return self._epochs.get(offset)

    # --- what happens to it ---

    def note_delivered(self, part: range, position: OffsetAndMetadata) -> None:
        """A child's records of `part` have been given to the application up to this position."""
        new = self.undone.within(range(part.start, position.offset))
        self.is_begun = self.is_begun or bool(new)
        self._done += (new - self.delivered).size
        self.delivered |= new
        self._epochs[position.offset] = position.leader_epoch

    def read_again(self, start: int, stop: int) -> None:
        """The log was cut at `start`, and has other records from there on."""
        again = range(start, stop)
        self.undone |= (again,)
        self.redeliver(again)

    def redeliver(self, again: range) -> None:
        """The application was given these, and has put them back."""
        self.delivered -= (again,)

    def lose(self, gone: range) -> None:
        """The log has these no more, or the user passes over them."""
        self._done += self.unread().within(gone).size
        self.undone -= (gone,)
        self._tidy()

    def main_moved(self, position: OffsetAndMetadata, epoch: AssignmentEpoch, incarnation: str) -> None:
        """The main cursor was set to this position, and reads everything from there on. When it went back, that is
        another incarnation: what the head's log has is too much."""
        self.main_epoch = epoch
        self.undone = self.undone.below(position.offset)
        self.delivered = self.delivered.below(position.offset)
        if position.offset < self.head.offset:
            self.head = position
            self._begin_incarnation(incarnation)

    def _begin_incarnation(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.claimed = False

    # --- what is committed ---

    def commit_delivered(self) -> None:
        """Everything that was given is done."""
        self.undone -= self.delivered
        self._tidy()

    def commit_head(self, position: OffsetAndMetadata) -> None:
        """What the main cursor was given is done up to here."""
        self.head = OffsetAndMetadata(position.offset, leader_epoch=position.leader_epoch)

    def commit_in_range(self, position: OffsetAndMetadata) -> None:
        """What was given of the range that this offset lies in is done up to here, and no more than was given."""
        found = self.undone.range_before(position.offset)
        if found is None:
            return
        done = self.delivered.within(range(found.start, position.offset))
        if position.offset < found.stop and done and done[-1].stop == position.offset:
            self._epochs.setdefault(position.offset, position.leader_epoch)
        self.undone -= done
        self._metadata = position.metadata
        self._tidy()

    def commit_processed(self, processed: ProcessedOffsets) -> None:
        """All that was given is done, except the ranges that are named; the metadata is of both cursors."""
        self.undone -= self.delivered - processed.kept
        for unfinished in processed.unfinished:
            self._epochs.setdefault(unfinished.part.start, unfinished.leader_epoch)
        if processed.head is not None:
            self.commit_head(processed.head)
        self._metadata = processed.metadata if self.undone else processed.metadata_at(self.head.offset)
        self._tidy()

    def _tidy(self) -> None:
        self.delivered = OffsetSet(part for each in self.undone for part in self.delivered.within(each))
        starts = {each.start for each in self.undone} | {each.stop for each in self.delivered}
        self._epochs = {offset: epoch for offset, epoch in self._epochs.items() if offset in starts}

    # --- what is written ---

    def low_water(self) -> OffsetAndMetadata:
        """What the group's own log is to say: everything in front of it is done; the token says what is not, behind it.
        Without a range left it is a commit like any other."""
        if not self.undone:
            return OffsetAndMetadata(self.head.offset, self._metadata, self.head.leader_epoch)
        token = Token(
            self.incarnation, self.topic_id, self.undone, self.head.offset, self.head.leader_epoch, self._metadata
        )
        low = self.undone[0].start
        return OffsetAndMetadata(low, encode(token), self._epochs.get(low))

    def head_mark(self, metadata: str = "") -> OffsetAndMetadata:
        """What the head's log is to say."""
        mark = encode_mark(HeadMark(self.incarnation, self.topic_id, metadata))
        return OffsetAndMetadata(self.head.offset, mark, self.head.leader_epoch)

    # --- what users see ---

    def progress(self, now_ms: float, in_hand: Iterable[range] = ()) -> CatchUpProgress:
        """What the application has in hand has been returned as well."""
        unread, rate = self.unread(), self._rate.per_s(now_ms, self._done)
        left = (unread - in_hand).size
        return CatchUpProgress(
            topic_partition=self.topic_partition,
            ranges=self.undone,
            done=self._done + unread.size - left,
            left=left,
            rate_per_s=rate,
            left_s=left / rate if rate > 0 else None,
        )

    def tick(self, now_ms: float) -> None:
        """Time passes: for the rate."""
        self._rate.look(now_ms, self._done)
