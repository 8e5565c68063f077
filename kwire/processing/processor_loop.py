"""`ProcessorLoop`: the loop of the thread that runs a `Processor`, and is the one owner of everything.

It polls, hands out, takes back, commits. Workers only call the handler and post what came of it. While all workers are
busy it goes on polling, with full partitions held, so the group never waits for a handler. When partitions are revoked,
it lets their records in work end, commits, and only then gives them up. When a poll raises, what was polled before is
finished and committed first, then the loop ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Generic

from kwire.clock import NEVER_MS, Deadline, monotonic_ms
from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.consumer.sync import Consumer
from kwire.errors import (
    BootstrapError,
    CorruptRecordError,
    IllegalStateError,
    KafkaError,
    OffsetOutOfRangeError,
    SchemaRegistryUnavailableError,
)
from kwire.fetching.columns import Records
from kwire.fetching.partition_records import PartitionRecords
from kwire.logs import part_logger
from kwire.model import Cursor, K, Partitions, TopicPartition, V
from kwire.processing.assignment_loader import AssignmentLoader
from kwire.processing.async_workers import AsyncWorkers
from kwire.processing.backpressure import Backpressure
from kwire.processing.commits import Commits
from kwire.processing.completion_tracker import CompletionTracker
from kwire.processing.data_loss import LossSkipper
from kwire.processing.dispatcher import Dispatcher
from kwire.processing.ending import Ending
from kwire.processing.options import ProcessorOptions
from kwire.processing.ordered_queues import Ordering
from kwire.processing.policies import OnDataLoss
from kwire.processing.revocation_drain import RevocationDrain
from kwire.processing.status import Status
from kwire.processing.workers import ExecutorWorkers, Run, ThreadWorkers, Workers

if TYPE_CHECKING:
    from kwire.description.processor_description import ProcessorDescription

log = part_logger("processing")

MAX_POLL_S = 1.0
# How long only the workers are served, while enough is buffered: a poll takes longer than to hand out a record.
SERVING_MS = 5.0
# How long a drain waits between polls that raise.
AFTER_ERROR_S = 0.1
# How long only the workers are served after a schema registry has not answered; then a poll asks it again.
AFTER_OUTAGE_S = 1.0
# How often it looks whether `stop` was called, where that does not wake it.
LOOK_FOR_STOP_S = 0.1
BETWEEN_WARNINGS_MS = 30_000.0


class ProcessorLoop(Generic[K, V]):
    """Polls, hands records to workers, and commits. Used by one thread. `stop` and `status` are for any.

    Args:
        consumer: Used by the loop alone while it runs.

    Attributes:
        workers: What calls the handler.
        dispatcher: What has been polled, and is not done.
    """

    def __init__(self, consumer: Consumer[K, V], options: ProcessorOptions[K, V]) -> None:
        config, session = consumer.config, consumer._session  # for what only a processor asks of a consumer
        has_lags = config.enable_parallel_rebalance
        self._options = options
        self._consumer = consumer
        self.workers = _new_workers(options, self._on_ended)
        children = config.parallel_rebalance_children if has_lags else 0
        self._completion = CompletionTracker(with_map=options.offset_map, children=children)
        self.dispatcher: Dispatcher[K, V] = Dispatcher(options, self.workers.start, self._completion)
        self._loader = AssignmentLoader(
            self._completion, session.commits, session.look_ups, session.positions, self._is_busy
        )
        cursors = tuple(Cursor) if has_lags else (Cursor.MAIN,)
        self._backpressure = Backpressure(options, consumer, session.positions, self.dispatcher.usage, cursors)
        self._commits = Commits(
            self._completion,
            self.dispatcher.report_done,
            interval_ms=options.commit_interval * 1000.0,
            both_cursors=session.commits if has_lags else None,
            run=session.link.run,
        )
        self._revocation = RevocationDrain(config.max_poll_interval_ms, config.default_api_timeout_ms)
        self._skipper = LossSkipper(consumer)
        self._listener = _Listener(self, consumer.rebalance_listener)
        self._ending = Ending()
        self._is_running = False
        self._is_woken = False  # by `stop`, since the loop looked last
        self._wake_poll = _wake_nobody
        self._reached_by_ms = NEVER_MS
        self._poll_error: KafkaError | None = None
        self._warn_of_outage_ms = 0.0
        self._ask_registry_ms = 0.0
        """When to poll again after a registry has not answered."""
        self._undelivered: Records[K, V] = Records()
        """Records that a poll has returned and that are not delivered: a signal handler may raise in between."""
        self._progress_ms = self._warned_ms = monotonic_ms()

    def run(self, describe: Callable[[], ProcessorDescription]) -> None:
        """See `Processor.run`.

        Args:
            describe: The consumer describes itself by this meanwhile.
        """
        consumer = self._consumer
        with consumer._used_by_processor(self._must_return, self._end) as self._wake_poll:
            self._is_running = True
            consumer.rebalance_listener = self._listener
            consumer._session.describe_processor = describe
            self._run()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        now_ms = monotonic_ms()
        self._reached_by_ms = now_ms + self._revocation.patience_ms
        self._loader.begin(self._consumer.assignment())
        self._commits.begin(now_ms)
        while not self._ending.is_asked and self.error is None:
            self._try_turn()
        self._drain()

    @property
    def error(self) -> KafkaError | None:
        """What it ends with: a record that has failed for good comes before a poll that raised."""
        return self.dispatcher.error or self._poll_error

    def stop(self, *, drain: bool, timeout_ms: float) -> None:
        """See `Processor.stop`."""
        self._ending.ask(drain=drain, timeout_ms=timeout_ms)
        self._is_woken = True
        self._wake_poll()

    def status(self) -> Status:
        """See `Processor.status`."""
        dispatcher, now_ms = self.dispatcher, monotonic_ms()
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

    # --- one turn -------------------------------------------------------------------------------------------

    def _try_turn(self) -> None:
        try:
            self._turn()
        except KafkaError as error:  # a broker's refusal, or a key that no queue can be looked up by
            self._put_off_undelivered()  # the next poll forgets them
            self._end_with(error)

    def _turn(self) -> None:
        now_ms = self._take_back(0.0)
        self._loader.settle(now_ms)
        self._revocation.hold_back(self._consumer, self.dispatcher, self._commits, now_ms)
        if self._completion.has_begun:  # commit where, in front of a handler that may end the process
            self._completion.has_begun = False
            self._commits.hurry()
        if now_ms >= self._commits.due_ms:
            self._commits.commit(self._consumer, now_ms)
        now_ms = self._serve(now_ms)
        if self._ending.is_draining:
            self._backpressure.hold_all()
        else:
            self._backpressure.regulate(self._loader.partitions)
        self._watch(now_ms)
        self._poll(now_ms)

    def _serve(self, now_ms: float) -> float:
        """Hand out and take back. Returns the time afterwards."""
        until_ms = now_ms + SERVING_MS
        self.dispatcher.hand_out(now_ms)
        while self.dispatcher.has_backlog and now_ms < until_ms:
            now_ms = self._take_back(until_ms - now_ms)
            self.dispatcher.hand_out(now_ms)
        return now_ms

    def _take_back(self, timeout_ms: float) -> float:
        """Take back what workers have ended. Returns the time afterwards."""
        done = self.dispatcher.take_back(timeout_ms / 1000.0)
        now_ms = monotonic_ms()
        if done or self.dispatcher.is_idle:
            self._progress_ms = now_ms
        return now_ms

    def _poll(self, now_ms: float) -> None:
        if now_ms < self._ask_registry_ms:
            left_s = (self._ask_registry_ms - now_ms) / 1000.0
            self._take_back(1000.0 * min(LOOK_FOR_STOP_S, left_s))
            return
        due_ms = (self.dispatcher.due_ms, self._commits.due_ms, self._revocation.due_ms, self._loader.due_ms)
        wake_at_ms = min(*due_ms, self._ending.until.at_ms)
        timeout_s = min(MAX_POLL_S, max(0.0, (wake_at_ms - now_ms) / 1000.0))
        gathers = True
        while gathers:
            records = self._polled(timeout_s)
            try:
                self._deliver(records)
            except BaseException:
                self._completion.lose_track()
                raise
            self._undelivered = Records()
            timeout_s, gathers = 0.0, self.dispatcher.wants_more and not records.is_empty()
        self._is_woken = self._commits.has_ended = False  # the loop looks

    def _deliver(self, records: Records[K, V]) -> None:
        closed = self._loader.partitions
        too_soon: list[PartitionRecords[K, V]] = []
        for chunk in records.chunks():
            if self._skipper.remembers and len(chunk):
                self._skipper.delivered(chunk.topic_partition, chunk.columns.first_offset, chunk.next.offset)
            if self._ending.is_draining or chunk.topic_partition in closed:
                too_soon.append(chunk)
            else:
                self.dispatcher.deliver(chunk)
        if too_soon:
            self._backpressure.put_off(too_soon)
        again, self._completion.to_redeliver = self._completion.to_redeliver, []
        for tp, position, stop in again:
            self._consumer._session.positions.redeliver(tp, position, stop)

    def _put_off_undelivered(self) -> None:
        """Have them come again, also those that are delivered by now: in the end it goes back to what is undone."""
        assigned = self._consumer.assignment()
        self._backpressure.put_off([chunk for chunk in self._undelivered.chunks() if chunk.topic_partition in assigned])
        self._undelivered = Records()

    def _is_busy(self, tp: TopicPartition) -> bool:
        """Whether it comes back while records are in work that it had before: other queues may have them this time."""
        is_ordered = self._options.ordering is not Ordering.NONE
        has_lags = self._consumer.config.enable_parallel_rebalance
        return has_lags and is_ordered and self.dispatcher.busy_with((tp,)) > 0

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
        self._ask_registry_ms = now_ms + 1000.0 * AFTER_OUTAGE_S

    def _end_with(self, error: KafkaError) -> None:
        """End with this error, after what was delivered is finished and committed; till then a poll may raise again."""
        if self._poll_error is None and not self._ending.is_draining:
            self._poll_error = error
        elif self._ending.is_draining:
            self.dispatcher.take_back(AFTER_ERROR_S)

    def _must_return(self) -> bool:
        """Whether a poll that finds no records shall return."""
        dispatcher = self.dispatcher
        is_drained = dispatcher.is_idle and self._ending.last_commit is None
        is_over = is_drained if self._ending.is_draining else dispatcher.error is not None
        return dispatcher.has_ended or is_over or self._is_woken or self._commits.has_ended or self._loader.has_answers

    def _on_ended(self, run: Run[K, V]) -> None:
        """A worker is through with a run; on its thread."""
        self.dispatcher.ended.put(run)
        self._wake_poll()

    def _watch(self, now_ms: float) -> None:
        quiet_ms = now_ms - self._progress_ms
        if now_ms - max(self._progress_ms, self._warned_ms) < self._options.watchdog * 1000.0:
            return
        self._warned_ms = now_ms
        oldest = self.dispatcher.oldest()
        where = "nothing" if oldest is None else f"{oldest.topic_partition} offset {oldest.offset}"
        log.warning(
            "no record was done for %.1f s: in work for longest is %s; %d runs wait for their next attempt, %d records "
            "for a worker",
            quiet_ms / 1000.0,
            where,
            self.dispatcher.retrying,
            self.dispatcher.waiting,
        )

    # --- partitions come and go -----------------------------------------------------------------------------

    def _give_up(self, partitions: Partitions, consumer: RebalanceConsumer) -> None:
        """Let the records in work of these end, commit, and forget the partitions."""
        self.dispatcher.drop(partitions)
        until_ms = self._revocation.until_ms(partitions, monotonic_ms())
        if not self._wait_for(partitions, lambda: Deadline(min(until_ms, self._ending.until.at_ms))):
            self._cancel_work(partitions)
            grace = Deadline.after(self._revocation.grace_ms if self._options.is_async else 0.0)
            self._wait_for(partitions, lambda: grace)
        commit_ms = self._ending.commit_ms(self._revocation.commit_ms(until_ms, monotonic_ms()))
        self._commits.commit_last(consumer, partitions, commit_ms)
        self._forget(partitions)

    def _lose(self, partitions: Partitions) -> None:
        """Drop partitions that the group has given to others."""
        self.dispatcher.drop(partitions)
        self._cancel_work(partitions)
        self._forget(partitions)

    def _forget(self, partitions: Partitions) -> None:
        self._loader.forget(partitions)
        self._completion.close(partitions)
        self._backpressure.forget(partitions)

    def _wait_for(self, partitions: Collection[TopicPartition], deadline: Callable[[], Deadline]) -> bool:
        """Until nothing of these is in work; whether that was so in time. The deadline is asked for again and again:
        `stop` may come meanwhile."""
        while (busy := self.dispatcher.busy_with(partitions)) and not (until := deadline()).expired:
            self.dispatcher.take_back(min(LOOK_FOR_STOP_S, until.remaining_ms() / 1000.0))
        return not busy

    def _cancel_work(self, partitions: Collection[TopicPartition]) -> None:
        """Cancel what is in work of these, where workers can, and wait for it no longer."""
        runs = self.dispatcher.executing(partitions)
        if begun := sum(len(run.offsets) for run in runs):
            log.warning("records given up in the middle of their work, to come again: %d", begun)
        for run in runs:
            self.workers.cancel(run)

    # --- the end --------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Work to the end, polling on: the group must not wait for us either."""
        ending = self._ending
        ending.begin()
        self.dispatcher.give_up_retries()
        if not ending.keeps_waiting or self.dispatcher.error is not None:
            self.dispatcher.drop_all()
        while not self.dispatcher.is_idle and not self._ending.until.expired:
            self._try_turn()
            if self.dispatcher.error is not None:
                self.dispatcher.drop_all()
        # A group that rebalances takes no commits: what is done would come again.
        ending.last_commit = Deadline.after(self._revocation.patience_ms)
        while ending.may_poll_on and self._commits.waits_for_polls(self._consumer, monotonic_ms()):
            self._try_turn()

    def _end(self) -> None:
        """Commit what is done, and leave the consumer to the next one who uses it. Each step may be taken twice: if a
        Ctrl-C ends this, the consumer has it done before its next poll."""
        consumer = self._consumer
        self.dispatcher.drop_all()  # a worker that is not waited for ends after its current record
        self.workers.close()
        self._wake_poll, self._is_running = _wake_nobody, False
        consumer._session.describe_processor = None
        consumer.rebalance_listener = self._listener.users
        assigned = consumer.assignment()
        self._loader.forget(assigned)
        self._put_off_undelivered()
        self._commits.commit_last(consumer, assigned, self._ending.commit_ms(self._revocation.patience_ms))
        for tp in sorted(assigned):
            with suppress(IllegalStateError):  # the partition was lost during that commit
                self._leave_undone(tp)
        self._backpressure.end()

    def _leave_undone(self, tp: TopicPartition) -> None:
        """The next one who uses the consumer begins with what is undone."""
        if (at := self._completion.begins_at(tp)) is not None:
            self._consumer.seek(tp, at)
        for position, stop in self._completion.left_of_lags(tp):
            self._consumer._session.positions.redeliver(tp, position, stop)


def _new_workers(options: ProcessorOptions[K, V], on_ended: Callable[[Run[K, V]], None]) -> Workers[K, V]:
    if options.is_async:
        return AsyncWorkers(options.backend, on_ended)
    if options.executor is not None:
        return ExecutorWorkers(options.executor, on_ended)
    return ThreadWorkers(options.workers, on_ended)


def _wake_nobody() -> None:
    """What `_wake_poll` is before and after the run, when no poll of ours waits."""


class _Listener(RebalanceListener):
    """Between the consumer and the listener that the user has given it: records first, then the user's things."""

    def __init__(self, loop: ProcessorLoop[K, V], users: RebalanceListener) -> None:
        self._loop = loop
        self.users = users

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._loop._loader.begin(partitions)
        self.users.on_partitions_assigned(consumer, partitions)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        try:
            self._loop._give_up(partitions, consumer)
        finally:
            self.users.on_partitions_revoked(consumer, partitions)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._loop._lose(partitions)
        self.users.on_partitions_lost(consumer, partitions)
