"""Times as kafka-python and aiokafka accept them: milliseconds since 1970, without the fraction of a float."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.consumer.arguments import MAX_TIMESTAMP_MS, checked_partition
from kwire.model import TopicPartition


def whole_ms(times: Mapping[TopicPartition, float]) -> dict[TopicPartition, int]:
    """The times as integers, as `LookUpCalls.offsets_at` needs them.

    Raises:
        ValueError: A time is negative, or does not fit into a request.
    """
    if bad := [tp for tp, moment in times.items() if not 0 <= moment <= MAX_TIMESTAMP_MS]:
        raise ValueError(f"the target time of {bad[0]} is negative, or too large")
    return {checked_partition(TopicPartition(*tp)): int(moment) for tp, moment in times.items()}
