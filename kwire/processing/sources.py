"""Sources of records, each of which keeps its order: a partition, or what a child reads of one.

A consumer that catches up with a lag (`enable_parallel_rebalance`) reads a partition with several cursors. What the
main one reads goes by the partition's own name, as with any other consumer.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kwire.model import TopicPartition


class LagOf(NamedTuple):
    """What a child reads of a partition.

    Attributes:
        part: 0 when there is one child, whose records keep their order; of several, which part.
    """

    topic_partition: TopicPartition
    part: int = 0

    def __str__(self) -> str:
        return f"the lag of {self.topic_partition}"


Source: TypeAlias = TopicPartition | LagOf


def partition_of(source: Source) -> TopicPartition:
    """The partition that it is, or is a part of."""
    return source.topic_partition if isinstance(source, LagOf) else source
