"""A consumer that says what is done with it, for members whose code is not their own: a `Processor`'s."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from kwire.consumer.arguments import Timeout
from kwire.consumer.commit_calls import CommitCalls
from kwire.consumer.position_calls import PositionCalls
from kwire.consumer.session import ConsumerSession
from kwire.consumer.sync import Consumer
from kwire.events import Reply
from kwire.fetching.columns import Records
from kwire.model import Cursor, OffsetAndMetadata, Record, TopicPartition


class Watcher(Protocol):
    """Who is told. Records are of one partition. What is held back is so already; what goes on, sought or asked for is
    not yet."""

    def polled(self, records: Sequence[Record[bytes, bytes]]) -> None: ...
    def sought(self, partition: TopicPartition, offset: int) -> None: ...
    def paused(self, partitions: Collection[TopicPartition]) -> None: ...
    def resumed(self, partitions: Collection[TopicPartition]) -> None: ...
    def asks_for_commits(self, partitions: Collection[TopicPartition]) -> None: ...


class _WatchedPositions(PositionCalls[bytes, bytes]):
    def __init__(self, watcher: Watcher, session: ConsumerSession[bytes, bytes]) -> None:
        super().__init__(session.state, session.polling)
        self._watcher = watcher

    def set_backpressure(self, partitions: Collection[TopicPartition], cursor: Cursor, *, is_on: bool) -> None:
        if not is_on:
            self._watcher.resumed(partitions)
        super().set_backpressure(partitions, cursor, is_on=is_on)
        if is_on:
            self._watcher.paused(partitions)


class _WatchedCommits(CommitCalls[bytes, bytes]):
    def __init__(self, watcher: Watcher, session: ConsumerSession[bytes, bytes]) -> None:
        super().__init__(session.state, session.callbacks)
        self._watcher = watcher

    def ask_committed(
        self, partitions: Collection[TopicPartition]
    ) -> Reply[dict[TopicPartition, OffsetAndMetadata | None]]:
        self._watcher.asks_for_commits(partitions)
        return super().ask_committed(partitions)


class WatchedConsumer(Consumer[bytes, bytes]):
    """A consumer that tells a watcher what is done with it.

    Args:
        watcher: Told on the thread that uses the consumer.
    """

    def __init__(self, watcher: Watcher, settings: Mapping[str, object]) -> None:
        super().__init__(config=settings)
        self._watcher = watcher
        self._session.positions = _WatchedPositions(watcher, self._session)
        self._session.commits = _WatchedCommits(watcher, self._session)

    def poll(self, timeout: Timeout = 1.0, *, max_records: int | None = None) -> Records[bytes, bytes]:
        records = super().poll(timeout, max_records=max_records)
        for chunk in records.chunks():
            if rows := list(chunk):
                self._watcher.polled(rows)
        return records

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        self._watcher.sought(partition, offset if isinstance(offset, int) else offset.offset)
        super().seek(partition, offset)
