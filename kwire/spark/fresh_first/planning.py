"""A fresh-first stream as Spark asks about it: how far the next batch goes, and of what ranges it consists."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.spark import errors
from kwire.spark.fresh_first.advance import BatchLimits, LostOffsets, advance, lost
from kwire.spark.fresh_first.coverage import Coverage
from kwire.spark.fresh_first.offset_form import OffsetForm, from_form, to_form
from kwire.spark.fresh_first.settings import FreshFirst, refuse_state
from kwire.spark.fresh_first.tasks import RECORDS_PER_TASK, tasks
from kwire.spark.offsets import Offsets
from kwire.spark.options import SourceOptions
from kwire.spark.planning import OnLoss
from kwire.spark.ranges import OffsetRange


def next_offset(
    limits: BatchLimits, start: Mapping[str, object], begins: Offsets, ends: Offsets, on_loss: OnLoss
) -> OffsetForm:
    """Where the next batch ends; `start` itself, as it is written, if there is nothing to do.

    Args:
        limits: how much to take.
        start: where it begins, as Spark has it.
        begins: where the logs begin now.
        ends: where they end: now, or where they ended when a query that is to stop there was started.
        on_loss: told of what was never read and is gone.
    """
    covered = from_form(start)
    # Where retention has passed the end by now, there is nothing to read up to there; no batch goes further than that.
    logs = {tp: range(min(begins[tp], ends[tp]), ends[tp]) for tp in ends if tp in begins}
    if deleted := covered.keys() - ends.keys():
        on_loss(errors.partitions_deleted(deleted))
    for tp in sorted(logs.keys() - covered.keys()):
        if begins[tp]:
            on_loss(errors.added_partition_does_not_start_at_zero(tp, begins[tp]))
    for each in lost(covered, logs):
        on_loss(_loss(each, logs[each.partition]))
    kept = {tp: each for tp, each in covered.items() if tp not in deleted}
    return to_form(advance(kept, logs, limits))


def ranges(
    fresh: FreshFirst, options: SourceOptions, start: Mapping[str, object], end: Mapping[str, object]
) -> list[OffsetRange]:
    """What a batch between two offsets reads, the fresh ranges first. The same whenever it is asked.

    Raises:
        OptionError: The query keeps state, and must not.
    """
    refuse_state(fresh, options.checkpoint_location)
    planned = tasks(
        from_form(start),
        from_form(end),
        records_per_task=options.max_records_per_partition or RECORDS_PER_TASK,
        min_partitions=options.min_partitions or 1,
    )
    return [OffsetRange(task.partition, task.offsets.start, task.offsets.stop) for task in planned]


def low_water(offset: Mapping[str, object]) -> Offsets:
    """Up to where all is read, for tools that know one offset for each partition: nothing behind it may be skipped."""
    return {tp: _low_water(each) for tp, each in from_form(offset).items()}


def _low_water(covered: Coverage) -> int:
    return covered.gaps[0].start if covered.gaps else covered.head


def _loss(what: LostOffsets, log: range) -> errors.DataLossError:
    tp = what.partition
    if what.offsets.start >= log.stop:
        return errors.partition_offset_changed(tp, what.offsets.stop, log.stop)
    return errors.could_not_read(tp, what.offsets.start, what.offsets.stop)
