"""Offsets of a query, as Spark keeps them in its checkpoint: {"topic": {"partition": next offset}}.

The form is that of Spark's `kafka` source, so a query may go from the one to the other and back. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from kwire.model import TopicPartition
from kwire.spark.errors import OptionError

Offsets: TypeAlias = dict[TopicPartition, int]
SparkOffset: TypeAlias = dict[str, dict[str, object]]
"""What Spark writes as JSON and reads again. An entry is a number; fresh-first reads have an object there."""

_LONG = range(-(2**63), 2**63)


def offsets_from_json(text: str) -> Offsets:
    """An option's value.

    Raises:
        OptionError: It is not such an object.
    """
    return _entries(text, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')


def timestamps_from_json(text: str) -> dict[TopicPartition, int]:
    """The same with times, in ms since the epoch."""
    return _entries(text, '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}')


def partitions_from_json(text: str) -> frozenset[TopicPartition]:
    """Partitions by topic: {"topicA": [0, 1]}.

    Raises:
        OptionError: It is not such an object.
    """
    try:
        topics = json.loads(text)
        return frozenset(TopicPartition(topic, _int(number)) for topic, numbers in topics.items() for number in numbers)
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from error


def to_spark(offsets: Mapping[TopicPartition, int]) -> SparkOffset:
    """For Spark, which compares what it gets as text: so always in the same order."""
    written: SparkOffset = {}
    for tp in sorted(offsets):
        written.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return written


def from_spark(offset: Mapping[str, Mapping[str, object]]) -> Offsets:
    """What `to_spark` wrote, or Spark's `kafka` source.

    Raises:
        OptionError: It is something else, such as the checkpoint of a fresh-first query.
    """
    try:
        return {
            TopicPartition(topic, int(partition)): _int(entry)
            for topic, partitions in offset.items()
            for partition, entry in partitions.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        hint = "; a query with kwire.freshFirst wrote them, and goes on only with it" if "'head'" in str(offset) else ""
        raise OptionError(f"these are not the offsets of a Kafka source: {offset}{hint}") from error


def to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """As the `kafka` source writes it: without spaces."""
    return json.dumps(to_spark(offsets), separators=(",", ":"))


def _entries(text: str, example: str) -> dict[TopicPartition, int]:
    try:
        return from_spark(json.loads(text))
    except ValueError as error:
        raise OptionError(f"Expected e.g. {example}, got {text}") from error


def _int(number: object) -> int:
    if type(number) is not int or number not in _LONG:
        raise TypeError(f"not an integer of 64 bits: {number!r}")
    return number
