"""Runs what the network thread asks the application thread to run: rebalance callbacks, commit callbacks, errors."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Generic

from kwire.clock import NEVER_MS, Deadline
from kwire.consumer.access import AccessGuard
from kwire.consumer.core import ConsumerCore
from kwire.consumer.listener import CallbackView, Partitions, RebalanceConsumer, RebalanceListener
from kwire.consumer.waiting import BlockingCalls
from kwire.errors import KafkaError, RebalanceListenerError
from kwire.events import (
    BackgroundEvent,
    CallbackKind,
    Commit,
    CommitCompleted,
    ErrorRaised,
    PartitionsReleased,
    Reply,
    RunCallback,
)
from kwire.model import K, TopicPartition, V

log = logging.getLogger(__name__)


# What is delayed for longer than this share of the time a rebalance may take is lost, and given up. When all of it is
# over, the broker does without this member, which costs the kept partitions as well.
DELAY_SHARE = 0.9
NO_DEADLINE = Deadline(NEVER_MS)


@dataclass(frozen=True, slots=True)
class _Request:
    """A revoked callback that is due, for some of its partitions or all."""

    event: RunCallback
    lost: Deadline = NO_DEADLINE
    """When that is lost which is still delayed."""
    over: Deadline = NO_DEADLINE
    """When the rebalance has taken too long, whatever is waited for."""


@dataclass(frozen=True, slots=True)
class _Release:
    """Partitions whose revoked callback waits for the commit in front of it, if there is one."""

    partitions: Partitions
    commit: Reply[None] | None
    deadline: Deadline

    @property
    def is_due(self) -> bool:
        return self.commit is None or self.commit.done or self.deadline.expired


class CallbackRunner(Generic[K, V]):
    """One for each consumer. Its methods are called inside poll, commit_sync, unsubscribe and close, nowhere else.

    Args:
        consumer: What the callbacks are given, behind a view that expires.
        guard: Whom it lets use the consumer inside a callback: the thread that runs it, and who was given its key.
    """

    def __init__(
        self, core: ConsumerCore[K, V], calls: BlockingCalls, consumer: RebalanceConsumer, guard: AccessGuard
    ) -> None:
        self.listener = RebalanceListener()
        self._core = core
        self._calls = calls
        self._guard = guard
        # Its owner: held weakly, so that a consumer nobody holds is gone at once, and its membership with it.
        self._consumer: RebalanceConsumer = weakref.proxy(consumer)
        self._is_async = core.config.enable_async_revocation
        self._revocation = core.revocation
        self._request: _Request | None = None
        self._releases: deque[_Release] = deque()

    # --- inside poll ----------------------------------------------------------------------------------------

    def begin_poll(self) -> None:
        """A poll begins: what earlier ones told is to be revoked, and nobody has delayed, is let go."""
        if (due := self._revocation.begin_poll()) and self._request is not None:
            self._release(due, self._request.over)

    def run(self) -> None:
        """Everything that is due, in order. Raises what a callback raises, or the error the thread has to tell."""
        while not self.has_news and (event := self._next()) is not None:
            match event:
                case RunCallback(kind=CallbackKind.REVOKED):
                    self._request_revoke(event)
                case RunCallback():
                    self._run(event)
                case CommitCompleted():
                    self._call_back(event)
                case ErrorRaised():
                    raise event.error

    @property
    def has_news(self) -> bool:
        """Whether the application should hear of revocation before anything else happens."""
        return self._is_async and self._revocation.has_news

    def sooner(self, deadline: Deadline) -> Deadline:
        """The deadline of a poll, or of what it holds a callback back for."""
        if self._request is None and not self._releases:
            return deadline
        waits = [deadline, *(release.deadline for release in self._releases)]
        if self._revocation.pending and self._request is not None:
            waits.append(self._request.lost)
        return min(waits, key=lambda each: each.at_ms)

    def delay(self, partitions: Partitions) -> bool:
        """Whether they could be delayed: those that are lost, or are being given up already, could not."""
        leaving = frozenset[TopicPartition]().union(*(release.partitions for release in self._releases))
        granted = self._revocation.delay(partitions) and partitions <= self._core.assignment - leaving
        return granted and (self._core.is_member or self._request is None)

    def _next(self) -> BackgroundEvent | None:
        """The next event whose turn it is. While partitions are being given up, no other callback of a rebalance is;
        and nothing at all, where that takes one commit and not the application's time."""
        if self._request is not None:
            self._go_on(self._request)
        if self._request is None:
            return self._core.next_event()
        return self._core.next_event(but_callbacks=True) if self._is_async else None

    # --- partitions are given up ----------------------------------------------------------------------------

    def _request_revoke(self, event: RunCallback) -> None:
        """With asynchronous revocation the application hears of it, and has until the next poll, or longer."""
        if self._is_async and event.partitions:
            longest_ms = self._core.config.max_poll_interval_ms
            over = Deadline.after(longest_ms)
            self._request = _Request(event, Deadline(over.at_ms - (1 - DELAY_SHARE) * longest_ms), over)
            self._revocation.request(event.partitions)
        else:
            self._request = _Request(event)
            self._release(event.partitions)

    def _release(self, partitions: Partitions, over: Deadline | None = None) -> None:
        """Let these go; before that, commit what was returned of them. The others wait for it until it is over.

        The commit is waited for across polls: none of them takes longer than its timeout, as in the Java client.
        """
        commit: Reply[None] | None = None
        deadline = NO_DEADLINE
        if self._core.must_commit and self._core.is_member:
            deadline = over or Deadline.after(self._core.config.max_poll_interval_ms)
            commit = self._post_last_commit()
        self._releases.append(_Release(partitions, commit, deadline))

    def _go_on(self, request: _Request) -> None:
        """Let go of what is due; of what is delayed, once it is lost."""
        if (pending := self._revocation.pending) and (request.lost.expired or not self._core.is_member):
            self._lose(pending)
        while self._releases and self._releases[0].is_due:
            release = self._releases[0]
            if release.commit is not None:
                self._end_commit(release.commit, release.deadline)
            self._releases.popleft()
            self._let_go(release.partitions)

    def _let_go(self, partitions: Partitions) -> None:
        """What was to be revoked is lost, if the membership ended before the application came to poll."""
        if self._core.is_member:
            self._take_leave(CallbackKind.REVOKED, partitions)
        else:
            self._lose(partitions)

    def _lose(self, partitions: Partitions) -> None:
        self._revocation.lose(partitions)
        self._take_leave(CallbackKind.LOST, partitions)

    def _take_leave(self, kind: CallbackKind, partitions: Partitions) -> None:
        """The callback for some, or all, of what was asked back. The group hears of it when the last of it is gone."""
        try:
            self._call_listener(kind, partitions)
        finally:
            self._core.assignment -= partitions
            if self._releases or self._revocation.pending:
                self._core.mailbox.post(PartitionsReleased(partitions))
            elif self._request is not None:
                self._core.end_callback(self._request.event)
                self._request = None

    # --- one callback ---------------------------------------------------------------------------------------

    def _run(self, event: RunCallback) -> None:
        """One rebalance callback. Its end is reported whatever happens: the group must not wait for ever."""
        if event.kind is CallbackKind.ASSIGNED:
            self._core.assignment |= event.partitions  # a member that takes all anew has given up all it had
        else:
            self._revocation.lose(event.partitions)
        try:
            self._call_listener(event.kind, event.partitions)
        finally:
            if event.kind is CallbackKind.LOST:
                self._core.assignment -= event.partitions
            self._core.end_callback(event)

    def _call_listener(self, kind: CallbackKind, partitions: Partitions) -> None:
        view = CallbackView(self._consumer)
        consumer = view.as_consumer()
        self._core.in_callback = True
        try:
            with self._guard.callback():
                match kind:
                    case CallbackKind.ASSIGNED:
                        self.listener.on_partitions_assigned(consumer, partitions)
                    case CallbackKind.REVOKED:
                        self.listener.on_partitions_revoked(consumer, partitions)
                    case CallbackKind.LOST:
                        self.listener.on_partitions_lost(consumer, partitions)
        except KafkaError:
            raise
        except Exception as error:
            raise RebalanceListenerError(f"on_partitions_{kind.name.lower()} raised {error!r}") from error
        finally:
            self._core.in_callback = False
            view.expire()

    # --- inside commit_sync and close -----------------------------------------------------------------------

    def run_completed_commits(self) -> None:
        """Callbacks of commits that are done; everything else stays for the next poll."""
        while (completed := self._core.take_completed_commit()) is not None:
            self._call_back(completed)

    def _call_back(self, completed: CommitCompleted) -> None:
        with self._guard.callback():
            completed.callback(completed.offsets, completed.error)

    # --- inside unsubscribe and close -----------------------------------------------------------------------

    def auto_commit(self, deadline: Deadline) -> None:
        """Commit what was returned, before everything is given up. A failure is logged: it is given up all the same."""
        if self._core.must_commit:
            self._end_commit(self._post_last_commit(), deadline)

    def give_up_partitions(self) -> BaseException | None:
        """Run the callback for what a group gave, because this consumer is leaving; the error it raised."""
        self.discard()
        if self._core.assigned_by_hand or not self._core.assignment:
            return None
        try:
            self._call_listener(
                CallbackKind.REVOKED if self._core.is_member else CallbackKind.LOST, self._core.assignment
            )
        except BaseException as error:  # noqa: BLE001  raised by the caller, once the leaving is done
            return error
        finally:
            self._core.assignment = frozenset()
        return None

    def discard(self) -> None:
        """Forget callbacks of a rebalance that the leaving has overtaken."""
        for release in self._releases:
            if release.commit is not None:
                release.commit.abandon()
        self._releases.clear()
        self._request = None
        self._revocation.clear()
        self._core.discard_callbacks()

    # --- the commit in front of it --------------------------------------------------------------------------

    def _post_last_commit(self) -> Reply[None]:
        self._core.note_delivered()
        return self._calls.post(lambda reply: Commit(None, reply, is_last=True))

    def _end_commit(self, commit: Reply[None], deadline: Deadline) -> None:
        try:
            self._calls.wait(commit, "auto-commit", deadline, wakeable=False)
        except KafkaError as error:
            log.warning("auto-commit before giving up partitions failed: %s", error)
