"""When a processor commits, and what comes of it. Used by its owner alone; callbacks run inside the consumer's poll."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol

from kwire.clock import NEVER_MS
from kwire.consumer.arguments import Timeout
from kwire.consumer.listener import RebalanceConsumer
from kwire.consumer.steps import Steps
from kwire.errors import KafkaError, RebalanceInProgressError, WakeupError
from kwire.events import CommitCallback, ProcessedOffsets
from kwire.logs import part_logger
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.processing.completion_tracker import CompletionTracker, Offers
from kwire.processing.partition_progress import PartitionProgress

log = part_logger("processing")

# How soon a commit that met a rebalance is made again: as a rule the next polls finish the rebalance.
_AFTER_REBALANCE_MS = 100.0


class ProcessedCommits(Protocol):
    """Commits for a consumer that several cursors read for. May be called inside callbacks as well."""

    def commit_processed_sync(
        self, processed: Mapping[TopicPartition, ProcessedOffsets], timeout: Timeout
    ) -> Steps[None]: ...
    def commit_processed_async(
        self, processed: Mapping[TopicPartition, ProcessedOffsets], callback: CommitCallback
    ) -> None: ...


def _not_needed(_: Steps[None]) -> None:
    """Nothing but the calls of a consumer is used."""


class Commits:
    """A processor's commits: when one is made, and what comes of it.

    Args:
        report_done: Tells the completion tracker what is done by now; called in front of each commit.
        interval_ms: Between two commits.
        both_cursors: Makes the commits of a consumer with several cursors; None for any other one.
        run: Drives the steps of such a commit, blocking where they wait.
    """

    def __init__(
        self,
        completion: CompletionTracker,
        report_done: Callable[[], None],
        *,
        interval_ms: float,
        both_cursors: ProcessedCommits | None = None,
        run: Callable[[Steps[None]], None] = _not_needed,
    ) -> None:
        self.acknowledged = 0
        """How many the broker has taken."""
        self.has_ended = False
        """Whether a commit has ended since its owner looked: partitions may wait for it."""
        self._completion = completion
        self._report_done = report_done
        self._interval_ms = interval_ms
        self._both_cursors = both_cursors
        self._run = run
        self._next_ms = 0.0
        self._asked_ms = 0.0
        self._is_under_way = False
        self._error: BaseException | None = None
        """Of the commit that ended last."""

    @property
    def due_ms(self) -> float:
        """When to commit next; never, while a commit is under way."""
        return NEVER_MS if self._is_under_way else self._next_ms

    def begin(self, now_ms: float) -> None:
        """The first interval begins."""
        self._next_ms = now_ms + self._interval_ms

    def hurry(self) -> None:
        """Commit as soon as can be."""
        self._next_ms = 0.0

    def commit(self, consumer: RebalanceConsumer, now_ms: float) -> None:
        """Commit for all partitions, without waiting."""
        self._next_ms = now_ms + self._interval_ms
        self._report_done()
        if offers := self._completion.offers():
            self._asked_ms = now_ms
            progress = self._completion.progress_of(offers)
            callback = partial(self._on_committed, offers, progress)
            if self._both_cursors is None:
                consumer.commit_async(_offsets(offers), callback=callback)
            else:
                self._both_cursors.commit_processed_async(_processed(offers), callback)
            self._is_under_way = True  # last: none is, if that has raised

    def _on_committed(
        self,
        offers: Offers,
        progress: dict[TopicPartition, PartitionProgress],
        _offsets: object,
        error: BaseException | None,
    ) -> None:
        self._is_under_way = False
        self._error = error
        self.has_ended = True
        if error is None:
            self.acknowledged += 1
            self._completion.acknowledged(offers, progress)
        elif isinstance(error, RebalanceInProgressError):
            self._next_ms = min(self._next_ms, self._asked_ms + _AFTER_REBALANCE_MS)
        else:
            log.warning(
                "a commit failed; what is still assigned is committed in %.1f s: %s", self._interval_ms / 1000.0, error
            )

    def is_settled(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition], now_ms: float) -> bool:
        """Whether nothing of these is left to commit; if something is, a commit is under way now. Also true after a
        commit that failed: `commit_last` makes the next one, and waits for it."""
        self._report_done()
        if self._error is not None or not self._completion.offers(partitions):
            return True
        if not self._is_under_way:
            self.commit(consumer, now_ms)
        return False

    def waits_for_polls(self, consumer: RebalanceConsumer, now_ms: float) -> bool:
        """Whether a commit is under way, or was refused because the group rebalances: further polls finish either. Any
        other failure is for `commit_last`."""
        self._report_done()
        if not self._is_under_way and self._error is None:
            self.commit(consumer, now_ms)
        return self._is_under_way or (
            isinstance(self._error, RebalanceInProgressError) and bool(self._completion.offers())
        )

    def commit_last(
        self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition], timeout_ms: float
    ) -> None:
        """Commit, and wait for it: the partitions are given up, or the processor ends. A failure is logged: their
        records come again."""
        self._report_done()
        offers = self._completion.offers(partitions)
        if not offers:
            return
        try:
            if self._both_cursors is None:
                consumer.commit_sync(_offsets(offers), timeout=timeout_ms / 1000.0)
            else:
                self._run(self._both_cursors.commit_processed_sync(_processed(offers), timeout_ms / 1000.0))
        except WakeupError:
            raise
        except KafkaError as error:
            log.warning("the last commit of %s failed: %s", ", ".join(map(str, sorted(offers))), error)
        else:
            self.acknowledged += 1
            self._completion.acknowledged(offers, self._completion.progress_of(offers))


def _offsets(offers: Offers) -> dict[TopicPartition, OffsetAndMetadata]:
    return {tp: offered.position for tp, offered in offers.items() if offered.position is not None}


def _processed(offers: Offers) -> dict[TopicPartition, ProcessedOffsets]:
    return {tp: offered.processed for tp, offered in offers.items() if offered.processed is not None}
