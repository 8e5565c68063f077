"""Runs what the network thread asks the application thread to run: rebalance callbacks, commit callbacks, errors."""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass
from typing import Generic

from kwire.clock import Deadline
from kwire.consumer.access import AccessGuard
from kwire.consumer.core import ConsumerCore
from kwire.consumer.listener import CallbackView, Partitions, RebalanceConsumer, RebalanceListener
from kwire.consumer.waiting import BlockingCalls
from kwire.errors import KafkaError, RebalanceListenerError
from kwire.events import CallbackKind, Commit, CommitCompleted, ErrorRaised, Reply, RunCallback
from kwire.model import K, V

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Revocation:
    """A revoked callback that waits for the commit in front of it."""

    event: RunCallback
    commit: Reply[None]
    deadline: Deadline

    @property
    def due(self) -> bool:
        return self.commit.done or self.deadline.expired


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
        self._revocation: _Revocation | None = None

    # --- inside poll ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Everything that is due, in order. Raises what a callback raises, or the error the thread has to tell."""
        while not self._is_held() and (event := self._core.next_event()) is not None:
            match event:
                case RunCallback():
                    self._begin(event)
                case CommitCompleted():
                    self._call_back(event)
                case ErrorRaised():
                    raise event.error

    def sooner(self, deadline: Deadline) -> Deadline:
        """The deadline of a poll, or that of the commit it holds a callback back for."""
        held = self._revocation
        return deadline if held is None else min(deadline, held.deadline, key=lambda either: either.at_ms)

    def _begin(self, event: RunCallback) -> None:
        """Run the callback; before partitions are revoked, commit what was returned of them.

        The commit is waited for across polls: none of them takes longer than its timeout, as in the Java client.
        """
        if event.kind is CallbackKind.REVOKED and self._core.must_commit and self._core.is_member:
            deadline = Deadline.after(self._core.config.max_poll_interval_ms)  # the others wait no longer than that
            self._revocation = _Revocation(event, self._post_last_commit(), deadline)
        else:
            self._run(event)

    def _is_held(self) -> bool:
        """Whether a commit is still waited for; if it is done, the callback behind it runs now."""
        held = self._revocation
        if held is None:
            return False
        if not held.due:
            return True
        self._revocation = None
        self._end_commit(held.commit, held.deadline)
        self._run(held.event)
        return False

    def _run(self, event: RunCallback) -> None:
        """One rebalance callback. Its end is reported whatever happens: the group must not wait for ever.

        What was to be revoked is lost, if the membership ended before the application came to poll.
        """
        self._core.begin_callback(event)
        too_late = event.kind is CallbackKind.REVOKED and not self._core.is_member
        try:
            self._call_listener(CallbackKind.LOST if too_late else event.kind, event.partitions)
        finally:
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
        if self._revocation is not None:
            self._revocation.commit.abandon()
            self._revocation = None
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
