"""The errors that polls have reported. kwire's poll raises an error each time it meets it; librdkafka reports it
once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping

from kwire import errors
from kwire.compat.confluent_kafka.kafka_error import KafkaError, ends_consumer, error_of, place_of
from kwire.compat.confluent_kafka.values import Message
from kwire.model import TopicPartition

# How often an error that persists is reported.
TOLD_AGAIN_S = 1.0


class ToldErrors:
    """The errors that were reported: a program that logs an error and polls again would otherwise do nothing else.

    A partition without a position is reported once, until the program sets one; an error that ends the consumer is
    reported once. Any other error is reported again after a while.
    """

    def __init__(self) -> None:
        self._stuck: set[TopicPartition] = set()
        self._again_s: dict[tuple[int, str], float] = {}

    def moved(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget errors of partitions that the program has moved in, or does not have any more."""
        self._stuck.difference_update(partitions)

    def news_of(self, error: errors.KafkaError) -> Message | None:
        """The error, of one partition at a time; None if it was reported."""
        found = error_of(error)
        if stuck := _stuck(error):
            return self._next_stuck(found, stuck)
        now_s, this = time.monotonic(), (found.code(), found.str())
        self._again_s = {each: again_s for each, again_s in self._again_s.items() if now_s < again_s}
        if this in self._again_s:
            return None
        self._again_s[this] = math.inf if ends_consumer(error) else now_s + TOLD_AGAIN_S
        return Message.of_error(found, *place_of(error))

    def _next_stuck(self, error: KafkaError, stuck: Mapping[TopicPartition, int | None]) -> Message | None:
        if not (new := stuck.keys() - self._stuck):
            return None
        partition = min(new)
        self._stuck.add(partition)
        return Message.of_error(error, *partition, stuck[partition])


def _stuck(error: errors.KafkaError) -> Mapping[TopicPartition, int | None]:
    """Partitions without a valid position, with the position that is out of range, if there is one."""
    if isinstance(error, errors.NoOffsetForPartitionError):
        return dict.fromkeys(error.partitions)
    return error.offsets if isinstance(error, errors.OffsetOutOfRangeError) else {}
