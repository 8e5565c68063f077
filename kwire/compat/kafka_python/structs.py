"""kafka-python's value types."""

from __future__ import annotations

from typing import NamedTuple

from kwire.model import ConsumerGroupMetadata, TopicPartition

__all__ = ["ConsumerGroupMetadata", "OffsetAndMetadata", "OffsetAndTimestamp", "TopicPartition"]


class OffsetAndMetadata(NamedTuple):
    """A committed offset."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The result of `offsets_for_times` for one partition."""

    offset: int
    timestamp: int
    leader_epoch: int
