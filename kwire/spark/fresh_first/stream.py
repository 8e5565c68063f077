"""`spark.readStream.format("kwire").option("kwire.freshFirst", ...)`: the stream reader whose offsets may have gaps."""

from __future__ import annotations

import sys

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from kwire.spark.admission import check_still_there, check_target
from kwire.spark.batch import TaskPartition
from kwire.spark.fresh_first.advance import BatchLimits
from kwire.spark.fresh_first.offset_form import from_form
from kwire.spark.fresh_first.planning import low_water, next_offset, ranges
from kwire.spark.fresh_first.settings import FreshFirst
from kwire.spark.offsets import Offsets, SparkOffset
from kwire.spark.options import SourceOptions
from kwire.spark.planning import loss_handler, tasks
from kwire.spark.stream import KwireStreamReader

_NO_LIMITS = BatchLimits(sys.maxsize, sys.maxsize)


class FreshFirstStreamReader(KwireStreamReader):
    """A `KwireStreamReader` whose batches may leave gaps. All it knows of the gaps stands in Spark's offsets."""

    def __init__(self, options: SourceOptions, fresh: FreshFirst) -> None:
        super().__init__(options)
        self._fresh = fresh

    def getDefaultReadLimit(self) -> ReadLimit:
        """Says that there are limits, so that Spark says when there are to be none."""
        return ReadMaxRows(self._fresh.limits.fresh + self._fresh.limits.backfill)

    def latestOffset(self, start: SparkOffset, limit: ReadLimit) -> SparkOffset:
        """The newest records, and a slice of what lies behind."""
        self._check_topics(_heads(start))
        self._commit(low_water(start))
        self._latest = self._available(_heads(start))
        limits = _NO_LIMITS if isinstance(limit, ReadAllAvailable) else self._fresh.limits
        begins = self._reader.earliest(self._latest)
        return next_offset(limits, start, begins, self._latest, loss_handler(self._options))

    def partitions(self, start: SparkOffset, end: SparkOffset) -> list[InputPartition]:
        """The tasks of a batch, the newest records first: of the same offsets, always the same ones."""
        self._check_topics(_heads(end))
        if self._target is not None:
            check_target(self._target, _heads(end))
            check_still_there(_heads(end), self._reader.latest(_heads(end)))
        self._known_begins(_heads(start), _heads(end))
        planned = ranges(self._fresh, self._options, start, end)
        return [TaskPartition(task) for task in tasks(planned, self._options.ranges_per_task)]

    def commit(self, end: SparkOffset) -> None:
        """A batch is through. A group is told of what lies in front of the first gap."""
        self._commit(low_water(end))


def _heads(offset: SparkOffset) -> Offsets:
    return {tp: covered.head for tp, covered in from_form(offset).items()}
