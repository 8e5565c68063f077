"""How much a micro-batch takes: minOffsetsPerTrigger, maxTriggerDelay, maxOffsetsPerTrigger, as with Spark's source.

Pure: what there is and what time it is are arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from kwire.model import TopicPartition
from kwire.spark.errors import OffsetsError, names, places
from kwire.spark.offsets import Offsets

_TRANSIENT = "The error could be transient - restart your query, and report if you still see the same issue."
# Looks up where new partitions begin; called only if there are any.
Firsts = Callable[[Collection[TopicPartition]], Offsets]


class Delay:
    """Whether a trigger is skipped because too little has come, and too little time has gone by."""

    def __init__(self, min_offsets: int | None, max_delay_ms: float) -> None:
        self._min_offsets = min_offsets
        self._max_delay_ms = max_delay_ms
        self._last_trigger_ms = 0.0  # so the first trigger of a query is never skipped

    def skips(self, start: Offsets, latest: Offsets, now_ms: float) -> bool:
        """Args: now_ms: on the wall clock."""
        if self._min_offsets is None:
            return False
        is_overdue = now_ms - self._last_trigger_ms >= self._max_delay_ms
        come = sum(offset - start.get(tp, 0) for tp, offset in latest.items())
        if not is_overdue and come < self._min_offsets:
            return True
        self._last_trigger_ms = now_ms
        return False


def rate_limited(most: int, start: Offsets, latest: Offsets, firsts: Firsts) -> Offsets:
    """About this many offsets, shared out by how much each partition has; none with anything gets nothing."""
    added = latest.keys() - start.keys()
    begins = {**start, **(firsts(added) if added else {})}
    sizes = {tp: end - begins[tp] for tp, end in latest.items() if tp in begins and end > begins[tp]}
    total = float(sum(sizes.values()))
    return {
        tp: min(end, begins[tp] + _share(most, sizes[tp] / total)) if tp in sizes else end for tp, end in latest.items()
    }


def _share(most: int, part: float) -> int:
    share = most * part
    return math.ceil(share) if share < 1 else math.floor(share)


def check_target(target: Offsets, end: Offsets) -> None:
    """With Trigger.AvailableNow a batch ends at or before what there was when the query began.

    Raises:
        OffsetsError: It does not: partitions came or went, or offsets went back.
    """
    if target.keys() != end.keys():
        raise OffsetsError(
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED] Kafka data source in Trigger.AvailableNow "
            "should provide the same topic partitions in pre-fetched offset to end offset for each microbatch. "
            f"{_TRANSIENT} topic-partitions for pre-fetched offset: {names(target)}, "
            f"topic-partitions for end offset: {names(end)}."
        )
    if any(end[tp] > target[tp] for tp in end):
        raise OffsetsError(
            "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED] For Kafka data source with "
            "Trigger.AvailableNow, end offset should have lower or equal offset per each topic partition than "
            f"pre-fetched offset. {_TRANSIENT} pre-fetched offset: {places(target)}, end offset: {places(end)}."
        )


def check_still_there(end: Offsets, latest: Offsets) -> None:
    """What a batch of Trigger.AvailableNow is to read has to be there now.

    Raises:
        OffsetsError: It is not.
    """
    if not end.keys() <= latest.keys():
        raise OffsetsError(
            "[LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW] Some of partitions in Kafka topic(s) have "
            f"been lost during running query with Trigger.AvailableNow. {_TRANSIENT} "
            f"topic-partitions for latest offset: {names(latest)}, topic-partitions for end offset: {names(end)}"
        )
    if any(end[tp] > latest[tp] for tp in end):
        raise OffsetsError(
            "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW] Some of "
            "partitions in Kafka topic(s) report available offset which is less than end offset during running query "
            f"with Trigger.AvailableNow. {_TRANSIENT} latest offset: {places(latest)}, end offset: {places(end)}"
        )
