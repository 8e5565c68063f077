"""`ConsumerSession`: everything a consumer does but waiting, as steps (`steps.py`); what lies below each facade.

`sync.Consumer` blocks where the steps wait. A facade lets one thread at a time in, and drives the steps.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Generic, NamedTuple
from uuid import UUID

from kwire.clock import Deadline, monotonic_ms
from kwire.config import ConsumerConfig
from kwire.consumer.access import CLOSED, AccessGuard
from kwire.consumer.arguments import (
    Timeout,
    Topics,
    checked_max_records,
    checked_partitions,
    checked_reason,
    milliseconds,
    topics_or_pattern,
)
from kwire.consumer.background_events import discard_error
from kwire.consumer.callbacks import CallbackRunner
from kwire.consumer.commit_calls import CommitCalls
from kwire.consumer.listener import RebalanceConsumer, RebalanceListener, checked_listener
from kwire.consumer.live import live_consumers
from kwire.consumer.look_up_calls import LookUpCalls
from kwire.consumer.network_link import CLOSE_GRACE_MS, NetworkLink
from kwire.consumer.polling import Polling
from kwire.consumer.position_calls import PositionCalls
from kwire.consumer.state import ConsumerState
from kwire.consumer.steps import Steps
from kwire.consumer.unclosed import Unclosed
from kwire.consumer.whole_topics import WholeTopics
from kwire.errors import CommitFailedError, IllegalStateError, KafkaError, KafkaTimeoutError
from kwire.events import Assign, EnforceRebalance, GetCatchUp, GetClientInstanceId, Subscribe, Unsubscribe
from kwire.fetching.columns import Records
from kwire.fetching.loading import DECODING
from kwire.model import CatchUpProgress, ConsumerGroupMetadata, K, SubscriptionPattern, TopicPartition, V

if TYPE_CHECKING:
    from kwire.description.consumer_description import ConsumerDescription
    from kwire.description.health import Health

# Closing keeps this share of its time for leaving the group, however long the last commit takes.
COMMIT_SHARE_OF_CLOSE = 0.8

MOST_OF_GROUP_ID = 200
"""A made-up client id has this many characters of the group's id at most."""

_numbers = itertools.count(1)


class _CloseDeadlines:
    """The deadlines of a `close()`: its own, and `request_timeout_ms` for brokers that do not answer, as in Java. Time
    in callbacks does not count, unless the commit before them had no answer.

    Attributes:
        of_commit: Until when the last commit is waited for.
    """

    def __init__(self, deadline: Deadline, total_ms: float, request_timeout_ms: float) -> None:
        share = deadline if total_ms == inf else Deadline(deadline.at_ms - total_ms * (1 - COMMIT_SHARE_OF_CLOSE))
        self._silent_until = min(deadline, Deadline.after(request_timeout_ms))
        self.of_commit = min(share, self._silent_until)
        self.has_no_answer = False
        self._deadline = deadline
        self._request_timeout_ms = request_timeout_ms

    def wait_until(self) -> Deadline:
        """Until when the network thread waits for what is sent last."""
        if self.has_no_answer:
            latest = max(self._silent_until, Deadline.after(CLOSE_GRACE_MS))
        else:
            latest = Deadline.after(self._request_timeout_ms)
        return min(latest, self._deadline)


class _ProcessorUse(NamedTuple):
    """A `Processor` uses the consumer; see `ConsumerSession.used_by_processor`."""

    must_return: Callable[[], bool]
    finish: Callable[[], None]


def _made_up_client_id(group_id: str | None) -> str:
    """As Java's, but the protocol has room for 32,767 characters, and each line of the log names the client."""
    return f"consumer-{(group_id or 'kwire')[:MOST_OF_GROUP_ID]}-{next(_numbers)}"


