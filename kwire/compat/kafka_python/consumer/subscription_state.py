"""The rebalance listeners that users of kafka-python derive from."""

from __future__ import annotations

from kwire.compat.kafka_python.structs import TopicPartition

__all__ = ["AsyncConsumerRebalanceListener", "ConsumerRebalanceListener"]


class ConsumerRebalanceListener:
    """The base class of rebalance listeners. Override what you need."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Called before these partitions are revoked."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Called with the partitions that are newly assigned."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """Called when these partitions may belong to another member already."""
        self.on_partitions_revoked(lost)


class AsyncConsumerRebalanceListener:
    """As `ConsumerRebalanceListener`, with coroutine functions, which run on an event loop of their own."""

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Called before these partitions are revoked."""

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Called with the partitions that are newly assigned."""

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """Called when these partitions may belong to another member already."""
        await self.on_partitions_revoked(lost)
