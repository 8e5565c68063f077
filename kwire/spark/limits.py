"""Where a read starts and ends, before it is known what that means in offsets: five kinds of limits, as data.

Made by `limit_options`, given meaning by `resolve`. Spark calls them `KafkaOffsetRangeLimit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from kwire.model import TopicPartition

# What stands for an offset where it is to be looked up as late as possible: by the task that reads.
LATEST_OFFSET = -1
EARLIEST_OFFSET = -2


class OnNoMatch(Enum):
    """What to do when no record is as new as the timestamp to start from."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first record of each partition."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the last record of each partition."""


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset for each partition; -1 and -2 as above."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
    """A time for each partition, in ms since the epoch: the first record that is not older."""

    timestamps_ms: Mapping[TopicPartition, int]
    on_no_match: OnNoMatch


@dataclass(frozen=True, slots=True)
class GlobalTimestamp:
    """The same time for all partitions."""

    timestamp_ms: int
    on_no_match: OnNoMatch


Limit: TypeAlias = Earliest | Latest | SpecificOffsets | SpecificTimestamps | GlobalTimestamp
EARLIEST = Earliest()
LATEST = Latest()
