"""Rebalance listeners of an `AsyncConsumer`, and the view of the consumer that their methods are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Protocol, TypeAlias
from uuid import UUID

from kwire.consumer.arguments import Timeout
from kwire.consumer.listener import CallsAtOnce, Partitions
from kwire.model import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
)


class AsyncRebalanceConsumer(CallsAtOnce, Protocol):
    """What a callback may do with the consumer: what `RebalanceConsumer` says."""

    async def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None: ...
    async def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None: ...
    async def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None: ...
    async def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None: ...
    async def position(self, partition: TopicPartition, *, timeout: Timeout | None = None) -> int: ...
    async def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    async def paused(self) -> Partitions: ...
    async def partitions_for(self, topic: str, *, timeout: Timeout | None = None) -> list[PartitionInfo]: ...
    async def list_topics(self, *, timeout: Timeout | None = None) -> dict[str, list[PartitionInfo]]: ...
    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int | datetime], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]: ...
    async def beginning_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]: ...
    async def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, int]: ...
    async def current_lag(self, partition: TopicPartition) -> int | None: ...
    async def client_instance_id(self, *, timeout: Timeout | None = None) -> UUID: ...


AsyncOnPartitions: TypeAlias = Callable[[AsyncRebalanceConsumer, Partitions], Awaitable[None] | None]
"""A function, or a coroutine function, in the place of a listener's method."""


class AsyncRebalanceListener:
    """Override what you need, with coroutine functions or plain ones. They run in the task that polls, inside `poll()`,
    `unsubscribe()` or `close()`; other tasks go on meanwhile, and may use the consumer for all else.

    An exception is raised from that call, after the rebalance step it belongs to is complete: a `KafkaError` as it is,
    any other as the cause of a `RebalanceListenerError`. If the task is cancelled while it waits here, the next poll
    calls the method again: nobody knows how far it got.
    """

    async def on_partitions_assigned(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        """New partitions, before the first record of them; called for every completed rebalance, also with none."""

    async def on_partitions_revoked(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        """Partitions are about to be given back; they are still owned, so commits for them work."""

    async def on_partitions_lost(self, consumer: AsyncRebalanceConsumer, partitions: Partitions) -> None:
        """Partitions already belong to somebody else; commits fail. Does what revoked does, unless overridden."""
        await self.on_partitions_revoked(consumer, partitions)
