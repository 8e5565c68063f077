"""`spark.readStream.format("kwire")`: what Spark asks of a streaming query, batch after batch.

One of these lives in the driver for as long as the query does; copies of it read in the tasks, which know nothing but
their part. Offsets are numbers that Spark keeps in its checkpoint, in the form of its own `kafka` source.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kwire.clock import wall_clock_ms
from kwire.spark import errors
from kwire.spark.admission import Delay, check_still_there, check_target, rate_limited
from kwire.spark.batch import TaskPartition, read_partition
from kwire.spark.group_progress import GroupProgress
from kwire.spark.initial_offsets import InitialOffsets
from kwire.spark.limits import Earliest
from kwire.spark.offsets import Offsets, SparkOffset, from_spark, to_spark
from kwire.spark.options import SourceOptions
from kwire.spark.planning import loss_handler, stream_ranges, tasks
from kwire.spark.resolve import OffsetReader
from kwire.spark.strategies import is_wanted

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class KwireStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Made with the options of one query; asks nobody anything before Spark asks it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reader = OffsetReader(options)
        self._delay = Delay(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        group = options.commit_offsets_to_group
        self._progress = None if group is None else GroupProgress(group, options.kafka)
        self._initial: Offsets | None = None
        self._looked_up: Offsets | None = None
        self._latest: Offsets | None = None
        self._is_available_now = False
        self._target: Offsets | None = None

    # --- offsets --------------------------------------------------------------------------------------------

    def initialOffset(self) -> SparkOffset:
        """Where the query starts: the same each time it is asked, and, with a checkpoint location, for ever."""
        if self._initial is None:
            self._initial = self._first_offsets()
        return to_spark(self._initial)

    def _first_offsets(self) -> Offsets:
        location = self._options.checkpoint_location
        if location is None:
            if not isinstance(self._options.start, Earliest):
                log.warning(
                    "if this query is stopped before its first batch is through, the records of that batch are lost; "
                    "give the query's checkpointLocation to the source as well, as the option "
                    "kwire.checkpointLocation: then the query begins again at the same offsets"
                )
            self._looked_up = self._reader.initial(self._options.start)
            return self._looked_up
        file = InitialOffsets(location, self._options.source_index)
        offsets = file.read() or file.add(self._reader.initial(self._options.start))
        self._check_topics(offsets)
        return offsets

    def _check_topics(self, offsets: Offsets) -> None:
        """A checkpoint may be another query's. Once a batch is planned it is in the checkpoint, and spoils it.

        Raises:
            OptionError: Nothing in these offsets is what this source is to read.
        """
        topics = {tp.topic for tp in offsets}
        if topics and not any(is_wanted(topic, self._options.strategy) for topic in topics):
            raise errors.offsets_of_others(topics, self._options.source_index)

    def prepareForTriggerAvailableNow(self) -> None:
        """What there is when the query begins is all it reads."""
        self._is_available_now = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """Says that there are limits. Spark has no limit with both a minimum and a maximum, so `latestOffset` reads
        them from the options."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: SparkOffset, limit: ReadLimit) -> SparkOffset:
        """Where the next batch ends. Everything in front of `start` is through."""
        begin = from_spark(start)
        self._check_topics(begin)
        self._commit(begin)
        self._latest = self._available(begin)
        end = self._latest if isinstance(limit, ReadAllAvailable) else self._limited(begin, self._latest)
        return start if end == begin else to_spark(end)

    def _available(self, start: Offsets) -> Offsets:
        if not self._is_available_now:
            return self._reader.latest(start)
        if self._target is None:
            self._target = self._reader.latest(start)
        return self._target

    def _limited(self, start: Offsets, latest: Offsets) -> Offsets:
        if self._delay.skips(start, latest, wall_clock_ms()):
            return start
        most = self._options.max_offsets_per_trigger
        return latest if most is None else rate_limited(most, start, latest, self._reader.earliest)

    def reportLatestOffset(self) -> SparkOffset | None:
        """How far there was something to read, for the query's progress."""
        return to_spark(self._latest) if self._latest else None

    # --- batches --------------------------------------------------------------------------------------------

    def partitions(self, start: SparkOffset, end: SparkOffset) -> list[InputPartition]:
        """The tasks of a batch: of the same offsets, always the same ones."""
        begins, ends = from_spark(start), from_spark(end)
        self._check_topics(ends)
        if self._target is not None:
            check_target(self._target, ends)
            check_still_there(ends, self._reader.latest(ends))
        if begins == self._looked_up:
            # The first batch, planned before and not through: where it began was not written down, and partitions
            # that have come since are none of it (SPARK-53560).
            begins = self._without_added(self._known_begins(begins, ends), ends)
        on_loss = loss_handler(self._options)
        ranges = stream_ranges(self._options, self._reader, begins, ends, on_loss)
        return [TaskPartition(task) for task in tasks(ranges, self._options.ranges_per_task)]

    def _known_begins(self, begins: Offsets, ends: Offsets) -> Offsets:
        """Where a batch begins. Where the beginning looked up now lies behind the batch's end, the batch begins at its
        end: another process has planned it as the query's first one, and the offsets that it looked up are lost."""
        if self._latest is not None or begins != self._looked_up:
            return begins
        lost = {tp: end for tp, end in ends.items() if end < begins.get(tp, end)}
        if lost:
            loss_handler(self._options)(errors.first_batch_began_earlier(lost))
        return {**begins, **lost}

    def _without_added(self, begins: Offsets, ends: Offsets) -> Offsets:
        if begins.keys() <= ends.keys():
            return begins
        added = self._reader.partitions() - ends.keys()
        return {tp: offset for tp, offset in begins.items() if tp not in added}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What a task reads."""
        return read_partition(partition, self._options)

    # --- what is through ------------------------------------------------------------------------------------

    def commit(self, end: SparkOffset) -> None:
        """A batch is through. Spark does not say so of the last one; `latestOffset` has learned of it by then."""
        self._commit(from_spark(end))

    def _commit(self, offsets: Offsets) -> None:
        if self._progress is not None:
            self._progress.commit(offsets)

    def stop(self) -> None:
        """The query ends; Spark does not always say so."""
        self._reader.close()
        if self._progress is not None:
            self._progress.close()
