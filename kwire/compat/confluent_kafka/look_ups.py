"""Look-ups of offsets and topics. kwire waits for partitions that do not exist; here they are errors at once."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from kwire.compat.confluent_kafka.arguments import check_times, key_of, seconds, until
from kwire.compat.confluent_kafka.kafka_error import KafkaError, exception
from kwire.compat.confluent_kafka.metadata import ClusterMetadata, cluster_metadata, no_topic
from kwire.compat.confluent_kafka.values import OFFSET_END, TopicPartition
from kwire.consumer.arguments import checked_topic
from kwire.consumer.sync import Consumer
from kwire.errors import InvalidTopicError
from kwire.events import FoundTopics, LookUpTopics
from kwire.model import OffsetAndTimestamp, PartitionInfo
from kwire.model import TopicPartition as Partition


class LookUps:
    """The look-ups of a `Session`."""

    def __init__(self, consumer: Consumer[bytes, bytes]) -> None:
        self._consumer = consumer

    def check(self, partitions: Collection[Partition]) -> None:
        """Raises: KafkaException, if one of these does not exist; kwire would wait for it."""
        if not partitions:
            return
        if missing := _missing(partitions, self.topics(None, -1)):  # brokers may make one that is asked for by name
            _, error = min(missing.items())
            raise exception(KafkaError.UNKNOWN_TOPIC_OR_PART, error.str())

    def missing(self, partitions: Sequence[TopicPartition], timeout: float) -> dict[Partition, KafkaError]:
        """The partitions that do not exist, with the reason."""
        wanted = [*map(key_of, partitions)]
        return _missing(wanted, self.topics(frozenset(checked_topic(tp.topic) for tp in wanted), timeout))

    def topics(self, topics: frozenset[str] | None, timeout: float) -> FoundTopics:
        """Metadata of some topics, or of all."""
        link = self._consumer._session.link
        return link.run(link.ask("metadata", lambda reply: LookUpTopics(topics, reply), seconds(timeout)))

    def metadata(self, topic: str | None, timeout: float) -> ClusterMetadata:
        """See `Consumer.list_topics`. An invalid name is an error in the answer, as brokers give it."""
        if topic is None:
            found = self.topics(None, timeout)
            return cluster_metadata(found, found)
        until_s = until(timeout)
        try:
            if not str(topic).strip():  # which kwire would refuse
                raise InvalidTopicError({topic})
            return cluster_metadata(self.topics(frozenset((checked_topic(topic),)), timeout), (topic,))
        except InvalidTopicError as error:
            invalid = KafkaError(KafkaError.TOPIC_EXCEPTION, str(error))
        if timeout >= 0:
            timeout = max(0.0, until_s - time.monotonic())
        return cluster_metadata(self.topics(None, timeout), (topic,), invalid)

    def offsets_for_times(self, partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        """See `Consumer.offsets_for_times`."""
        check_times(partitions)
        missing = self.missing(partitions, timeout)
        times = {key_of(one): one.offset for one in partitions if key_of(one) not in missing}
        if not times:
            raise exception(KafkaError._UNKNOWN_PARTITION, "none of these partitions is there")
        session = self._consumer._session
        # Not by `Consumer.offsets_for_times`, which takes no OFFSET_END, and refuses a time that looks like seconds.
        found = session.link.run(session.look_ups.offsets_at(times, seconds(timeout)))
        return [_answer(one, found, missing.get(key_of(one))) for one in partitions]


def _missing(wanted: Iterable[Partition], topics: Mapping[str, list[PartitionInfo]]) -> dict[Partition, KafkaError]:
    errors = {}
    for tp in wanted:
        if not (infos := topics.get(tp.topic)):
            errors[tp] = no_topic(tp.topic)
        elif all(info.partition != tp.partition for info in infos):
            errors[tp] = KafkaError(KafkaError._UNKNOWN_PARTITION, f"there is no partition {tp}")
    return errors


def _answer(
    one: TopicPartition, found: Mapping[Partition, OffsetAndTimestamp | None], error: KafkaError | None
) -> TopicPartition:
    if error is not None:
        answer = TopicPartition(one.topic, one.partition, one.offset)
        answer.error = error
        return answer
    if (at := found[key_of(one)]) is None:
        return TopicPartition(one.topic, one.partition, OFFSET_END)
    return TopicPartition(one.topic, one.partition, at.offset, leader_epoch=at.leader_epoch)
