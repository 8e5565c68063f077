"""`Processor`: many records in work at once, in order where order is wanted, committed when they are done. Long: the
arguments of users and the loop of the thread that owns everything are in one place.

    with Consumer("orders", group_id="billing", enable_auto_commit=False) as consumer:
        Processor(consumer, bill, ordering="key", workers=32).run()

The thread that runs it is the one owner of everything: it polls, hands out, takes back, commits. Workers only call the
handler and post what came of it. While all workers are busy it goes on polling, with full partitions held, so the group
never waits for a handler. When partitions are revoked, it lets their records in work end, commits, and only then gives
them up. When a poll raises, what was polled before is finished and committed first, then the processor ends.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal

from kwire.clock import NEVER_MS, Deadline, monotonic_ms
from kwire.consumer.event_loops import run_awaiting, running_loop
from kwire.consumer.host import Joinable, current_host
from kwire.consumer.listener import Partitions, RebalanceConsumer, RebalanceListener
from kwire.consumer.steps import Steps, Wait
from kwire.consumer.sync import Consumer
from kwire.errors import (
    BootstrapError,
    CorruptRecordError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    OffsetOutOfRangeError,
    SchemaRegistryUnavailableError,
)
from kwire.fetching.columns import Records
from kwire.fetching.partition_records import PartitionRecords
from kwire.logs import client_fields, logged_as, part_logger
from kwire.model import Cursor, K, TopicPartition, V
from kwire.processing.assignment_loader import AssignmentLoader
from kwire.processing.async_workers import AsyncWorkers, hosting
from kwire.processing.backpressure import Backpressure
from kwire.processing.commits import Commits
from kwire.processing.completion_tracker import CompletionTracker
from kwire.processing.data_loss import LossSkipper
from kwire.processing.dispatcher import Dispatcher
from kwire.processing.ending import DRAIN_S, LAST_COMMIT_S, Ending
from kwire.processing.options import ProcessorOptions
from kwire.processing.ordered_queues import Ordering
from kwire.processing.policies import DeadLetter, OnDataLoss, OnFailure, Retry, one_of
from kwire.processing.revocation_drain import RevocationDrain
from kwire.processing.status import Status
from kwire.processing.workers import BatchHandler, ExecutorWorkers, Handler, Run, ThreadWorkers, Workers

log = part_logger("processing")

LONGEST_POLL_S = 1.0
# How long only the workers are served, while enough is buffered: a poll takes longer than to hand out a record.
SERVING_MS = 5.0
# How long a drain waits between polls that raise.
AFTER_ERROR_S = 0.1
# How long only the workers are served after a schema registry has not answered; then a poll asks it again.
AFTER_OUTAGE_S = 1.0
BETWEEN_WARNINGS_MS = 30_000.0

if TYPE_CHECKING:
    from kwire.description.health import Health
    from kwire.description.processor_description import ProcessorDescription


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
        batch_size: The handler is called with lists of up to so many records, all of one partition (with
            `ordering="key"`, of one key). A batch succeeds or fails as a whole.
        rate_limit: How many records a second are handled at most, by all workers. What was not used of the last 0.1 s
            may be used at once.
        commit_interval: Seconds between commits. It also commits before partitions are given up, and at the end.
        retry: How often a failing record is tried. Default: without limit; once if `on_failure` is "skip" or a
            function.
        on_failure: What becomes of a record that has failed for good, or cannot be deserialized: "stop", "skip", or a
            function to call with it; see `dead_letter_topic`.
        on_data_loss: What happens if a batch is damaged, or the log has lost the position: "stop" or "skip".
        offset_map: Whether commits say, in their metadata, which records behind the offset are finished.
        key_order_within_ranges: With `enable_parallel_rebalance`, the records of a key keep their order among the new
            ones, and among those of the lag, but not between the two. With `ordering="key"`, True says that this is
            enough.
        max_buffered_records: How many records wait or are in work at most; those of one poll may come on top.
        max_buffered_bytes: The same for the bytes of their keys and values.
        watchdog: After so many seconds in which no record was done, though there are some, a warning is logged.

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
        if not hasattr(consumer, "_lent_to"):
            kind = type(consumer).__name__
            raise InvalidArgumentError(f"a Processor takes a Consumer, not {kind}; in a task, await its run_async()")
        config, session = consumer.config, consumer._session  # for what only a processor asks of a consumer
        options.check_fits(config)
        has_lags = config.enable_parallel_rebalance
        self._options = options
        self._consumer = consumer
        self._workers = self._new_workers(options)
        children = config.parallel_rebalance_children if has_lags else 0
        self._completion = CompletionTracker(with_map=offset_map, children=children)
        self._dispatcher: Dispatcher[K, V] = Dispatcher(options, self._workers.start, self._completion)
        self._loader = AssignmentLoader(
            self._completion, session.commits, session.look_ups, session.positions, self._is_busy
        )
        cursors = tuple(Cursor) if has_lags else (Cursor.MAIN,)
        self._backpressure = Backpressure(options, consumer, session.positions, self._dispatcher.usage, cursors)
        self._commits = Commits(
            self._completion,
            self._dispatcher.look,
            interval_ms=commit_interval * 1000.0,
            both_cursors=session.commits if has_lags else None,
            run=session.link.run,
        )
        self._revocation = RevocationDrain(config.max_poll_interval_ms, config.default_api_timeout_ms)
        self._skipper = LossSkipper(consumer)
        self._listener = _Listener(self, consumer.rebalance_listener)
        self._ending = Ending()
        self._thread: Joinable | None = None
        self._error: BaseException | None = None
        """What ended the thread."""
        self._has_ended = False
        self._has_run = self._is_running = False
        self._is_woken = False  # by `stop`, since the loop looked last
        self._wake_poll = _wake_nobody
        self._reached_by_ms = NEVER_MS
        self._poll_error: KafkaError | None = None
        self._warn_of_outage_ms = 0.0
        self._undelivered: Records[K, V] = Records()
        """Records that a poll has returned and that are not delivered: a signal handler may raise in between."""
        self._progress_ms = self._warned_ms = monotonic_ms()

    def _new_workers(self, options: ProcessorOptions[K, V]) -> Workers[K, V]:
        if options.is_async:
            return AsyncWorkers(options.backend, self._on_ended)
        if options.executor is not None:
            return ExecutorWorkers(options.executor, self._on_ended)
        return ThreadWorkers(options.workers, self._on_ended)

    # --- what users call ------------------------------------------------------------------------------------

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
        with (
            self._logged(),
            self._consumer._lent_to(self._has_news, self._end) as self._wake_poll,
        ):
            self._is_running = True
            self._consumer.rebalance_listener = self._listener
            self._consumer._session.describes_loan = self.describe
            self._run()
        if (error := self._dispatcher.error or self._poll_error) is not None:
            raise error

    def _logged(self) -> AbstractContextManager[None]:
        return logged_as(client_fields(self._consumer._session.link.client_id, self._consumer.config.group_id))

    def _run(self) -> None:
        now_ms = monotonic_ms()
        self._reached_by_ms = now_ms + self._revocation.patience_ms
        self._loader.begin(self._consumer.assignment())
        self._commits.begin(now_ms)
        while not self._ending.is_asked and self._dispatcher.error is None and self._poll_error is None:
            self._try_turn()
        self._drain()

    async def run_async(self) -> None:
        """As `run`, for a task of asyncio or trio: other tasks go on meanwhile, and async handlers are tasks of the
        same event loop. A thread of the processor's own polls and commits, so a busy loop does not hold up the group.
        Rebalance callbacks run in that thread.

        When the task is cancelled, the records in work are finished and committed, as with `stop(drain=False)`, before
        the cancellation goes on. A second cancellation, on asyncio, is `stop(drain=False, timeout=0)`.
        """
        self._begin()
        async with hosting() as loop:
            if isinstance(self._workers, AsyncWorkers):
                self._workers.use(loop)
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

    def stop(self, *, drain: bool = True, timeout: float | None = DRAIN_S) -> None:
        """Have the processor end, without waiting for it. Any thread, handler and signal handler may call this.

        Records that have failed and wait for their next attempt are given up: they are not committed, and come again.

        Args:
            drain: Whether all records that were polled are handled to the end; else only those in work.
            timeout: Seconds after which even the records in work are given up: they are not committed, and come again.
                None for as long as it takes. What is done is committed; brokers have 5 s more to answer that.
        """
        self._ending.ask(drain=drain, timeout_s=timeout)
        self._is_woken = True
        self._wake_poll()

    def close(self, *, drain: bool = True, timeout: float | None = DRAIN_S) -> None:
        """`stop()`, and wait for the thread that `with` has started. Raises what ended it."""
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
        dispatcher, now_ms = self._dispatcher, monotonic_ms()
        return Status(
            is_running=self._is_running,
            waiting=dispatcher.waiting,
            in_work=dispatcher.in_work,
            retrying=dispatcher.retrying,
            handled=dispatcher.counts.handled,
            failed_attempts=dispatcher.counts.failed_attempts,
            skipped=dispatcher.counts.skipped,
            dead_lettered=dispatcher.counts.dead_lettered,
            commits=self._commits.acknowledged,
            paused=self._backpressure.held,
            seconds_since_progress=(now_ms - self._progress_ms) / 1000.0,
            per_second=dispatcher.sizer.meter.per_second(now_ms),
            handler_p50_ms=dispatcher.sizer.times.quantile_ms(0.5),
            handler_p99_ms=dispatcher.sizer.times.quantile_ms(0.99),
        )

    def describe(self) -> ProcessorDescription:
        """How it and its consumer stand, and why nothing gets done, if that is so; from any thread, as
        `Consumer.describe`."""
        from kwire.processing.describing import describe  # few ever ask

        return describe(self._consumer.describe(), self.status(), self._dispatcher, monotonic_ms())

    def healthy(self, *, max_lag: int | None = None) -> Health:
        """Whether it is alive: see `Consumer.healthy`. One whose thread has ended with an error is not."""
        return self._consumer.healthy(max_lag=max_lag).with_error(
            self._error or self._dispatcher.error or self._poll_error
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
            self._error = error
            with self._logged():
                log.error("the processor has ended, and handles nothing more; close() raises why: %r", error)
        self._has_ended = True
        self._consumer._session.link.mailbox.notify()

    # --- one turn -------------------------------------------------------------------------------------------

    def _try_turn(self) -> None:
        try:
            self._turn()
        except KafkaError as error:  # a broker's refusal, or a key that no queue can be looked up by
            self._end_with(error)

    def _turn(self) -> None:
        now_ms = self._take_back(0.0)
        self._loader.settle(now_ms)
        self._revocation.hold_back(self._consumer, self._dispatcher, self._commits, now_ms)
        if self._completion.has_begun:  # commit where, in front of a handler that may end the process
            self._completion.has_begun = False
            self._commits.hurry()
        if now_ms >= self._commits.due_ms:
            self._commits.commit(self._consumer, now_ms)
        now_ms = self._serve(now_ms)
        self._backpressure.hold_all() if self._ending.is_draining else self._backpressure.regulate(
            self._loader.partitions
        )
        self._watch(now_ms)
        self._poll(now_ms)

    def _serve(self, now_ms: float) -> float:
        """Hand out and take back. Returns the time afterwards."""
        until_ms = now_ms + SERVING_MS
        self._dispatcher.hand_out(now_ms)
        while self._dispatcher.has_backlog and now_ms < until_ms:
            now_ms = self._take_back(until_ms - now_ms)
            self._dispatcher.hand_out(now_ms)
        return now_ms

    def _take_back(self, timeout_ms: float) -> float:
        """Take back what workers have ended. Returns the time afterwards."""
        done = self._dispatcher.take_back(timeout_ms / 1000.0)
        now_ms = monotonic_ms()
        if done or self._dispatcher.is_idle:
            self._progress_ms = now_ms
        return now_ms

    def _poll(self, now_ms: float) -> None:
        due_ms = (self._dispatcher.due_ms, self._commits.due_ms, self._revocation.due_ms, self._loader.due_ms)
        wake_at_ms = min(*due_ms, self._ending.until.at_ms)
        timeout_s = min(LONGEST_POLL_S, max(0.0, (wake_at_ms - now_ms) / 1000.0))
        gathers = True
        while gathers:
            records = self._polled(timeout_s)
            try:
                self._deliver(records)
            except BaseException:
                self._completion.lose_track()
                raise
            self._undelivered = Records()
            timeout_s, gathers = 0.0, self._dispatcher.wants_more and not records.is_empty()
        self._is_woken = self._commits.has_news = False  # the loop looks

    def _deliver(self, records: Records[K, V]) -> None:
        closed = self._loader.partitions
        too_soon: list[PartitionRecords[K, V]] = []
        for chunk in records.chunks():
            if self._skipper.remembers and len(chunk):
                self._skipper.delivered(chunk.topic_partition, int(chunk.columns.offsets[0]), chunk.next.offset)
            if self._ending.is_draining or chunk.topic_partition in closed:
                too_soon.append(chunk)
            else:
                self._dispatcher.deliver(chunk)
        if too_soon:
            self._backpressure.put_off(too_soon)
        again, self._completion.to_redeliver = self._completion.to_redeliver, []
        for tp, position, stop in again:
            self._consumer._session.positions.redeliver(tp, position, stop)

    def _is_busy(self, tp: TopicPartition) -> bool:
        """Whether it comes back while records are in work that it had before: other queues may have them this time."""
        is_ordered = self._options.ordering is not Ordering.NONE
        has_lags = self._consumer.config.enable_parallel_rebalance
        return has_lags and is_ordered and self._dispatcher.busy_with((tp,)) > 0

    def _polled(self, timeout_s: float) -> Records[K, V]:
        try:
            self._undelivered = self._consumer.poll(timeout_s)
            return self._undelivered
        except BootstrapError as error:  # brokers and their clients may be started together
            if monotonic_ms() >= self._reached_by_ms:
                self._end_with(error)
        except (CorruptRecordError, OffsetOutOfRangeError) as error:
            if self._options.on_data_loss is OnDataLoss.STOP or not self._skipper.skip(error):
                self._end_with(error)
        except SchemaRegistryUnavailableError as error:
            self._wait_for_registry(error, monotonic_ms())
        except KafkaError as error:
            self._end_with(error)
        except BaseException:  # a Ctrl-C, when it was about to return records
            self._completion.lose_track()
            raise
        return Records()

    def _wait_for_registry(self, error: SchemaRegistryUnavailableError, now_ms: float) -> None:
        """Records are not at fault, so none is stepped over; what has been deserialized is in work meanwhile."""
        if now_ms >= self._warn_of_outage_ms:
            log.warning("waiting for the schema registry: %s", error)
            self._warn_of_outage_ms = now_ms + BETWEEN_WARNINGS_MS
        self._dispatcher.take_back(AFTER_OUTAGE_S)

    def _end_with(self, error: KafkaError) -> None:
        """End with this error, after what was delivered is finished and committed; till then a poll may raise again."""
        if self._poll_error is None and not self._ending.is_draining:
            self._poll_error = error
        elif self._ending.is_draining:
            self._dispatcher.take_back(AFTER_ERROR_S)

    def _has_news(self) -> bool:
        """Whether a poll that finds no records shall return."""
        dispatcher = self._dispatcher
        is_drained = dispatcher.is_idle and self._ending.last_commit is None
        is_over = is_drained if self._ending.is_draining else dispatcher.error is not None
        return dispatcher.has_ended or is_over or self._is_woken or self._commits.has_news or self._loader.has_answers

    def _on_ended(self, run: Run[K, V]) -> None:
        """A worker is through with a run; on its thread."""
        self._dispatcher.ended.put(run)
        self._wake_poll()

    def _watch(self, now_ms: float) -> None:
        quiet_ms = now_ms - self._progress_ms
        if now_ms - max(self._progress_ms, self._warned_ms) < self._options.watchdog * 1000.0:
            return
        self._warned_ms = now_ms
        oldest = self._dispatcher.oldest()
        where = "nothing" if oldest is None else f"{oldest.topic_partition} offset {oldest.offset}"
        log.warning(
            "no record was done for %.1f s: in work for longest is %s; %d runs wait for their next attempt, %d records "
            "for a worker",
            quiet_ms / 1000.0,
            where,
            self._dispatcher.retrying,
            self._dispatcher.waiting,
        )

    # --- partitions come and go -----------------------------------------------------------------------------

    def _give_up(self, partitions: Partitions, consumer: RebalanceConsumer) -> None:
        """Let the records in work of these end, commit, and forget the partitions."""
        self._dispatcher.drop(partitions)
        until_ms = self._revocation.until_ms(partitions, monotonic_ms())
        if not self._wait_for(partitions, Deadline(min(until_ms, self._ending.until.at_ms))):
            self._cancel_work(partitions)
            self._wait_for(partitions, Deadline.after(self._revocation.grace_ms if self._options.is_async else 0.0))
        commit_ms = self._ending.commit_ms(self._revocation.commit_ms(until_ms, monotonic_ms()))
        self._commits.commit_last(consumer, partitions, commit_ms)
        self._forget(partitions)

    def _lose(self, partitions: Partitions) -> None:
        """Drop partitions that the group has given to others."""
        self._dispatcher.drop(partitions)
        self._cancel_work(partitions)
        self._forget(partitions)

    def _forget(self, partitions: Partitions) -> None:
        self._loader.forget(partitions)
        self._completion.close(partitions)
        self._backpressure.forget(partitions)

    def _wait_for(self, partitions: Collection[TopicPartition], deadline: Deadline) -> bool:
        """Until nothing of these is in work; whether that was so in time."""
        while (busy := self._dispatcher.busy_with(partitions)) and not deadline.expired:
            self._dispatcher.take_back(min(LONGEST_POLL_S, deadline.remaining_ms() / 1000.0))
        return not busy

    def _cancel_work(self, partitions: Collection[TopicPartition]) -> None:
        """Cancel what is in work of these, where workers can, and wait for it no longer."""
        if busy := self._dispatcher.busy_with(partitions):
            log.warning("%d records are given up in the middle of their work, and will come again", busy)
        for run in self._dispatcher.executing(partitions):
            self._workers.cancel(run)

    # --- the end --------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Work to the end, polling on: the group must not wait for us either."""
        ending = self._ending
        ending.begin()
        self._dispatcher.give_up_retries()
        if not ending.keeps_waiting or self._dispatcher.error is not None:
            self._dispatcher.drop_all()
        while not self._dispatcher.is_idle and not self._ending.until.expired:
            self._try_turn()
            if self._dispatcher.error is not None:
                self._dispatcher.drop_all()
        # A group that rebalances takes no commits: what is done would come again.
        ending.last_commit = Deadline.after(self._revocation.patience_ms)
        while ending.may_poll_on and self._commits.waits_for_polls(self._consumer, monotonic_ms()):
            self._try_turn()

    def _end(self) -> None:
        """Commit what is done, and leave the consumer to the next one who uses it. Each step may be taken twice: if a
        Ctrl-C ends this, the consumer has it done before its next poll."""
        consumer = self._consumer
        self._dispatcher.drop_all()  # who is left alone in the middle of a run ends with the record it is at
        self._workers.close()
        self._wake_poll, self._is_running = _wake_nobody, False
        consumer._session.describes_loan = None
        consumer.rebalance_listener = self._listener.users
        assigned = consumer.assignment()
        self._loader.forget(assigned)
        self._backpressure.put_off([chunk for chunk in self._undelivered.chunks() if chunk.topic_partition in assigned])
        self._commits.commit_last(consumer, assigned, self._ending.commit_ms(self._revocation.patience_ms))
        for tp in sorted(assigned):
            if (at := self._completion.begins_at(tp)) is not None:
                consumer.seek(tp, at)  # the next one who uses the consumer begins with what is undone
            for position, stop in self._completion.left_of_lags(tp):
                self._consumer._session.positions.redeliver(tp, position, stop)
        self._backpressure.end()


def _wake_nobody() -> None:
    """What `_wake_poll` is before and after the run, when no poll of ours waits."""


class _Listener(RebalanceListener):
    """Between the consumer and the listener that the user has given it: records first, then the user's things."""

    def __init__(self, processor: Processor[K, V], users: RebalanceListener) -> None:
        self._processor = processor
        self.users = users

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._processor._loader.begin(partitions)
        self.users.on_partitions_assigned(consumer, partitions)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        try:
            self._processor._give_up(partitions, consumer)
        finally:
            self.users.on_partitions_revoked(consumer, partitions)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._processor._lose(partitions)
        self.users.on_partitions_lost(consumer, partitions)
