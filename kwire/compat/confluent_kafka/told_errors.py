"""Which errors a poll has told of. kwire's polls raise what stands in their way each time; librdkafka tells it once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from kwire import errors
from kwire.compat.confluent_kafka.kafka_error import KafkaError, error_of, place_of
from kwire.compat.confluent_kafka.values import Message
from kwire.model import TopicPartition

# What is tried again all the time is told of so often.
TOLD_AGAIN_S = 1.0


class ToldErrors:
    """A program that logs an error and polls again would do nothing else.

    A partition without an offset to go on at is told of once, until the program says where. Any other error is told of
    again after a while.
    """

    def __init__(self) -> None:
        self._stuck: set[TopicPartition] = set()
        self._again_s: dict[tuple[int, str], float] = {}

    def moved(self, partitions: Iterable[TopicPartition]) -> None:
        """The program goes on elsewhere in these, or has them no more."""
        self._stuck.difference_update(partitions)

    def news_of(self, error: errors.KafkaError) -> Message | None:
        """The error, of one partition at a time; None if it has been told of."""
        found = error_of(error)
        if stuck := _stuck(error):
            return self._next_stuck(found, stuck)
        now_s, this = time.monotonic(), (found.code(), found.str())
        self._again_s = {each: again_s for each, again_s in self._again_s.items() if now_s < again_s}
        if this in self._again_s:
            return None
        self._again_s[this] = now_s + TOLD_AGAIN_S
        return Message.of_error(found, *place_of(error))

    def _next_stuck(self, error: KafkaError, stuck: Mapping[TopicPartition, int | None]) -> Message | None:
        if not (new := stuck.keys() - self._stuck):
            return None
        partition = min(new)
        self._stuck.add(partition)
        return Message.of_error(error, *partition, stuck[partition])


def _stuck(error: errors.KafkaError) -> Mapping[TopicPartition, int | None]:
    """Partitions that have no offset to go on at, and those they had."""
    if isinstance(error, errors.NoOffsetForPartitionError):
        return dict.fromkeys(error.partitions)
    return error.offsets if isinstance(error, errors.OffsetOutOfRangeError) else {}
