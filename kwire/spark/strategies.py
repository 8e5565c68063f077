"""Which partitions a query reads: those named, those of topics, or those of topics that a pattern finds."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TypeAlias

from kwire.model import TopicPartition
from kwire.spark.errors import OptionError


@dataclass(frozen=True, slots=True)
class AssignPartitions:
    """Reads these partitions, as far as they exist."""

    partitions: frozenset[TopicPartition]

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(tp.topic for tp in self.partitions)


@dataclass(frozen=True, slots=True)
class SubscribeTopics:
    """Reads all partitions of these topics, which have to exist."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """Reads all topics in whose names the pattern is found anywhere, as Spark's source does."""

    pattern: re.Pattern[str]


Strategy: TypeAlias = AssignPartitions | SubscribeTopics | SubscribePattern


def is_wanted(topic: str, strategy: Strategy) -> bool:
    """Whether a query reads this topic, if it exists."""
    match strategy:
        case SubscribePattern(pattern):
            return pattern.search(topic) is not None
        case _:
            return topic in strategy.topics


def pattern_of(text: str) -> SubscribePattern:
    """The pattern of an option, which Spark's source has in Java's syntax.

    Raises:
        OptionError: Python does not understand it. Where it does, the two mean the same but for rarities.
    """
    try:
        with warnings.catch_warnings():
            # Python warns of what it takes literally, and other languages do not: Java's [a-z&&[^b-g]], say.
            warnings.simplefilter("error", FutureWarning)
            return SubscribePattern(re.compile(text))
    except (re.error, FutureWarning) as error:
        raise OptionError(
            f"Option 'subscribePattern': Python's regular expressions have no {text!r}: {error}"
        ) from error
