"""Arguments of a consumer's calls, checked and converted for kwire; and partitions, converted for programs."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence

from kwire.compat.confluent_kafka.kafka_error import KafkaError, exception
from kwire.compat.confluent_kafka.values import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    OFFSET_STORED,
    OFFSET_TAIL,
    Message,
    TopicPartition,
)
from kwire.consumer.arguments import MAX_TIMESTAMP_MS
from kwire.consumer.topic_patterns import first_pattern, not_a_name
from kwire.model import OffsetAndMetadata
from kwire.model import TopicPartition as Partition

# POSIX's character classes, which librdkafka's patterns may have, with the characters of topic names in each.
_POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"._\-",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_MAX_MESSAGES = 1_000_000
_POSIX_CLASS = re.compile(rf"\[:({'|'.join(_POSIX_CLASSES)}):\]")


def key_of(one: TopicPartition) -> Partition:
    """kwire's partition for a program's. That may be confluent-kafka's own, in programs that keep its AdminClient."""
    try:
        return Partition(one.topic, one.partition)
    except AttributeError:
        raise TypeError(f"expected a TopicPartition, not {one!r}") from None


def check_starts(partitions: Sequence[TopicPartition]) -> None:
    """Check that the offsets are valid starts."""
    for one in partitions:
        key = key_of(one)
        if OFFSET_TAIL < one.offset < OFFSET_BEGINNING and one.offset not in (OFFSET_STORED, OFFSET_INVALID):
            raise exception(KafkaError._INVALID_ARG, f"{key}: there is no offset {one.offset}")


def check_times(partitions: Sequence[TopicPartition]) -> None:
    """Check that the offsets are times that can be looked up."""
    if not partitions:
        raise exception(KafkaError._INVALID_ARG, "no partitions are given")
    for one in partitions:
        key = key_of(one)
        if not OFFSET_BEGINNING <= one.offset <= MAX_TIMESTAMP_MS:
            raise exception(KafkaError._INVALID_ARG, f"{key}: {one.offset} is no time in ms")


def check_count(messages: int) -> None:
    """Check a number of messages."""
    if not 0 <= messages <= _MAX_MESSAGES:
        raise ValueError("num_messages must be between 0 and 1000000 (1M)")


def check_time(timeout: float) -> None:
    """Refuse a timeout of 0, for which kwire would return nothing, as Java does."""
    if timeout == 0:
        raise exception(KafkaError._TIMED_OUT, "brokers cannot answer within 0 s")


def names_or_pattern(topics: Sequence[str]) -> Sequence[str] | re.Pattern[str]:
    """The topic names, or one pattern for all of them if some begin with ^. A str is refused: each character would be a
    topic, and `^` a pattern that matches nearly all topics."""
    if not isinstance(topics, list) or any(not isinstance(topic, str) for topic in topics):
        raise TypeError("expected list of topic unicode strings")
    if not topics or len(set(topics)) < len(topics):
        wrong = "a topic is listed twice" if topics else "the list of topics is empty"
        raise exception(KafkaError._INVALID_ARG, f"subscribe(): {wrong}")
    names = [topic for topic in topics if not topic.startswith("^")]
    if (unmarked := first_pattern(names)) is not None:
        advice = not_a_name(unmarked, "subscribe([{}]), with ^ at its beginning")
        raise exception(KafkaError._INVALID_ARG, advice)
    if len(names) == len(topics):
        return names
    topics = [_POSIX_CLASS.sub(lambda found: _POSIX_CLASSES[found[1]], topic) for topic in topics]
    pattern = "|".join(topic if topic.startswith("^") else f"^{re.escape(topic)}$" for topic in topics)
    try:
        return re.compile(pattern)
    except re.error as error:
        raise exception(KafkaError._INVALID_ARG, f"{pattern!r} is no pattern: {error}") from error


def answered(tp: Partition, at: OffsetAndMetadata | None) -> TopicPartition:
    """A committed offset for programs. Empty metadata, which is what brokers answer without any, becomes None.
    confluent-kafka 2.16 commits metadata with the NUL that ends a string in C, and does not show it."""
    if at is None:
        return TopicPartition(tp.topic, tp.partition)
    return TopicPartition(tp.topic, tp.partition, at.offset, at.metadata.removesuffix("\0") or None, at.leader_epoch)


def listed(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, partition in sorted(partitions)]


def offsets_of(
    message: Message | None, offsets: Sequence[TopicPartition] | None
) -> dict[Partition, OffsetAndMetadata] | None:
    if message is not None and offsets is not None:
        raise ValueError("message and offsets are mutually exclusive")
    if message is not None:
        return _offset_behind(message)
    if offsets is None:
        return None
    partitions = [*map(key_of, offsets)]
    if any("\0" in (one.metadata or "") for one in offsets):
        raise ValueError("embedded null character in metadata")
    return {tp: offset_of(one) for tp, one in zip(partitions, offsets, strict=True) if one.offset >= 0}


def offset_of(one: TopicPartition) -> OffsetAndMetadata:
    return OffsetAndMetadata(one.offset, one.metadata or "", one.leader_epoch)


def _offset_behind(message: Message) -> dict[Partition, OffsetAndMetadata]:
    """The offset behind a message; None if a program has made the message without an offset."""
    if message.error() is not None:
        raise exception(KafkaError._INVALID_ARG, "this message is an error")
    if (place := _place_of(message)) is None:
        return {}
    partition, offset = place
    return {partition: OffsetAndMetadata(offset + 1, leader_epoch=message.leader_epoch())}


def _place_of(message: Message) -> tuple[Partition, int] | None:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        return None
    return Partition(topic, partition), offset


def until(timeout: float | None) -> float:
    return math.inf if timeout is None or timeout < 0 else time.monotonic() + timeout


def seconds(timeout: float) -> float | None:
    return None if timeout < 0 else timeout
