"""Times as kafka-python and aiokafka take them: milliseconds since 1970, the fraction of a float is cut off."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.consumer.arguments import MAX_TIMESTAMP_MS, checked_partition
from kwire.model import TopicPartition


def whole_ms(times: Mapping[TopicPartition, float]) -> dict[TopicPartition, int]:
    """What `LookUpCalls.offsets_at` takes.

    Raises:
        ValueError: One is negative, or no broker could read it.
    """
    if bad := [tp for tp, moment in times.items() if not 0 <= moment <= MAX_TIMESTAMP_MS]:
        raise ValueError(f"the target time of {bad[0]} is negative, or too large")
    return {checked_partition(TopicPartition(*tp)): int(moment) for tp, moment in times.items()}
