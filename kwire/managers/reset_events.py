"""What operators are told of positions that are reset (`on_event=`), and of records that are lost (also in the log).

A position may be void while the application has records in hand. How far it got is known when it comes back: what it
has read is not lost, so its events wait until then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kwire.epochs import AssignmentEpoch
from kwire.events import Delivered
from kwire.logs import part_logger
from kwire.managers.base import TellOperator
from kwire.model import TopicPartition
from kwire.subscription.partition import AssignedPartition

log = part_logger("offsets")

NOTHING_COMMITTED = "nothing is committed"
OUT_OF_RANGE = "its offset is out of range"
TRUNCATED = "its log was truncated"
RECREATED = "its topic was deleted and created again"

LOST_BY_DELETION = "they were deleted before they were read"
LOST_OR_SKIPPED = f"{LOST_BY_DELETION}, or auto_offset_reset skips them"
LOST_BY_TRUNCATION = "the log was truncated"
LOST_WITH_TOPIC = "the topic was deleted and created again"


@dataclass(slots=True)
class _Reset:
    """A reset that is under way.

    Attributes:
        before: The position before it, as far as it is known; None if there was none.
        epoch: The assignment epoch of that position.
        lost_up_to: All that the application has not read in front of this offset is lost.
        found: The position after it, once that is known.
    """

    reason: str
    before: int | None
    epoch: AssignmentEpoch | None = None
    lost_up_to: int | None = None
    found: int | None = None


class ResetEvents:
    """The events about positions of one cursor.

    Args:
        tell_operator: Takes the events; None: nobody listens, and only losses are logged.
    """

    def __init__(self, tell_operator: TellOperator | None) -> None:
        self._tell_operator = tell_operator
        self._resets: dict[TopicPartition, _Reset] = {}
        # Of these it is not known how far the application got.
        self._unsettled: set[TopicPartition] = set()

    @property
    def are_heard(self) -> bool:
        """Whether somebody listens."""
        return self._tell_operator is not None

    @property
    def awaits_poll(self) -> bool:
        """Whether it matters how far the application got."""
        return bool(self._unsettled)

    # --- a reset --------------------------------------------------------------------------------------------

    def begin(self, tp: TopicPartition, reason: str, before: int | None = None) -> None:
        """A reset begins, from a position that the application has come to."""
        if tp in self._unsettled:
            self._settle(tp)
        self._resets[tp] = _Reset(reason, before)

    def begin_amid(self, partition: AssignedPartition, reason: str, lost_up_to: int | None) -> None:
        """A reset begins. The application may have come further than is known.

        Args:
            lost_up_to: All that it has not read in front of this offset is lost.
        """
        tp, consumed = partition.topic_partition, partition.consumed
        assert consumed is not None
        self._resets[tp] = _Reset(reason, consumed.offset, partition.epoch, lost_up_to)
        self._unsettled.add(tp)
        if not partition.is_ahead:
            self._settle(tp)

    def forget(self, tp: TopicPartition) -> None:
        """The application has chosen another position."""
        self._resets.pop(tp, None)
        self._unsettled.discard(tp)

    def forget_unless_unsettled(self, tp: TopicPartition) -> None:
        """The partition has another position, or is not assigned any more."""
        if tp not in self._unsettled:
            self._resets.pop(tp, None)

    def found(self, tp: TopicPartition, offset: int, *, is_log_start: bool) -> None:
        """A reset has led here.

        Args:
            is_log_start: Whether nothing of the log lies in front of it.
        """
        if (reset := self._resets.get(tp)) is None:
            return
        reset.found = offset
        if tp in self._unsettled:
            return
        self._tell_of_reset(tp)
        if reset.reason == OUT_OF_RANGE and reset.before is not None:
            self.lost(tp, reset.before, offset, LOST_BY_DELETION if is_log_start else LOST_OR_SKIPPED)

    # --- how far the application got ------------------------------------------------------------------------

    def note_delivered(self, delivered: Iterable[Delivered]) -> None:
        """The application has been given records up to these offsets."""
        if not self._unsettled:
            return
        for tp, epoch, position in delivered:
            if tp in self._unsettled and (reset := self._resets[tp]).epoch == epoch:
                reset.before = max(position.offset, reset.before or 0)

    def settle(self) -> None:
        """The application came back, and what it was handed before is noted."""
        for tp in sorted(self._unsettled):
            self._settle(tp)

    def _settle(self, tp: TopicPartition) -> None:
        self._unsettled.discard(tp)
        reset = self._resets[tp]
        if reset.lost_up_to is not None:
            self.lost(tp, reset.before, reset.lost_up_to, LOST_WITH_TOPIC)
        if reset.found is not None:
            self._tell_of_reset(tp)

    # --- what is told ---------------------------------------------------------------------------------------

    def _tell_of_reset(self, tp: TopicPartition) -> None:
        reset = self._resets.pop(tp)
        if self._tell_operator is None or reset.found is None:
            return
        from kwire.consumer_events import PositionReset

        self._tell_operator(
            PositionReset(partition=tp, from_offset=reset.before, to_offset=reset.found, reason=reset.reason)
        )

    def lost(self, tp: TopicPartition, first: int | None, behind: int, why: str) -> None:
        """Records of these offsets are lost, if there are any. None: from where on, nobody can tell."""
        if first is not None and first >= behind:
            return
        begin = "" if first is None else f" from offset {first}"
        log.warning("records of %s are lost,%s up to offset %d: %s", tp, begin, behind - 1, why, extra=tp._asdict())
        if self._tell_operator is None:
            return
        from kwire.consumer_events import DataLost

        self._tell_operator(DataLost(partition=tp, from_offset=first, to_offset=behind, reason=why))
