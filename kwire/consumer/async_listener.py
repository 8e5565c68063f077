"""Rebalance listeners of an `AsyncConsumer`, and the view of the consumer that their methods are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Protocol, TypeAlias

from kwire.consumer.access import ThreadAccessKey
from kwire.consumer.arguments import Timeout
from kwire.consumer.listener import Partitions
from kwire.errors import KafkaError
from kwire.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
)

AsyncCommitCallback: TypeAlias = Callable[
    [Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], Awaitable[None] | None
]
"""A function, or a coroutine function: given what was to be committed, and the error if it was not."""


class AsyncRebalanceConsumer(Protocol):
    """What a callback may do with the consumer: what `RebalanceConsumer` says."""

    def assignment(self) -> Partitions: ...
    def subscription(self) -> frozenset[str]: ...
    def to_be_revoked_partitions(self) -> Partitions: ...
    def lost_partitions(self) -> Partitions: ...
    async def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None: ...
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        callback: AsyncCommitCallback | None = None,
    ) -> None: ...
    async def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None: ...
    async def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None: ...
    async def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None: ...
    async def position(self, partition: TopicPartition, *, timeout: Timeout | None = None) -> int: ...
    async def committed(
        self, partitions: Collection[TopicPartition], *, timeout: Timeout | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    def pause(self, partitions: Collection[TopicPartition]) -> None: ...
    def resume(self, partitions: Collection[TopicPartition]) -> None: ...
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
    def group_metadata(self) -> ConsumerGroupMetadata: ...
    def get_thread_access_key(self) -> ThreadAccessKey | None: ...
    def set_thread_access_key(self, key: ThreadAccessKey | None) -> None: ...


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
