"""The arguments of public calls, checked on the caller's thread: the network thread gets valid values only.

A wrong argument is an `InvalidArgumentError` that names it, raised by the call that got it. Used by the facades and by
the parts of a `ConsumerSession`.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from numbers import Real
from re import Pattern
from typing import TypeAlias

from kwire.config import NO_BROKERS
from kwire.consumer.topic_patterns import first_pattern, not_a_name
from kwire.errors import ConfigError, InvalidArgumentError
from kwire.model import MAX_OFFSET, OffsetAndMetadata, SubscriptionPattern, TopicPartition

Topics: TypeAlias = str | Iterable[str] | Pattern[str] | SubscriptionPattern
"""One topic, several, or all that a regular expression finds: one that kwire matches, or one that the broker does."""
Timeout: TypeAlias = float | timedelta
"""Seconds."""

# What fits the fields they are sent in.
MAX_PARTITION = 2**31 - 1
MAX_EPOCH = 2**31 - 1
MAX_TIMESTAMP_MS = 2**63 - 1
MAX_POLL_RECORDS = 2**31 - 1
MAX_TEXT_BYTES = 2**15 - 1

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# From here on a timeout may be meant in milliseconds.
LONG_SECONDS = 100
# From here on a timeout means for ever: it is 31 years, or 11 days in milliseconds.
ENDLESS_SECONDS = 10**9
# Seconds since 1970, of the years 2001 to 2286. Taken for milliseconds, they would be in early 1970.
AS_SECONDS = range(10**9, 10**10)


def milliseconds(timeout: Timeout) -> float:
    """A timeout as it is counted inside. Infinity means for ever."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float_of(timeout)
    if seconds is None:
        raise InvalidArgumentError(f"a timeout is a number of seconds or a timedelta, not {timeout!r}")
    if not seconds >= 0:  # also true of NaN, which no clock ever reaches
        raise InvalidArgumentError(f"a timeout cannot be negative: {seconds}")
    return seconds * 1000.0


def float_of(given: object) -> float | None:
    """Any number as a float, or None if it is no number. A number that is too great for a float is infinity."""
    if isinstance(given, float):
        return given
    if not isinstance(given, Real | Decimal):
        return None
    try:
        return float(given)
    except OverflowError:
        return -math.inf if given < 0 else math.inf


def checked_max_lag(max_lag: int | None) -> int | None:
    """How far a healthy consumer may be behind, in offsets."""
    return None if max_lag is None else _whole_number_up_to("max_lag", max_lag, MAX_OFFSET)


def checked_max_records(max_records: object) -> int:
    """How many records a poll is to return at most."""
    if isinstance(max_records, bool) or not (most := _whole_number_up_to("max_records", max_records, MAX_POLL_RECORDS)):
        raise InvalidArgumentError(f"max_records must be at least 1, not {max_records!r}")
    return most


def hint_at_seconds(timeout: Timeout) -> None:
    """Warn of a timeout that looks like milliseconds, in which other clients count. It is taken as seconds all the
    same: somebody may mean to wait for an hour."""
    if isinstance(timeout, (float, int)) and LONG_SECONDS <= timeout < ENDLESS_SECONDS:
        warnings.warn(
            f"poll({timeout}) waits up to {timeout} seconds; if milliseconds are meant, write poll({timeout / 1000:g})",
            stacklevel=3,
        )


def topics_and_config(
    given: tuple[str | Mapping[str, object], ...], config: Mapping[str, object] | None
) -> tuple[tuple[str, ...], Mapping[str, object] | None]:
    """The arguments of a consumer: topics, and the dictionary of settings, which may come before them.

    Raises:
        ConfigError: There are two dictionaries.
        InvalidArgumentError: A topic is not text.
    """
    if given and isinstance(given[0], Mapping):
        if config is not None:
            raise ConfigError("a dictionary of settings is given twice, as the first argument and as config=; give one")
        config, given = given[0], given[1:]
    for topic in given:
        if topic and isinstance(topic, list | tuple | set) and all(isinstance(name, str) for name in topic):
            one_by_one = ", ".join(map(repr, topic))
            raise InvalidArgumentError(f"a topic name must be a str, not {topic!r}; give them one by one: {one_by_one}")
    return _checked_to_subscribe(given), config


