"""Calls about topics and their offsets, which need no group and no assignment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import partial

from kwire.consumer.arguments import Timeout, checked_partitions, checked_timestamps, checked_topic, milliseconds
from kwire.consumer.network_link import NetworkLink
from kwire.consumer.steps import Steps
from kwire.events import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, FoundTopics, LookUpOffsets, LookUpTopics, Reply
from kwire.model import OffsetAndTimestamp, PartitionInfo, TopicPartition


class LookUpCalls:
    """The calls about topics and offsets of brokers. Part of a `ConsumerSession`."""

    def __init__(self, link: NetworkLink) -> None:
        self._link = link

    def partitions_for(self, topic: str, timeout: Timeout | None) -> Steps[list[PartitionInfo]]:
        """See `Consumer.partitions_for`."""
        wanted = frozenset((checked_topic(topic),))
        found = yield from self._topics("partitions_for", wanted, timeout)
        return found.get(topic, [])

    def list_topics(self, timeout: Timeout | None) -> Steps[FoundTopics]:
        """See `Consumer.list_topics`."""
        return (yield from self._topics("list_topics", None, timeout))

    def _topics(self, what: str, topics: frozenset[str] | None, timeout: Timeout | None) -> Steps[FoundTopics]:
        return (yield from self._link.ask(what, lambda reply: LookUpTopics(topics, reply), timeout))

    def ask_partitions(self, topics: Collection[str]) -> Reply[FoundTopics]:
        """`partitions_for` of several, without waiting. Asked until there is an answer, or the reply is abandoned.
        Topics that do not exist are absent."""
        return self._link.post(partial(LookUpTopics, frozenset(map(checked_topic, topics))))

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int | datetime], timeout: Timeout | None
    ) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """See `Consumer.offsets_for_times`."""
        return self.offsets_at(checked_timestamps(timestamps_ms), timeout)

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout: Timeout | None
    ) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """As `offsets_for_times`. Other clients take a time in seconds for one of January 1970, and so does this."""
        return self._offsets("offsets_for_times", timestamps_ms, timeout)

    def beginning_offsets(
        self, partitions: Collection[TopicPartition], timeout: Timeout | None
    ) -> Steps[dict[TopicPartition, int]]:
        """See `Consumer.beginning_offsets`."""
        return self._ends("beginning_offsets", partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout: Timeout | None
    ) -> Steps[dict[TopicPartition, int]]:
        """See `Consumer.end_offsets`."""
        return self._ends("end_offsets", partitions, LATEST_TIMESTAMP, timeout)

    def _ends(
        self, what: str, partitions: Collection[TopicPartition], timestamp: int, timeout: Timeout | None
    ) -> Steps[dict[TopicPartition, int]]:
        timestamps = dict.fromkeys(checked_partitions(partitions), timestamp)
        found = yield from self._offsets(what, timestamps, timeout)
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    def _offsets(
        self, what: str, timestamps: Mapping[TopicPartition, int], timeout: Timeout | None
    ) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
        if timeout is not None and milliseconds(timeout) == 0:
            return dict.fromkeys(timestamps)  # as Java: nobody can tell in no time, and that is no error here
        return (yield from self._link.ask(what, lambda reply: LookUpOffsets(dict(timestamps), reply), timeout))
