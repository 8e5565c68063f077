"""Fresh-first: after an outage a streaming query reads the newest records at once, and the rest in bounded slices.

All of it is arithmetic on offsets. `Coverage` is what has been read, `advance` says where the next batch ends, `tasks`
what lies between two ends; the source brings log ends and reads.
"""

from __future__ import annotations

from kwire.spark.fresh_first.advance import BatchLimits, LostOffsets, advance, lost
from kwire.spark.fresh_first.coverage import Coverage, Coverages, left
from kwire.spark.fresh_first.offset_form import from_form, has_gaps, to_form
from kwire.spark.fresh_first.tasks import Task, tasks

__all__ = [
    "Coverage",
    "Coverages",
    "BatchLimits",
    "LostOffsets",
    "Task",
    "advance",
    "from_form",
    "has_gaps",
    "left",
    "lost",
    "tasks",
    "to_form",
]
