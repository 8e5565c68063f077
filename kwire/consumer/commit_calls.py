"""Calls about what the group has committed, and is to commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Generic

from kwire.clock import monotonic_ms
from kwire.consumer.arguments import Timeout, checked_offsets, checked_partitions
from kwire.consumer.callbacks import CallbackRunner
from kwire.consumer.listener import uncallable_with
from kwire.consumer.state import ConsumerState
from kwire.consumer.steps import Steps
from kwire.errors import InvalidArgumentError
from kwire.events import Commit, CommitAsync, CommitCallback, GetCommitted, ProcessedOffsets, Reply
from kwire.model import K, OffsetAndMetadata, Offsets, TopicPartition, V
from kwire.unfinished import is_coroutine


class CommitCalls(Generic[K, V]):
    """The calls about commits. Part of a `ConsumerSession`."""

    def __init__(self, state: ConsumerState[K, V], callbacks: CallbackRunner[K, V]) -> None:
        self._state = state
        self._link = state.link
        self._callbacks = callbacks

    def commit_sync(self, offsets: Offsets | None, timeout: Timeout | None) -> Steps[None]:
        """See `Consumer.commit_sync`."""
        given = checked_offsets(offsets)
        yield from self._commit_sync(partial(Commit, given), timeout, given)

    def commit_processed_sync(
        self, processed: Mapping[TopicPartition, ProcessedOffsets], timeout: Timeout
    ) -> Steps[None]:
        """`commit_sync` of what handlers have finished, of all cursors' records (`enable_parallel_rebalance`)."""
        yield from self._commit_sync(lambda reply: Commit({}, reply, processed=processed), timeout)

    def _commit_sync(
        self, event: Callable[[Reply[None]], Commit], timeout: Timeout | None, given: Offsets | None = None
    ) -> Steps[None]:
        self._state.check_group("commit_sync")
        self._note_delivered(given)
        began_ms = monotonic_ms()
        try:
            yield from self._link.ask("commit_sync", event, timeout)
        finally:
            self._link.metrics.polls.commit_sync_took(monotonic_ms() - began_ms)
            yield from self._callbacks.run_completed_commits()

    def commit_async(self, offsets: Offsets | None, callback: CommitCallback | None) -> None:
        """See `Consumer.commit_async`."""
        if callback is not None and (problem := uncallable_with(callback, 2)):
            raise InvalidArgumentError(f"the callback {callback!r} {problem}; it is given offsets and an error")
        if is_coroutine(callback) and not self._callbacks.awaits:
            raise InvalidArgumentError(f"nobody would await the callback {callback!r}; an AsyncConsumer does")
        given = checked_offsets(offsets)
        self._commit_async(CommitAsync(given, callback), given)

    def commit_processed_async(
        self, processed: Mapping[TopicPartition, ProcessedOffsets], callback: CommitCallback
    ) -> None:
        """`commit_async` of what handlers have finished, of all cursors' records."""
        self._commit_async(CommitAsync({}, callback, processed))

    def _commit_async(self, event: CommitAsync, given: Offsets | None = None) -> None:
        self._state.check_group("commit_async")
        self._note_delivered(given)
        self._link.mailbox.post(event)

    def _note_delivered(self, given: Offsets | None) -> None:
        """Note what a commit says of the records that were returned. Without offsets: all of them are processed, or in
        a `for` loop all that it has seen."""
        if given is None:
            self._state.note_delivered(came_back=not self._state.delivery.is_in_loop)
        else:
            self._state.note_processed(given)

    def committed(
        self, partitions: Collection[TopicPartition], timeout: Timeout | None
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        """See `Consumer.committed`."""
        self._state.check_group("committed")
        wanted = checked_partitions(partitions)
        if not wanted:
            return {}
        began_ms = monotonic_ms()
        try:
            found: dict[TopicPartition, OffsetAndMetadata | None]
            found = yield from self._link.ask("committed", partial(GetCommitted, wanted), timeout)
            return found
        finally:
            self._link.metrics.polls.committed_took(monotonic_ms() - began_ms)

    def ask_committed(
        self, partitions: Collection[TopicPartition]
    ) -> Reply[dict[TopicPartition, OffsetAndMetadata | None]]:
        """`committed`, without waiting. Asked until there is an answer, or the reply is abandoned."""
        self._state.check_group("committed")
        return self._link.post(partial(GetCommitted, checked_partitions(partitions)))
