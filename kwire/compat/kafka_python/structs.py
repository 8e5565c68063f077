"""The values of kafka-python."""

from __future__ import annotations

from typing import NamedTuple

from kwire.model import ConsumerGroupMetadata, TopicPartition

__all__ = ["ConsumerGroupMetadata", "OffsetAndMetadata", "OffsetAndTimestamp", "TopicPartition"]


class OffsetAndMetadata(NamedTuple):
    """What is committed."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """What `offsets_for_times` answers."""

    offset: int
    timestamp: int
    leader_epoch: int