class ConsumerSession(Generic[K, V]):
    """One consumer's application side. Making one starts its network thread.

    Used by one thread at a time, which the facade sees to. Its methods raise what those of `Consumer` do.

    Args:
        consumer: What callbacks are given, behind a view that expires.
        guard: Decides which thread or task may use the consumer inside a callback.
        is_async: Whether an event loop drives the steps: callbacks may be coroutine functions, and polls let the loop's
            other tasks have a turn every few milliseconds.
    """

    def __init__(
        self, config: ConsumerConfig, consumer: RebalanceConsumer, guard: AccessGuard, *, is_async: bool = False
    ) -> None:
        from kwire.assignors import resolve  # like all that serves the network thread, not before it is needed

        self.link = link = NetworkLink(
            config,
            resolve(config.partition_assignment_strategy),
            client_id=config.client_id or _made_up_client_id(config.group_id),
            children=config.parallel_rebalance_children if config.enable_parallel_rebalance else 0,
        )
        self.state: ConsumerState[K, V] = ConsumerState(config, link)
        self.callbacks: CallbackRunner[K, V] = CallbackRunner(self.state, consumer, guard, awaits=is_async)
        self.polling: Polling[K, V] = Polling(self.state)
        self._guard = guard
        self._gives_way = is_async
        self.positions: PositionCalls[K, V] = PositionCalls(self.state, self.polling)
        self.commits: CommitCalls[K, V] = CommitCalls(self.state, self.callbacks)
        self.look_ups = LookUpCalls(link)
        self.whole_topics: WholeTopics[K, V] = WholeTopics(self.state, self.look_ups)
        self._processor_use: _ProcessorUse | None = None
        self.unclosed = Unclosed(self, link)  # the network thread knows nothing of this object
        self.describe_processor: Callable[[], object] | None = None
        """Describes the `Processor` that uses this consumer, and the consumer; None without one."""
        live_consumers.add(self)
        try:
            link.start()
        except BaseException:
            self.unclosed.detach()
            raise

    # --- what to consume ------------------------------------------------------------------------------------

    def subscribe(self, topics: Topics, listener: RebalanceListener | None) -> Steps[None]:
        """See `Consumer.subscribe`."""
        self.state.check_not_in_callback("subscribe()")
        names, pattern = topics_or_pattern(topics)
        checked = checked_listener(listener, may_await=self.callbacks.awaits)
        if not names and pattern is None:
            yield from self.unsubscribe()
            return
        self.state.check_group("subscribe")
        if isinstance(pattern, SubscriptionPattern):
            self.state.check_broker_matches()
        if self.state.assigned_by_hand:
            raise IllegalStateError("partitions are assigned by hand; unsubscribe() before subscribing to topics")
        self.callbacks.listener = checked
        yield from self.link.command("subscribe", lambda reply: Subscribe(topics=names, pattern=pattern, reply=reply))

    def assign(self, partitions: Collection[TopicPartition]) -> Steps[None]:
        """See `Consumer.assign`."""
        self.state.check_not_in_callback("assign()")
        wanted = checked_partitions(partitions)
        self.whole_topics.read(frozenset())
        if not wanted:
            yield from self.unsubscribe()
            return
        if self.state.view.subscribed and not self.state.assigned_by_hand:
            raise IllegalStateError("topics are subscribed; unsubscribe() before assigning partitions by hand")
        self.state.interrupt_loop()
        self.positions.await_poll()
        yield from self.link.command("assign", partial(Assign, wanted))
        self.state.assignment = wanted

    def unsubscribe(self) -> Steps[None]:
        """See `Consumer.unsubscribe`."""
        self.state.check_not_in_callback("unsubscribe()")
        self.whole_topics.read(frozenset())
        if not self.state.view.subscribed:
            return
        error = yield from self.callbacks.give_up_partitions()
        self.state.delivery.clear()
        with contextlib.suppress(KafkaTimeoutError):  # left or not, nothing is subscribed any more
            yield from self.link.command("unsubscribe", Unsubscribe)
        self.callbacks.discard()  # asked for before the network thread heard of it
        self.state.assignment = frozenset()
        self.callbacks.listener = RebalanceListener()
        if error is not None:
            raise error

    # --- polling --------------------------------------------------------------------------------------------

    def begin_poll(self, timeout: Timeout, max_records: int | None, *, to_loop: bool) -> float:
        """Check that the caller may poll; returns the timeout in ms. If what follows raises, call `undo_poll`."""
        self.state.check_open()
        timeout_ms = milliseconds(timeout)
        most = None if max_records is None else checked_max_records(max_records)
        self.state.check_not_in_callback("poll()")
        self.state.delivery.come_back()
        self.polling.tell_return()
        self.link.woken_in = None
        if to_loop and most is None:
            self.polling.size.begin_for_loop(monotonic_ms(), is_through=self.state.delivery.is_all_handed_out)
        else:
            self.polling.size.begin(most)
        return timeout_ms

    def fast_poll(self, *, to_loop: bool = False) -> Records[K, V] | None:
        """As `poll`, if there is nothing to do but to hand out decoded records, as in most polls that return few. This
        way such a poll takes a quarter to a third less time (measured).

        Returns:
            As many records as a poll may return. None, and nothing has changed, if anything else may be to be done.
        """
        now_ms = monotonic_ms()
        if not self._is_quiet(now_ms) or (opened := self.polling.at_hand(now_ms)) is None:
            return None
        self.link.mailbox.polled_at_ms = now_ms
        self.link.metrics.polls.began(now_ms)
        self.state.interrupt_loop()
        records = self.polling.take(opened, to_loop=to_loop)
        self.link.metrics.polls.ended(self.polling.looked_at_ms)
        return records

    def _is_quiet(self, now_ms: float) -> bool:
        """Whether none of what a poll looks after in front of records has come up."""
        return (
            self.callbacks.are_quiet
            and self.positions.are_settled
            and not self.link.mailbox.is_wakeup_pending
            and not self.whole_topics.are_due(now_ms)
            and not (self._gives_way and self.polling.deserializes)  # that may take long
        )

    def poll(self, timeout_ms: float, *, to_loop: bool = False, min_records: int = 1) -> Steps[Records[K, V]]:
        """Records, or nothing when the time is over, or because there is news of revocation.

        The application came back for more: what it was handed may be committed now.

        Args:
            to_loop: The records are handed out one by one, by `Delivery.iterate`.
            min_records: How many records to return at least: no more than the poll may return. If there are fewer at
                the deadline, the poll returns none, and the next poll has them, unless an error follows them. Not on
                an event loop.
        """
        if not self.state.view.subscribed and not self.whole_topics.names:
            raise IllegalStateError("nothing to poll: subscribe to topics or assign partitions first")
        self.link.mailbox.polled_at_ms = now_ms = monotonic_ms()
        deadline = Deadline(now_ms + timeout_ms)
        self.link.metrics.polls.began(now_ms)
        self.state.interrupt_loop()
        self.callbacks.begin_poll()
        records = yield from self._next_records(deadline, to_loop=to_loop, min_records=min_records)
        self.state.revocation.end_poll()
        self.link.metrics.polls.ended(max(self.link.mailbox.polled_at_ms, self.polling.looked_at_ms))
        return records

    def _next_records(self, deadline: Deadline, *, to_loop: bool, min_records: int) -> Steps[Records[K, V]]:
        asked_in = 0
        while True:
            seen = self.link.mailbox.signal()
            self.link.raise_wakeup()
            if self.callbacks.are_due:
                yield from self.callbacks.run()
            self.state.check_open()  # a callback may have closed it
            if self.callbacks.has_revocation_news:
                return self.polling.records()
            if self.whole_topics.names or not self.positions.are_settled:
                yield from self._settle()
            if self._gives_way:
                yield from self.polling.gather()
            else:
                self.polling.collect(min_records)
            records = self.polling.hand_out(to_loop=to_loop, min_records=min_records)
            if records:
                return records
            asked_in = self.polling.ask_for_work(asked_in)
            if self._processor_use is not None and self._processor_use.must_return():
                self.link.mailbox.polls_in_a_row.finds_nothing()
                return records
            if deadline.expired:
                self.link.mailbox.polls_in_a_row.returns(monotonic_ms())
                self._check_reachable()
                if not self._gives_way:
                    DECODING.finish()  # it has waited in vain, so that the next poll's records need not
                return records
            yield from self.polling.wait(seen, self.whole_topics.sooner(self.callbacks.sooner(deadline)))

    def _settle(self) -> Steps[None]:
        """Until the view shows what the application has asked for."""
        if self.whole_topics.names:
            yield from self.whole_topics.settle()
        yield from self.positions.settle_in_poll()

    def _check_reachable(self) -> None:
        """Raise why no broker was ever reached, if that is so."""
        if self.link.mailbox.bootstrap_error is not None:
            raise self.link.mailbox.bootstrap_error.with_traceback(None)

    def undo_poll(self, error: BaseException) -> None:
        """The poll raises, so the application gets nothing of what it was about to return."""
        self.state.callback = None
        self.state.delivery.put_back()
        self.state.revocation.undo_poll()
        discard_error(self.link.mailbox, error)

    def delay_revoke(self, partitions: Collection[TopicPartition]) -> bool:
        """See `Consumer.delay_revoke`."""
        self.state.check_not_in_callback("delay_revoke()")
        if not self.state.config.enable_async_revocation:
            raise IllegalStateError("a revoke can be delayed only with enable_async_revocation=True")
        return self.callbacks.delay(checked_partitions(partitions))

    # --- the group ------------------------------------------------------------------------------------------

    def group_metadata(self) -> ConsumerGroupMetadata:
        """See `Consumer.group_metadata`."""
        config = self.state.config
        group_id = self.state.check_group("group_metadata")
        if config.enable_parallel_rebalance:
            raise IllegalStateError(
                "with enable_parallel_rebalance=True a transactional producer must not commit for this consumer: it "
                "would overwrite the metadata that says which records are still to be read"
            )
        view = self.state.view
        if view.is_group and view.epochs and not view.is_member:
            # Brokers take a commit without a generation as one of a program that is in no group, and let it pass.
            raise CommitFailedError(
                f"this member was removed from group {group_id}, and others may have its partitions: abort what is "
                "under way, and poll to join again"
            )
        return view.group or ConsumerGroupMetadata(group_id=group_id, group_instance_id=config.group_instance_id)

    def enforce_rebalance(self, reason: str) -> None:
        """See `Consumer.enforce_rebalance`."""
        self.state.check_group("enforce_rebalance")
        self.link.mailbox.post(EnforceRebalance(checked_reason(reason) or "the application asked for it"))

    def catch_up_progress(self) -> Steps[dict[TopicPartition, CatchUpProgress]]:
        """See `Consumer.catch_up_progress`."""
        handed_out = self.state.delivery.so_far()
        return (yield from self.link.command("catch_up_progress", lambda reply: GetCatchUp(handed_out, reply)))

    def client_instance_id(self, timeout: Timeout | None) -> Steps[UUID]:
        """See `Consumer.client_instance_id`."""
        if not self.state.config.enable_metrics_push:
            raise IllegalStateError("brokers give no client instance id with enable_metrics_push=False")
        return (yield from self.link.ask("client_instance_id", GetClientInstanceId, timeout))

    def describe(self) -> Steps[ConsumerDescription]:
        """See `Consumer.describe`. Any thread may drive these steps, whatever the others do."""
        from kwire.consumer.describing import describe  # few ever ask

        return describe(self.state)

    def page(self) -> str | None:
        """How it stands, for a person; None of one that is closed, or another process's."""
        if self.state.closed or self.link.is_forked:
            return None
        describes = self.describe_processor
        return str(self.link.run(self.describe()) if describes is None else describes())

    def health(self, max_lag: int | None) -> Steps[Health]:
        """See `Consumer.healthy`."""
        from kwire.consumer.describing import health

        return health(self.state, max_lag)

    # --- for a Processor, which looks after more than its polls ---------------------------------------------

    @property
    def is_used_by_processor(self) -> bool:
        """Whether a Processor uses the consumer, or was ended before it had finished with it."""
        return self._processor_use is not None

    @contextlib.contextmanager
    def used_by_processor(
        self, must_return: Callable[[], bool], finish: Callable[[], None]
    ) -> Iterator[Callable[[], None]]:
        """A `Processor` uses the consumer meanwhile, and nobody else: the caller has taken the guard.

        Polls return records that cannot be deserialized as well (`PartitionRecords.failures`).

        Args:
            must_return: Whether a poll that finds no records is to return nevertheless.
            finish: Called in the end. If an exception of a signal handler ends it, it is called again before the
                consumer is used for the next poll.

        Yields:
            A function that has a waiting poll ask `must_return`. Any thread and signal handler may call it.
        """
        self.link.run(self.take_back())
        self._processor_use = _ProcessorUse(must_return, finish)
        self.polling.keep_failures(True)
        try:
            yield self.link.mailbox.notify
        finally:
            self.link.run(self.take_back())

    def take_back(self) -> Steps[None]:
        """Have the `Processor` that uses this consumer finish, if there is one."""
        if self._processor_use is not None:
            self._processor_use.finish()
            yield from self._fetch_failures_again()
            self._processor_use = None

    def _fetch_failures_again(self) -> Steps[None]:
        """Go back in front of records that cannot be deserialized: a poll has to raise an error over them."""
        self.polling.keep_failures(False)
        for tp, position, epoch in self.polling.kept_failures():
            with contextlib.suppress(IllegalStateError):  # it is not ours any more
                yield from self.positions.seek_within(tp, position, epoch)

    # --- the end --------------------------------------------------------------------------------------------

    def close(self, total_ms: float, deadline: Deadline, *, leave_group: bool | None) -> Steps[None]:
        """See `Consumer.close`. A list of bounded steps: each is tried whatever the one before came to; the first error
        is raised."""
        first_error: BaseException | None = None
        self.link.asks_until = deadline
        deadlines = _CloseDeadlines(deadline, total_ms, self.state.config.request_timeout_ms)
        self.link.mailbox.take_wakeup()
        post_close = partial(self._post_close, deadlines, leave_group=leave_group)
        parts: tuple[Callable[[], Steps[None] | None], ...] = (
            partial(self._commit_last, deadlines),
            self._raise_given_up,
            post_close,
            post_close,  # a Ctrl-C may have ended the first
            partial(self.link.wait_for_end, Deadline(deadline.at_ms + CLOSE_GRACE_MS)),
            self.callbacks.run_completed_commits,
        )
        for part in parts:
            try:
                if (steps := part()) is not None:
                    yield from steps
            except BaseException as error:  # noqa: BLE001  the parts behind it must not be skipped
                first_error = error if first_error is None else first_error
        self.state.closed = True
        self.state.delivery.clear()  # a loop whose body closes the consumer ends there
        self.link.mailbox.fail(IllegalStateError(CLOSED))  # for threads that a callback did not wait for
        if first_error is not None:
            raise first_error

    def _raise_given_up(self) -> Steps[None]:
        if (error := (yield from self.callbacks.give_up_partitions())) is not None:
            raise error

    def _commit_last(self, deadlines: _CloseDeadlines) -> Steps[None]:
        yield from self.callbacks.auto_commit(deadlines.of_commit)
        deadlines.has_no_answer = deadlines.of_commit.expired

    def _post_close(self, deadlines: _CloseDeadlines, *, leave_group: bool | None) -> None:
        self.link.post_close(deadlines.wait_until().at_ms, leave_group=leave_group)
        self.unclosed.note_end()

    @property
    def identity(self) -> str:
        """Which consumer this is, as messages about a process name it."""
        return f"{self.link.identity}, made at {self.unclosed.origin}"

    def disown(self, error: KafkaError) -> None:
        """This is a copy in a process that was forked: the network thread is the other process's."""
        self._guard.forget_other_threads()
        self.unclosed.detach()
        self.link.disown(error)
