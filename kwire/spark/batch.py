"""`spark.read.format("kwire")`: what Spark asks of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kwire.spark.options import SourceOptions
from kwire.spark.planning import Task, batch_ranges, tasks
from kwire.spark.resolve import OffsetReader
from kwire.spark.reused_process import freeze_loaded_modules, keep_freed_memory

if TYPE_CHECKING:
    import pyarrow as pa


class TaskPartition(InputPartition):
    """What one task reads."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task


def read_partition(partition: InputPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """What Spark runs as a task. If there is nothing to read it still runs one, for a partition of its own."""
    freeze_loaded_modules()
    if not isinstance(partition, TaskPartition):
        return iter(())
    from kwire.spark.range_reader import read_task  # for tasks alone: Spark starts a process to plan each stream

    keep_freed_memory()
    return read_task(partition.task, options)


class KwireBatchReader(DataSourceReader):
    """Made in the driver, where it plans, and copied to each task, where it reads.

    It takes no filters from Spark: with them, Spark itself gives wrong results when a DataFrame is used again.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[TaskPartition]:
        reader = OffsetReader(self._options)
        try:
            ranges = batch_ranges(self._options, reader)
        finally:
            reader.close()
        return [TaskPartition(task) for task in tasks(ranges, self._options.ranges_per_task)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)
