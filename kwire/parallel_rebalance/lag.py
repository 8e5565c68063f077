"""How far a position is behind the end of its log: in records, and whether in time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kwire.epochs import AssignmentEpoch
from kwire.errors import KafkaError
from kwire.events import LATEST_TIMESTAMP
from kwire.holds import Hold
from kwire.managers.lag_policy import LagSetting
from kwire.model import OffsetAndTimestamp, TopicPartition


class Lag(NamedTuple):
    """What lies between a position and the end of the log, and whether that is worth a child."""

    end: int
    leader_epoch: int | None
    is_long: bool


class LagLookUp:
    """Asks how far partitions are behind the end of their logs.

    Args:
        on_lag: told of a partition's lag, while its assignment epoch is still the one it was asked in.
        on_refused: told of a partition whose lag cannot be known.
    """

    def __init__(
        self,
        setting: LagSetting,
        on_lag: Callable[[TopicPartition, Lag], None],
        on_refused: Callable[[TopicPartition, KafkaError], None],
    ) -> None:
        self._min_records = setting.cursors.config.parallel_rebalance_min_lag_records
        self._min_ms = setting.cursors.config.parallel_rebalance_min_lag_ms
        self._subscription = setting.main
        self._list_offsets = setting.list_offsets
        self._wall_clock_ms = setting.wall_clock_ms
        self._on_lag = on_lag
        self._on_refused = on_refused

    def ask(self, tp: TopicPartition) -> None:
        """Ask for the end of the log; then, if that is near, how old the first record is that has not been read."""
        epoch = self._subscription.partitions[tp].epoch
        self._ask(tp, epoch, LATEST_TIMESTAMP, partial(self._on_end, tp, epoch))

    def _on_end(
        self, tp: TopicPartition, epoch: AssignmentEpoch, found: OffsetAndTimestamp | None, now_ms: float
    ) -> None:
        if found is None or not self._is_wanted(tp, epoch):
            return
        records = found.offset - self._subscription.partitions[tp].fetch_offset
        if records <= 0 or records >= self._min_records or self._min_ms is None:
            self._on_lag(tp, Lag(found.offset, found.leader_epoch, records > 0 and records >= self._min_records))
            return
        before_ms = max(0, self._wall_clock_ms() - self._min_ms)
        self._ask(tp, epoch, before_ms, partial(self._on_young, tp, epoch, found))

    def _on_young(
        self,
        tp: TopicPartition,
        epoch: AssignmentEpoch,
        end: OffsetAndTimestamp,
        young: OffsetAndTimestamp | None,
        now_ms: float,
    ) -> None:
        """`young` is the first record that is not old: is there one in front of it that has not been read?"""
        if self._is_wanted(tp, epoch):
            position = self._subscription.partitions[tp].fetch_offset
            self._on_lag(tp, Lag(end.offset, end.leader_epoch, young is None or young.offset > position))

    def _ask(
        self,
        tp: TopicPartition,
        epoch: AssignmentEpoch,
        timestamp: int,
        on_offset: Callable[[OffsetAndTimestamp | None, float], None],
    ) -> None:
        self._list_offsets.ask(
            tp,
            timestamp,
            on_offset=on_offset,
            on_error=partial(self._on_refused, tp),
            wanted=partial(self._is_wanted, tp, epoch),
            waits_for=_nobody_hears,
        )

    def _is_wanted(self, tp: TopicPartition, epoch: AssignmentEpoch) -> bool:
        partition = self._subscription.partitions.get(tp)
        return partition is not None and partition.epoch == epoch and Hold.LAG_UNKNOWN in partition.holds


def _nobody_hears(what: str) -> None:
    """No call waits for it: what a `position()` waits for, the positions say."""
