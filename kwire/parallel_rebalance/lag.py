"""How far a position is behind the end of its log: in records, and whether in time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kwire.epochs import AssignmentEpoch
from kwire.errors import KafkaError
from kwire.events import LATEST_TIMESTAMP, Reply
from kwire.holds import Hold
from kwire.managers.lag_policy import LagContext
from kwire.managers.list_offsets import Found
from kwire.model import OffsetAndTimestamp, TopicPartition


class Lag(NamedTuple):
    """What lies between a position and the end of the log, and whether that is worth a child."""

    end: int
    leader_epoch: int | None
    is_long: bool


class _Question(NamedTuple):
    """About one partition in one assignment epoch.

    Attributes:
        end: The answer to the first question, where the second is under way.
    """

    epoch: AssignmentEpoch
    reply: Reply[Found]
    end: OffsetAndTimestamp | None = None


class LagLookUp:
    """Asks how far partitions are behind the end of their logs, and is asked for the answers turn by turn."""

    def __init__(self, context: LagContext) -> None:
        self._min_records = context.cursors.config.parallel_rebalance_min_lag_records
        self._min_ms = context.cursors.config.parallel_rebalance_min_lag_ms
        self._subscription = context.main
        self._list_offsets = context.list_offsets
        self._wall_clock_ms = context.wall_clock_ms
        self._questions: dict[TopicPartition, _Question] = {}

    def ask(self, tp: TopicPartition) -> None:
        """Ask for the end of the log; then, if that is near, how old the first record is that has not been read."""
        self._ask(tp, LATEST_TIMESTAMP)

    def answers(self) -> Iterable[tuple[TopicPartition, Lag | KafkaError]]:
        """Lags that are known since this was last called, or why they cannot be known."""
        for tp, question in list(self._questions.items()):
            if not self._is_wanted(tp, question.epoch):
                question.reply.abandon()
                del self._questions[tp]
            elif question.reply.done and (answer := self._answer(tp, question)) is not None:
                del self._questions[tp]
                yield tp, answer

    def _answer(self, tp: TopicPartition, question: _Question) -> Lag | KafkaError | None:
        """None if it leads to another question."""
        try:
            found = question.reply.result()
        except KafkaError as error:
            return error
        position = self._subscription.partitions[tp].fetch_offset
        if (end := question.end) is not None:
            # Found is the first record that is not old: is there one in front of it that has not been read?
            return Lag(end.offset, end.leader_epoch, found is None or found.offset > position)
        if found is None:
            return Lag(position, None, is_long=False)  # the broker cannot tell where the log ends: read in order
        records = found.offset - position
        if records <= 0 or records >= self._min_records or self._min_ms is None:
            return Lag(found.offset, found.leader_epoch, records > 0 and records >= self._min_records)
        self._ask(tp, max(0, self._wall_clock_ms() - self._min_ms), found)
        return None

    def _ask(self, tp: TopicPartition, timestamp: int, end: OffsetAndTimestamp | None = None) -> None:
        if (before := self._questions.get(tp)) is not None:
            before.reply.abandon()
        self._questions[tp] = question = _Question(self._subscription.partitions[tp].epoch, Reply(), end)
        self._list_offsets.ask(tp, timestamp, question.reply)

    def _is_wanted(self, tp: TopicPartition, epoch: AssignmentEpoch) -> bool:
        partition = self._subscription.partitions.get(tp)
        return partition is not None and partition.epoch == epoch and Hold.LAG_UNKNOWN in partition.holds
