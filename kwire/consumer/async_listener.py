"""Rebalance listeners of an `AsyncConsumer`, and the view of the consumer that their methods are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Protocol, TypeAlias
from uuid import UUID

from kwire.consumer.arguments import Timeout
from kwire.consumer.listener import CallsAtOnce
from kwire.model import OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo, Partitions, TopicPartition


class AsyncRebalanceConsumer(CallsAtOnce, Protocol):
    """What a callback may do with the consumer: what `RebalanceConsumer` says."""

    async def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None:
        """As `Consumer.commit_sync`."""

    async def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """As `Consumer.seek`."""

    async def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """As `Consumer.seek_to_beginning`."""

    async def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """As `Consumer.seek_to_end`."""

    async def position(self, partition: TopicPartition, *, timeout: Timeout | None = None) -> int:
        """As `Consumer.position`."""

    async def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """As `Consumer.committed`."""

    async def paused(self) -> Partitions:
        """As `Consumer.paused`."""

    async def partitions_for(self, topic: str, *, timeout: Timeout | None = None) -> list[PartitionInfo]:
        """As `Consumer.partitions_for`."""

    async def list_topics(self, *, timeout: Timeout | None = None) -> dict[str, list[PartitionInfo]]:
        """As `Consumer.list_topics`."""

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int | datetime], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """As `Consumer.offsets_for_times`."""

    async def beginning_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """As `Consumer.beginning_offsets`."""

    async def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]:
        """As `Consumer.end_offsets`."""

    async def current_lag(self, partition: TopicPartition) -> int | None:
        """As `Consumer.current_lag`."""

    async def client_instance_id(self, *, timeout: Timeout | None = None) -> UUID:
        """As `Consumer.client_instance_id`."""


AsyncOnPartitions: TypeAlias = Callable[[AsyncRebalanceConsumer, Partitions], Awaitable[None] | None]
"""A function, or a coroutine function, in the place of a listener's method."""


class AsyncRebalanceListener:
    """Override what you need, with coroutine functions or plain ones. They run in the task that polls, inside `poll()`,
    `unsubscribe()` or `close()`; other tasks go on meanwhile, and may use the consumer for all else.

    An exception is raised from that call: a `KafkaError` as it is, any other as the cause of a
    `RebalanceListenerError`. If `on_partitions_assigned` raises, each later poll calls it again until it returns. If
    another method raises, it is not called again. If the task is cancelled while it waits here, the next poll calls the
    method again, whichever it is: nobody knows how far it got.
    """

    async def on_partitions_assigned(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        """Called with new partitions, before their first record; after every completed rebalance, also with none.

        When it raises, no record of these partitions is returned until a later call has succeeded. The partitions are
        assigned all the same: if they are revoked or lost before that, the other methods are called with them.
        Meanwhile this member takes part in no other rebalance, so other members may wait up to `max_poll_interval_ms`
        for its partitions.

        Args:
            consumer: The consumer, with the calls that are allowed here.
            partitions: Those that are new.
        """

    async def on_partitions_revoked(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        """Called before partitions are given back: they are still owned, so commits for them work.

        Args:
            consumer: The consumer, with the calls that are allowed here.
            partitions: Those that go.
        """

    async def on_partitions_lost(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        """Called when partitions may belong to another member already: commits for them fail. Calls
        `on_partitions_revoked`, unless overridden.

        Args:
            consumer: The consumer, with the calls that are allowed here.
            partitions: Those that are gone.
        """
        await self.on_partitions_revoked(consumer, partitions)