def hint_at_file(error: Exception, call: str, topics: Iterable[object]) -> None:
    """Where an error says that there are no brokers, and a topic looks like the file that has them, say so."""
    names = [topic for topic in topics if isinstance(topic, str)]
    file = next((name for name in names if name.endswith(".properties")), None)
    if file is not None and str(error) == NO_BROKERS:
        arguments = [f"load_properties({file!r})", *(repr(name) for name in names if name != file)]
        instead = f"for a file of settings: {call}({', '.join(arguments)})"
        error.args = (f"{NO_BROKERS}; {file!r} is taken for a topic's name; {instead}",)


def checked_topic(topic: object) -> str:
    """A topic's name. Whether Kafka likes it is for the broker to say; here it must be text that can be sent."""
    if not isinstance(topic, str):
        if isinstance(topic, Mapping):  # it may hold a password
            raise InvalidArgumentError("a dictionary of settings must be the first argument, and there can be only one")
        if isinstance(topic, Pattern | SubscriptionPattern):
            raise InvalidArgumentError(f"topics that a pattern finds are for subscribe(): subscribe({topic!r})")
        raise InvalidArgumentError(f"a topic name must be a str, not {topic!r}")
    if not topic.strip():
        raise InvalidArgumentError(f"a topic name cannot be {topic!r}")
    return _checked_text("topic name", topic)


def topics_or_pattern(topics: Topics) -> tuple[frozenset[str], Pattern[str] | SubscriptionPattern | None]:
    """What `subscribe` was given."""
    if isinstance(topics, SubscriptionPattern):
        _checked_text("subscription pattern", str(topics))
        return frozenset(), topics
    if isinstance(topics, Pattern):
        if not isinstance(topics.pattern, str):
            raise InvalidArgumentError(f"a pattern for topics must be one for text, not {topics.pattern!r}")
        if not topics.pattern:
            raise InvalidArgumentError("a subscription pattern cannot be empty")
        return frozenset(), topics
    names = (topics,) if isinstance(topics, str) else _items("topic names or a compiled pattern", topics)
    return frozenset(_checked_to_subscribe(names)), None


def _checked_to_subscribe(topics: Iterable[object]) -> tuple[str, ...]:
    """Topics' names, and no pattern, which librdkafka takes as text."""
    names = tuple(map(checked_topic, topics))
    if (pattern := first_pattern(names)) is not None:
        raise InvalidArgumentError(not_a_name(pattern, "subscribe(re.compile({}))"))
    return names


def checked_partition(partition: object) -> TopicPartition:
    """A partition; a plain pair of topic and number will do."""
    if not isinstance(partition, tuple) or len(partition) != 2:
        raise InvalidArgumentError(f"expected a TopicPartition, not {partition!r}")
    number = _whole_number_up_to(f"the partition in {partition!r}", partition[1], MAX_PARTITION)
    return TopicPartition(checked_topic(partition[0]), number)


