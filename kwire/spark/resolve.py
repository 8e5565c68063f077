"""What limits mean in offsets: the driver's questions to the cluster, as Spark's `KafkaOffsetReaderAdmin` asks them.

One `OffsetReader` for each query. Questions that fail for a reason that may pass are asked again, as the options say;
below that, kwire's consumer has retried already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from kwire import Consumer
from kwire.clock import Deadline
from kwire.errors import KafkaError, UnknownTopicOrPartitionError
from kwire.mailbox import Mailbox
from kwire.model import INTERNAL_TOPICS, Partitions, TopicPartition
from kwire.spark import errors
from kwire.spark.kafka_options import driver_settings
from kwire.spark.limits import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Earliest,
    Latest,
    Limit,
    OnNoMatch,
    SpecificOffsets,
    SpecificTimestamps,
)
from kwire.spark.offsets import Offsets
from kwire.spark.options import SourceOptions
from kwire.spark.strategies import AssignPartitions, SubscribePattern, SubscribeTopics

log = logging.getLogger(__name__)

T = TypeVar("T")


class OffsetReader:
    """Asks with a consumer of its own, made with the first question. Close it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._consumer: Consumer[bytes, bytes] | None = None

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    # --- what there is --------------------------------------------------------------------------------------

    def partitions(self) -> Partitions:
        """The partitions that the query reads, now.

        Raises:
            UnknownTopicOrPartitionError: A topic that was named does not exist.
        """
        return self._retried(self._partitions)

    def earliest(self, partitions: Collection[TopicPartition] | None = None) -> Offsets:
        """Where all partitions begin; or those of these that still exist."""

        def ask() -> Offsets:
            existing = self._partitions()
            wanted = existing if partitions is None else existing & frozenset(partitions)
            return self._lazy_consumer.beginning_offsets(wanted)

        return self._retried(ask) if partitions is None or partitions else {}

    def latest(self, known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """Where all partitions end. An end in front of what is known may be a broker that lags (KAFKA-7703): it is
        asked again, and then believed, for the topic may have been recreated."""
        offsets: Offsets = {}
        for attempt in range(max(1, self._options.offset_attempts)):
            if attempt:
                self._pause()
            offsets = self._retried(lambda: self._lazy_consumer.end_offsets(self._partitions()))
            behind = {
                tp: (offset, offsets[tp]) for tp, offset in (known or {}).items() if offsets.get(tp, offset) < offset
            }
            if not behind:
                break
            log.warning("partitions end in front of what was read of them (known offset, end): %s", behind)
        return offsets

    # --- what limits mean -----------------------------------------------------------------------------------

    def unresolved(self, limit: Limit, *, is_start: bool) -> Offsets:
        """The limit for each partition, -1 and -2 left as they are: the reader looks those up.

        Raises:
            OffsetsError: The limit names other partitions than those there are, or a time that no record reaches.
        """
        match limit:
            case Earliest():
                return dict.fromkeys(self.partitions(), EARLIEST_OFFSET)
            case Latest():
                return dict.fromkeys(self.partitions(), LATEST_OFFSET)
            case SpecificOffsets(offsets):
                assigned = self.partitions()
                if offsets.keys() != assigned:
                    raise errors.start_does_not_match(offsets, assigned)
                return dict(offsets)
            case SpecificTimestamps(times, on_no_match):
                assigned = self.partitions()
                if times.keys() != assigned:
                    raise errors.timestamps_do_not_match(times, assigned, is_start=is_start)
                return self.resolved(self._at_times(times, on_no_match if is_start else OnNoMatch.LATEST))
            case _:
                times = dict.fromkeys(self.partitions(), limit.timestamp_ms)
                return self.resolved(self._at_times(times, limit.on_no_match if is_start else OnNoMatch.LATEST))

    def resolved(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """The same with -1 and -2 looked up."""
        return self._retried(lambda: self._resolved(offsets))

    def initial(self, limit: Limit) -> Offsets:
        """Where a new streaming query starts; raises as `unresolved`."""
        if isinstance(limit, SpecificOffsets) and limit.offsets.keys() != (assigned := self.partitions()):
            raise errors.start_is_not_of_all(limit.offsets, assigned)
        return self.resolved(self.unresolved(limit, is_start=True))

    def _at_times(self, times_ms: Mapping[TopicPartition, int], on_no_match: OnNoMatch) -> Offsets:
        found = self._retried(lambda: self._lazy_consumer.offsets_for_times(times_ms))
        missing = sorted(tp for tp in times_ms if found.get(tp) is None)
        if missing and on_no_match is OnNoMatch.ERROR:
            raise errors.no_offset_at(missing[0], times_ms[missing[0]])
        offsets = dict.fromkeys(missing, LATEST_OFFSET)
        offsets.update({tp: at.offset for tp, at in found.items() if at is not None})
        return offsets

    def _resolved(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        early = [tp for tp, offset in offsets.items() if offset == EARLIEST_OFFSET]
        late = [tp for tp, offset in offsets.items() if offset == LATEST_OFFSET]
        looked_up: Offsets = {}
        if early:
            looked_up |= self._lazy_consumer.beginning_offsets(early)
        if late:
            looked_up |= self._lazy_consumer.end_offsets(late)
        return {tp: looked_up.get(tp, offset) for tp, offset in offsets.items()}

    # --- how it asks ----------------------------------------------------------------------------------------

    @property
    def _lazy_consumer(self) -> Consumer[bytes, bytes]:
        if self._consumer is None:
            self._consumer = Consumer(config=driver_settings(self._options.kafka))
        return self._consumer

    def _partitions(self) -> Partitions:
        strategy = self._options.strategy
        match strategy:
            case AssignPartitions(partitions):
                return self._of_topics(strategy.topics) & partitions
            case SubscribeTopics(topics):
                return self._of_topics(topics)
            case SubscribePattern(pattern):
                listed = self._lazy_consumer.list_topics()
                matching = {topic for topic in listed if pattern.search(topic)} - INTERNAL_TOPICS
                return frozenset(TopicPartition(topic, info.partition) for topic in matching for info in listed[topic])

    def _of_topics(self, topics: Collection[str]) -> Partitions:
        found: set[TopicPartition] = set()
        for topic in sorted(set(topics) - INTERNAL_TOPICS):
            infos = self._lazy_consumer.partitions_for(topic)
            if not infos:
                raise UnknownTopicOrPartitionError(
                    f"This server does not host this topic-partition: there is no topic {topic}",
                    code=3,
                    name="UNKNOWN_TOPIC_OR_PARTITION",
                )
            found.update(TopicPartition(topic, info.partition) for info in infos)
        return frozenset(found)

    def _retried(self, ask: Callable[[], T]) -> T:
        attempts = max(1, self._options.offset_attempts)
        for attempt in range(1, attempts):
            try:
                return ask()
            except KafkaError as error:
                if not error.retriable:
                    raise
                log.warning("attempt %d of %d to get offsets failed: %s", attempt, attempts, error)
                self.close()
                self._pause()
        return ask()

    def _pause(self) -> None:
        mailbox = Mailbox()  # a sleep that goes by the installed clock, as all waits
        mailbox.wait(mailbox.signal(), Deadline.after(self._options.offset_retry_interval_ms))
