"""`Processor`: many records in work at once, in order where order is wanted, committed when they are done.

    with Consumer("orders", group_id="billing", enable_auto_commit=False) as consumer:
        Processor(consumer, bill, ordering="key", workers=32).run()

It runs in the calling thread, in one of its own (`with`), or beside the tasks of an event loop (`run_async`). What that
thread does is `ProcessorLoop`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal

from kwire.clock import NEVER_MS, Deadline, monotonic_ms
from kwire.consumer.arguments import Timeout, milliseconds
from kwire.consumer.event_loops import run_awaiting, running_loop
from kwire.consumer.foreign_calls import answers_foreign_keywords
from kwire.consumer.host import Joinable, current_host
from kwire.consumer.steps import Steps, Wait
from kwire.consumer.sync import Consumer
from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.logs import client_fields, logged_as, part_logger
from kwire.model import K, V
from kwire.processing.async_workers import AsyncWorkers, hosting
from kwire.processing.ending import DRAIN_S, LAST_COMMIT_S
from kwire.processing.options import ProcessorOptions
from kwire.processing.ordered_queues import Ordering
from kwire.processing.policies import DeadLetter, OnDataLoss, OnFailure, Retry, one_of
from kwire.processing.processor_loop import ProcessorLoop
from kwire.processing.status import Status
from kwire.processing.workers import BatchHandler, Handler

log = part_logger("processing")

if TYPE_CHECKING:
    from kwire.description.health import Health
    from kwire.description.processor_description import ProcessorDescription


_FAILED = 'on_failure= is "stop", "skip", or a function of (record, error)'
_TRIED = "retry=Retry(max_attempts=...) says how often a record is tried"
PROCESSOR_KEYWORDS: Mapping[str, str] = {
    **dict.fromkeys(("concurrency", "max_concurrency", "max_workers", "num_workers", "threads"), "workers="),
    **dict.fromkeys(("on_error", "error_handler", "on_exception"), _FAILED),
    **dict.fromkeys(("dead_letter", "dlq"), "on_failure=dead_letter_topic(producer, topic), of kwire.processing"),
    **dict.fromkeys(("retries", "max_retries", "max_attempts", "backoff"), _TRIED),
    **dict.fromkeys(("batch", "max_batch_size"), "batch_size="),
    "pool": "executor=",
    **dict.fromkeys(("order", "order_by"), 'ordering= is "partition", "key" or "none"'),
    **dict.fromkeys(("rate", "max_rate", "records_per_second"), "rate_limit= is how many records a second"),
    "commit_interval_ms": "commit_interval= is in seconds",
    "group_id": "the consumer has the settings; a Processor is made with it",
}


@answers_foreign_keywords(PROCESSOR_KEYWORDS)
class Processor(Generic[K, V]):
    """Handles many records at once, in order where order is wanted, and commits what is done.

    Args:
        consumer: A subscribed consumer with `enable_auto_commit=False`. Until the processor has ended nobody else may
            use it.
        handler: A function that is called with each record, on a worker. What it returns does not matter; if it raises,
            the record has failed. An async handler (`async def`, or an object whose `__call__` is one) runs on an event
            loop in a thread of its own. Any other one must not return a coroutine or a generator, which nobody would
            run: that is a `WorkerError`.
        ordering: Which records keep their order: "partition", "key" or "none"; see `Ordering`.
        workers: How many records, or batches, are handled at once. With an async handler it may be thousands.
        executor: A `concurrent.futures.Executor` that calls the handler, instead of the processor's own threads. With a
            pool of processes, handler and records have to be picklable.
        backend: The event loop of an async handler: "asyncio" or "trio".
        batch_size: The handler is called with lists of up to `batch_size` records, all of one partition (with
            `ordering="key"`, of one key). A batch succeeds or fails as a whole.
        rate_limit: How many records a second are handled at most, by all workers; a further attempt counts as a
            record. What was not used of the last 0.1 s may be used at once.
        commit_interval: Seconds between commits. It also commits before partitions are given up, and at the end.
        retry: How often a failing record is tried. Default: without limit; once if `on_failure` is "skip" or a
            function.
        on_failure: What becomes of a record that has failed for good, or cannot be deserialized: "stop", "skip", or a
            function to call with it; see `dead_letter_topic`.
        on_data_loss: What happens if a batch is damaged, or, with `auto_offset_reset="none"`, the log has lost the
            position: "stop" or "skip". Any other `auto_offset_reset` says itself where the partition is read on.
        offset_map: Whether commits say, in their metadata, which records behind the offset are finished.
        key_order_within_ranges: With `enable_parallel_rebalance`, the records of a key keep their order among the new
            ones, and among those of the lag, but not between the two. With `ordering="key"`, True says that this is
            enough.
        max_buffered_records: How many records wait or are in work at most; those of one poll may come on top.
        max_buffered_bytes: The same for the bytes of their keys and values.
        watchdog: Seconds without a finished record after which a warning is logged, if there are records to handle.

    Raises:
        InvalidArgumentError: A bad argument.
        IllegalStateError: The consumer has no group, or commits by itself; or it does not keep the order of keys
            (`enable_parallel_rebalance`), and `key_order_within_ranges` does not say that this is enough.
    """

    def __init__(
        self,
        consumer: Consumer[K, V],
        handler: Handler[K, V] | BatchHandler[K, V],
        *,
        ordering: Ordering | Literal["partition", "key", "none"] = Ordering.PARTITION,
        workers: int = 16,
        executor: Executor | None = None,
        backend: Literal["asyncio", "trio"] = "asyncio",
        batch_size: int | None = None,
        rate_limit: float | None = None,
        commit_interval: float = 5.0,
        retry: Retry | None = None,
        on_failure: OnFailure | Literal["stop", "skip"] | DeadLetter[K, V] = OnFailure.STOP,
        on_data_loss: OnDataLoss | Literal["stop", "skip"] = OnDataLoss.STOP,
        offset_map: bool = True,
        key_order_within_ranges: bool = False,
        max_buffered_records: int = 10_000,
        max_buffered_bytes: int = 64 * 1024 * 1024,
        watchdog: float = 60.0,
    ) -> None:
        on_failure = one_of(OnFailure, "on_failure", on_failure) if isinstance(on_failure, str) else on_failure
        options: ProcessorOptions[K, V] = ProcessorOptions(
            handler=handler,
            ordering=one_of(Ordering, "ordering", ordering),
            workers=workers,
            executor=executor,
            backend=backend,
            batch_size=batch_size,
            rate_limit=rate_limit,
            commit_interval=commit_interval,
            retry=retry or Retry(max_attempts=None if on_failure is OnFailure.STOP else 1),
            on_failure=on_failure,
            on_data_loss=one_of(OnDataLoss, "on_data_loss", on_data_loss),
            offset_map=offset_map,
            key_order_within_ranges=key_order_within_ranges,
            max_buffered_records=max_buffered_records,
            max_buffered_bytes=max_buffered_bytes,
            watchdog=watchdog,
        )
        if not hasattr(consumer, "_used_by_processor"):
            kind = type(consumer).__name__
            raise InvalidArgumentError(f"a Processor takes a Consumer, not {kind}; in a task, await its run_async()")
        options.check_fits(consumer.config)
        self._options = options
        self._consumer = consumer
        self._loop = ProcessorLoop(consumer, options)
        self._thread: Joinable | None = None
        self._error: BaseException | None = None
        """What ended it."""
        self._has_run = self._has_ended = False

    def run(self) -> None:
        """Run until `stop()`, or an error. What was polled is finished and committed before this returns, or raises.

        Raises:
            ProcessingError: A record failed for good, and `on_failure` is "stop". A `WorkerError` if what runs the
                handler is broken.
            KafkaError: What `poll()` raised. Brokers that cannot be reached are waited for; only if none was ever
                reached, this raises a `BootstrapError`, after `default_api_timeout_ms`.
        """
        self._begin()
        self._run_to_end()

    def _begin(self) -> None:
        """On the thread or task of whoever starts it: a second start must not touch what the first one does."""
        if self._has_run:
            raise IllegalStateError("a processor runs once; make another one")
        self._has_run = True

    def _run_to_end(self) -> None:
        try:
            with self._logged():
                self._loop.run(self.describe)
        except BaseException as error:
            self._error = error
            raise

    def _logged(self) -> AbstractContextManager[None]:
        return logged_as(client_fields(self._consumer._session.link.client_id, self._consumer.config.group_id))

    async def run_async(self) -> None:
        """As `run`, for a task of asyncio or trio: other tasks go on meanwhile, and async handlers are tasks of the
        same event loop. A thread of the processor's own polls and commits, so a busy loop does not hold up the group.
        Rebalance callbacks run in that thread.

        When the task is cancelled, the records in work are finished and committed, as with `stop(drain=False)`, before
        the cancellation goes on. A second cancellation, on asyncio, is `stop(drain=False, timeout=0)`.
        """
        self._begin()
        async with hosting() as event_loop:
            if isinstance(self._loop.workers, AsyncWorkers):
                self._loop.workers.use(event_loop)
            self._thread = current_host().start_thread(self._run_in_background, "kwire-processor")
            await run_awaiting(self._consumer._session.link.mailbox, self._until_ended(), running_loop())
        if self._error is not None:
            raise self._error

    def _until_ended(self) -> Steps[None]:
        """Until the thread has ended. A cancellation has it end soon, and is raised then."""
        mailbox = self._consumer._session.link.mailbox
        cancellation: BaseException | None = None
        while not self._has_ended:
            seen = mailbox.signal()
            if not self._has_ended:
                try:
                    yield Wait(seen, Deadline(NEVER_MS))
                except BaseException as error:  # noqa: BLE001  raised below
                    self.stop(drain=False, timeout=DRAIN_S if cancellation is None else 0.0)
                    cancellation = error
        if cancellation is not None:
            raise cancellation

    def stop(self, *, drain: bool = True, timeout: Timeout | None = DRAIN_S) -> None:
        """Have the processor end, without waiting for it. Any thread, handler and signal handler may call this.

        Records that have failed and wait for their next attempt are given up: they are not committed, and come again.

        Args:
            drain: Whether all records that were polled are handled to the end; else only those in work.
            timeout: Seconds after which even the records in work are given up: they are not committed, and come again.
                None for as long as it takes. What is done is committed; brokers have 5 s more to answer that.
        """
        self._loop.stop(drain=drain, timeout_ms=NEVER_MS if timeout is None else milliseconds(timeout))

    def close(self, *, drain: bool = True, timeout: Timeout | None = DRAIN_S) -> None:
        """`stop()`, and wait for the thread that `with` has started. Raises what ended it.

        Raises:
            IllegalStateError: A handler calls this, which would wait for itself. It may call `stop()`.
        """
        if self._loop.workers.caller_is_handler and not self._has_ended:
            raise IllegalStateError("close() in a handler would wait for that handler: call stop()")
        if self._thread is None:
            self.stop(drain=drain, timeout=timeout)
            return
        try:
            self.stop(drain=drain, timeout=timeout)
            self._thread.join()
        except BaseException:  # another Ctrl-C
            self._end_soon(self._thread)
            raise
        self._thread = None
        if self._error is not None:
            raise self._error

    def _end_soon(self, thread: Joinable) -> None:
        """The caller does not want to wait. But nobody can close the consumer until the thread has ended."""
        self.stop(drain=False, timeout=0.0)
        thread.join(LAST_COMMIT_S)
        if not self._has_ended:
            self._consumer.wakeup()  # no broker answers a commit
            thread.join(LAST_COMMIT_S)

    def status(self) -> Status:
        """What it is doing now; from any thread."""
        return self._loop.status()

    def describe(self) -> ProcessorDescription:
        """How it and its consumer stand, and why nothing gets done, if that is so; from any thread, as
        `Consumer.describe`."""
        from kwire.processing.describing import describe  # few ever ask

        return describe(self._consumer.describe(), self.status(), self._loop.dispatcher, monotonic_ms())

    def healthy(self, *, max_lag: int | None = None) -> Health:
        """Whether it is alive: see `Consumer.healthy`. One that has ended with an error is not."""
        return self._consumer.healthy(max_lag=max_lag).with_error(
            self._loop.error if self._error is None else self._error
        )

    def __enter__(self) -> Processor[K, V]:
        """Run in a thread of its own; the end of the `with` block drains and waits."""
        self._begin()
        self._thread = current_host().start_thread(self._run_in_background, "kwire-processor")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=kind is None)

    def _run_in_background(self) -> None:
        try:
            self._run_to_end()
        except BaseException as error:  # noqa: BLE001  raised by close()
            with self._logged():
                log.error("the processor has ended, and handles nothing more; close() raises why: %r", error)
        self._has_ended = True
        self._consumer._session.link.mailbox.notify()