def checked_partitions(partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
    """Some partitions; a single one is a mistake, since it is a tuple and would be taken apart."""
    if isinstance(partitions, TopicPartition):
        raise InvalidArgumentError(f"expected a collection of partitions, not the single {partitions!r}")
    return frozenset(map(checked_partition, _items("partitions", partitions)))


def checked_position(partition: TopicPartition, position: object) -> OffsetAndMetadata:
    """Where to seek to, or what to commit: any whole number will do (numpy's too), or a whole OffsetAndMetadata."""
    if isinstance(position, datetime):
        look_up = "offsets_for_times({partition: time}) looks up the first offset of a time"
        raise InvalidArgumentError(f"the offset for {partition} must be a whole number, not {position!r}; {look_up}")
    if not isinstance(position, OffsetAndMetadata):
        return OffsetAndMetadata(_whole_number_up_to(f"the offset for {partition}", position, MAX_OFFSET))
    offset = _whole_number_up_to(f"the offset for {partition}", position.offset, MAX_OFFSET)
    epoch = position.leader_epoch
    if epoch is not None:
        epoch = _whole_number_up_to(f"the leader epoch for {partition}", epoch, MAX_EPOCH)
    metadata = position.metadata
    if not isinstance(metadata, str):
        raise InvalidArgumentError(f"the metadata for {partition} must be text, not {metadata!r}")
    return OffsetAndMetadata(offset, _checked_text(f"metadata for {partition}", metadata), epoch)


def checked_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """A copy of what is to be committed, so that later changes of the caller's mapping do not matter."""
    if offsets is None:
        return None
    _check_mapping("offsets", offsets)
    for tp, position in offsets.items():
        if not isinstance(position, OffsetAndMetadata):
            raise InvalidArgumentError(f"commit of {tp}: expected OffsetAndMetadata, not {position!r}")
    return {(tp := checked_partition(key)): checked_position(tp, value) for key, value in offsets.items()}


def checked_timestamps(timestamps_ms: Mapping[TopicPartition, int | datetime]) -> dict[TopicPartition, int]:
    """What `offsets_for_times` was given, in milliseconds."""
    _check_mapping("timestamps", timestamps_ms)
    return {(tp := checked_partition(key)): _checked_timestamp(tp, value) for key, value in timestamps_ms.items()}


def _checked_timestamp(tp: TopicPartition, moment: object) -> int:
    if isinstance(moment, datetime):
        moment = milliseconds_of(_with_zone(f"the time for {tp}", moment))
    elif isinstance(moment, float):
        raise InvalidArgumentError(
            f"the timestamp for {tp} is whole milliseconds since 1970, or a datetime, not {moment}"
        )
    timestamp_ms = _whole_number_up_to(f"the timestamp for {tp}", moment, MAX_TIMESTAMP_MS)
    if timestamp_ms in AS_SECONDS:
        raise InvalidArgumentError(
            f"the timestamp for {tp} is {timestamp_ms}, seconds it seems. Give milliseconds, {timestamp_ms * 1000}, "
            "or a datetime"
        )
    return timestamp_ms


def checked_bound(what: str, bound: object) -> int | datetime | None:
    """Where `read` begins or ends: a time, or an offset, which counts from the end if it is negative."""
    if bound is None:
        return None
    if isinstance(bound, datetime):
        return _with_zone(what, bound)
    if isinstance(bound, bool) or not hasattr(bound, "__index__"):
        raise InvalidArgumentError(
            f"{what} is an offset, -N for the last N records of each partition, or a datetime, not {bound!r}"
        )
    return operator.index(bound)


def milliseconds_of(moment: datetime) -> int:
    """Milliseconds since 1970. Rounded up, because records have whole ones: the first that is not earlier."""
    return -((EPOCH - moment) // timedelta(milliseconds=1))


def _with_zone(what: str, moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise InvalidArgumentError(f"{what} has no time zone: {moment!r}; use one such as datetime.UTC")
    return moment


def checked_reason(reason: object) -> str:
    """The reason of a rebalance, which brokers log."""
    if not isinstance(reason, str):
        raise InvalidArgumentError(f"a reason is text, not {reason!r}")
    return _checked_text("reason", reason)


def _check_mapping(what: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"expected a mapping of partitions to {what}, not {value!r}")


def _items(what: str, value: object) -> Iterable[object]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise InvalidArgumentError(f"expected {what}, not {value!r}")
    return value


def whole_number(what: str, value: object) -> int:
    """Any whole number will do (numpy's too). A bool is an index to Python, but here a mistake.

    Raises:
        InvalidArgumentError: It is a bool, or no whole number.
    """
    if isinstance(value, bool):
        raise InvalidArgumentError(f"{what} must be a whole number, not {value!r}")
    try:
        return operator.index(value)  # type: ignore[arg-type]  # this is the test whether it is one
    except TypeError:
        raise InvalidArgumentError(f"{what} must be a whole number, not {value!r}") from None


def _whole_number_up_to(what: str, value: object, maximum: int) -> int:
    number = whole_number(what, value)
    if number < 0:
        raise InvalidArgumentError(f"{what} cannot be negative: {number}")
    if number > maximum:
        raise InvalidArgumentError(f"{what} cannot be above {maximum}: {number}")
    return number


def _checked_text(what: str, text: str) -> str:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"the {what} is not valid Unicode: {text!r}") from None
    if size_bytes > MAX_TEXT_BYTES:
        raise InvalidArgumentError(f"the {what} takes {size_bytes} bytes; there is room for {MAX_TEXT_BYTES}")
    return text
