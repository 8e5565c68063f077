"""What users of kafka-python derive from to hear of rebalances."""

from __future__ import annotations

from kwire.compat.kafka_python.structs import TopicPartition

__all__ = ["AsyncConsumerRebalanceListener", "ConsumerRebalanceListener"]


class ConsumerRebalanceListener:
    """Derive from it, and override what you need."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """They are about to be given back."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """They are new."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """They belong to somebody else already."""
        self.on_partitions_revoked(lost)


class AsyncConsumerRebalanceListener:
    """The same with coroutine functions. They run on an event loop of their own."""

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """They are about to be given back."""

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """They are new."""

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """They belong to somebody else already."""
        await self.on_partitions_revoked(lost)
