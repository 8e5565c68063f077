"""Offsets that brokers are asked for. kwire waits for partitions that are not there; here they are errors at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kwire.compat.confluent_kafka.arguments import check_times, key_of, seconds
from kwire.compat.confluent_kafka.kafka_error import KafkaError, exception
from kwire.compat.confluent_kafka.values import OFFSET_END, TopicPartition
from kwire.consumer.arguments import checked_topic
from kwire.consumer.sync import Consumer
from kwire.events import LookUpTopics
from kwire.model import OffsetAndTimestamp, PartitionInfo
from kwire.model import TopicPartition as Partition


class LookUps:
    """Part of a `Session`."""

    def __init__(self, consumer: Consumer[bytes, bytes]) -> None:
        self._consumer = consumer

    def check(self, partitions: Collection[Partition]) -> None:
        """Raises: KafkaException, if one is not there; kwire would wait for it until the time is over."""
        if partitions and (missing := self.missing(partitions, -1)):
            _, error = min(missing.items())
            raise exception(KafkaError.UNKNOWN_TOPIC_OR_PART, error.str())

    def missing(
        self, partitions: Collection[TopicPartition | Partition], timeout: float
    ) -> dict[Partition, KafkaError]:
        """Those that are not there, and why."""
        topics = frozenset(checked_topic(one.topic) for one in partitions)
        link = self._consumer._session.link
        found: dict[str, list[PartitionInfo]]
        found = link.run(link.ask("metadata", lambda reply: LookUpTopics(topics, reply), seconds(timeout)))
        errors = {}
        for tp in (Partition(one.topic, one.partition) for one in partitions):
            if not (infos := found.get(tp.topic)):
                errors[tp] = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"there is no topic {tp.topic}")
            elif all(info.partition != tp.partition for info in infos):
                errors[tp] = KafkaError(KafkaError._UNKNOWN_PARTITION, f"there is no partition {tp}")
        return errors

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
