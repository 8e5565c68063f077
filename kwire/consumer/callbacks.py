"""Runs what the network thread asks the application thread to run: rebalance callbacks, commit callbacks, errors. Long,
because one module decides what is repeated after an exception.

An exception of a signal handler (Ctrl-C, a time limit) may strike between any two lines. So an event stays in the
queue, and a release in its place, until what it asks for is done, and each step may be taken twice. A callback that
such an exception has ended is called again by the next poll.

An assigned callback that has raised anything is called again too: it may be the callback that seeks. Until it succeeds
its event stays in the queue as well, and the network thread holds back the new partitions and goes on with heartbeats
alone.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic

from kwire.clock import NEVER_MS, Deadline, monotonic_ms
from kwire.consumer.access import AccessGuard
from kwire.consumer.background_events import (
    completed_commit,
    discard_callbacks,
    end_callback,
    next_event,
)
from kwire.consumer.listener import CallbackView, CalledOnce, RebalanceConsumer, RebalanceListener
from kwire.consumer.state import ConsumerState
from kwire.consumer.steps import Await, Steps
from kwire.errors import KafkaError, RebalanceListenerError
from kwire.events import (
    BackgroundEvent,
    CallbackKind,
    Commit,
    CommitAsync,
    CommitCompleted,
    ErrorRaised,
    PartitionsReleased,
    Reply,
    RunCallback,
)
from kwire.interrupts import is_of_signal_handler
from kwire.logs import client_fields, part_logger
from kwire.model import K, Partitions, TopicPartition, V
from kwire.unfinished import unfinished

log = part_logger("group")


# A revoke may be delayed for this share of the rebalance timeout; then its partitions are given up as lost. After the
# whole timeout the broker goes on without this member, which loses the partitions that it keeps as well.
DELAY_SHARE = 0.9
NO_DEADLINE = Deadline(NEVER_MS)
GOES_ON, CALLED_AGAIN = "the rebalance goes on with the next poll", "the next poll calls it again"


@dataclass(frozen=True, slots=True)
class _Request:
    """A revoked callback that is due, for some of its partitions or all."""

    event: RunCallback
    lost: Deadline = NO_DEADLINE
    """When partitions whose revocation is still delayed are lost."""
    over: Deadline = NO_DEADLINE
    """When the rebalance has taken too long, whatever is waited for."""


@dataclass(slots=True, eq=False)
class _Release:
    """Partitions that are being given up: their revoked callback waits for the commit in front of it, if there is one.
    `is_told` once the listener has been called."""

    partitions: Partitions
    commit: Reply[None] | None
    deadline: Deadline
    is_lost: bool = False
    is_told: bool = False

    @property
    def is_due(self) -> bool:
        return self.commit is None or self.commit.done or self.deadline.expired


class CallbackRunner(Generic[K, V]):
    """Runs rebalance and commit callbacks, and raises errors. One for each consumer. Its methods are called inside
    poll, commit_sync, unsubscribe and close, nowhere else.

    Args:
        consumer: What the callbacks are given, behind a view that expires.
        guard: Decides who may use the consumer inside a callback: the thread that runs it, and those with its key.
        awaits: Whether callbacks may be coroutine functions: an event loop drives the steps.

    Attributes:
        awaits: As given.
    """

    def __init__(
        self, state: ConsumerState[K, V], consumer: RebalanceConsumer, guard: AccessGuard, *, awaits: bool = False
    ) -> None:
        self.listener = RebalanceListener()
        self.awaits = awaits
        self._state = state
        self._mailbox = state.link.mailbox
        self._guard = guard
        # Its owner: held weakly, so that a consumer nobody holds is gone at once, and its membership with it.
        self._consumer: RebalanceConsumer = weakref.proxy(consumer)
        self._is_async = state.config.enable_async_revocation
        self._revocation = state.revocation
        self._request: _Request | None = None
        self._releases: deque[_Release] = deque()
        self._told: RunCallback | None = None
        """The last event that the listener knows of."""
        self._failed: RunCallback | None = None
        """The event whose assigned callback has raised, and is called again."""
        self._running: tuple[CommitCompleted, ...] = ()
        """Commits whose callbacks run now, one inside the other."""

    # --- inside poll ----------------------------------------------------------------------------------------

    def begin_poll(self) -> None:
        """A poll begins: give up the partitions that an earlier poll has announced and nobody has delayed."""
        if not self._guard.is_in_callback:
            self._running = ()
        if self._request is not None and (due := self._not_leaving(self._revocation.due)):
            self._release(due, self._request.over)
        self._revocation.begin_poll()

    @property
    def are_due(self) -> bool:
        """Whether `run` may have something to do."""
        return self._request is not None or self._mailbox.has_background_events

    @property
    def are_quiet(self) -> bool:
        """Whether a poll that begins has nothing to run, to raise, or to do with revocation."""
        return not self.are_due and self._revocation.is_quiet

    def run(self) -> Steps[None]:
        """Everything that is due, in order. Raises what a callback raises, or the error the thread has to tell."""
        while not self.has_revocation_news and (event := (yield from self._next())) is not None:
            match event:
                case RunCallback(kind=CallbackKind.REVOKED):
                    self._request_revoke(event)
                case RunCallback():
                    yield from self._run(event)
                case CommitCompleted():
                    yield from self._call_back(event)
                case ErrorRaised():
                    # `undo_poll` takes it out of the queue. Many polls may raise this one error: with its traceback
                    # it would collect the frames of all their callers.
                    raise event.error.with_traceback(None)

    @property
    def has_revocation_news(self) -> bool:
        """Whether the application should hear of revocation before anything else happens."""
        return self._is_async and self._revocation.has_news

    def sooner(self, deadline: Deadline) -> Deadline:
        """The deadline of a poll, or an earlier one of what it holds a callback back for."""
        if self._request is None and not self._releases:
            return deadline
        waits = [deadline, *(release.deadline for release in self._releases)]
        if self._revocation.pending and self._request is not None:
            waits.append(self._request.lost)
        return min(waits, key=lambda each: each.at_ms)

    def delay(self, partitions: Partitions) -> bool:
        """Delay their revoke. False if some could not be delayed: they are lost, or being given up already."""
        granted = self._revocation.delay(partitions) and partitions == self._not_leaving(partitions)
        return granted and (self._state.is_member or self._request is None)

    def _not_leaving(self, partitions: Partitions) -> Partitions:
        """Those that are assigned, and not being given up already."""
        leaving = frozenset[TopicPartition]().union(*(release.partitions for release in self._releases))
        return (partitions & self._state.assignment) - leaving

    def _next(self) -> Steps[BackgroundEvent | None]:
        """The next event to handle. While partitions are being given up, no other rebalance callback runs. Without
        asynchronous revocation no event at all is handled meanwhile: the release waits only for one commit."""
        if self._request is not None:
            yield from self._go_on(self._request)
        if self._request is None:
            return self._next_but_failed() or next_event(self._mailbox, but=self._running)
        return next_event(self._mailbox, but=self._running, but_callbacks=True) if self._is_async else None

    def _next_but_failed(self) -> BackgroundEvent | None:
        """The next event other than the callback that has raised, which may raise in every poll: commit callbacks must
        not wait for it."""
        return self._failed and next_event(self._mailbox, but=self._running, but_callbacks=True)

    # --- partitions are given up ----------------------------------------------------------------------------

    def _request_revoke(self, event: RunCallback) -> None:
        """With asynchronous revocation the application hears of it, and has until the next poll, or longer."""
        if self._is_async and event.partitions:
            longest_ms = self._state.config.max_poll_interval_ms
            over = Deadline.after(longest_ms)
            self._revocation.request(event.partitions)
            self._request = _Request(event, Deadline(over.at_ms - (1 - DELAY_SHARE) * longest_ms), over)
        else:
            self._releases.clear()  # what an exception has left of the first attempt
            self._release(event.partitions)
            self._request = _Request(event)

    def _release(self, partitions: Partitions, over: Deadline | None = None) -> None:
        """Begin to give up these partitions, with a commit of what was returned (if commits are automatic).

        The commit is waited for across polls, until `over`: no poll takes longer than its timeout, as in the Java
        client.
        """
        commit: Reply[None] | None = None
        deadline = NO_DEADLINE
        if self._state.must_commit and self._state.is_member:
            deadline = over or Deadline.after(self._state.config.max_poll_interval_ms)
            commit = self._post_last_commit()
        self._releases.append(_Release(partitions, commit, deadline))

    def _go_on(self, request: _Request) -> Steps[None]:
        """Give up the partitions that are due; the delayed ones as lost, once their time or the membership is over."""
        self._mailbox.remove(request.event)
        is_over = request.lost.expired or not self._state.is_member
        if is_over and (pending := self._not_leaving(self._revocation.pending)):
            self._releases.appendleft(_Release(pending, None, NO_DEADLINE, is_lost=True))
        while self._releases and self._releases[0].is_due:
            release = self._releases[0]
            if release.commit is not None:
                yield from self._end_commit(release.commit, release.deadline)
            yield from self._let_go(release)
        self._end_if_through()

    def _let_go(self, release: _Release) -> Steps[None]:
        """Call the listener, and drop the partitions. They are lost if the membership ended before this."""
        if not self._state.is_member and not release.is_told:
            release.is_lost = True
        if release.is_lost:
            self._revocation.lose(release.partitions)
        error = None
        if not release.is_told:
            kind = CallbackKind.LOST if release.is_lost else CallbackKind.REVOKED
            began_ms = monotonic_ms()
            error = yield from self._tell(kind, release.partitions, began_ms)
            release.is_told = True
            self._note_time(kind, began_ms)
        self._state.assignment -= release.partitions
        if len(self._releases) > 1 or self._revocation.pending:
            self._mailbox.post(PartitionsReleased(release.partitions))
        self._releases.remove(release)
        self._end_if_through()
        if error is not None:
            raise error

    def _end_if_through(self) -> None:
        """The group hears of it when the last of what it asked back is gone."""
        if self._request is not None and not self._releases and not self._revocation.pending:
            end_callback(self._mailbox, self._request.event)
            self._request = None

    # --- one callback ---------------------------------------------------------------------------------------

    def _run(self, event: RunCallback) -> Steps[None]:
        """One assigned or lost callback. The end of a lost one is reported though the listener fails: nobody could undo
        the loss, and the group must not wait for ever."""
        if event.kind is CallbackKind.ASSIGNED:
            self._state.assignment |= event.partitions  # a member that takes all anew has given up all it had
        else:
            self._revocation.lose(event.partitions)
        error = None
        if self._told is not event and (partitions := self._to_tell(event)) is not None:
            began_ms = monotonic_ms()
            error = yield from self._tell(event.kind, partitions, began_ms)
            if error is not None and self._calls_again(event.kind):
                self._failed = event
                self._note_time(event.kind, began_ms)
                raise error
            self._told = event
            self._note_time(event.kind, began_ms)
        self._failed = None
        if event.kind is CallbackKind.LOST:
            self._state.assignment -= event.partitions
        end_callback(self._mailbox, event)
        if error is not None:
            raise error

    def _to_tell(self, event: RunCallback) -> Partitions | None:
        """What the callback is called with. One that has raised is called again with what is still subscribed, and not
        at all (None) if that is nothing, or if the membership is over: then what it was for is lost next."""
        if self._failed is not event:
            return event.partitions
        if not self._state.is_member:
            return None
        view = self._state.view
        if view.subscription_epoch == event.subscription_epoch or not view.topics:
            return event.partitions  # of a pattern that the broker matches, nobody knows the topics
        return frozenset(tp for tp in event.partitions if tp.topic in view.topics) or None

    def _calls_again(self, kind: CallbackKind) -> bool:
        """Whether a callback of this kind that has raised is called again by the next poll."""
        is_done = isinstance(self.listener, CalledOnce) and self.listener.was_called
        return kind is CallbackKind.ASSIGNED and not is_done

    def _tell(
        self,
        kind: CallbackKind,
        partitions: Partitions,
        now_ms: float,
        goes_on: str = "",
    ) -> Steps[Exception | None]:
        """Call the listener; returns the error that it failed with. Raises what a signal handler raises, such as
        Ctrl-C: then nobody knows how far the listener got, and it has to be called again."""
        view = CallbackView(self._consumer)
        try:
            self._state.callback = kind, now_ms
            with self._guard.callback():
                yield from self._finish(self._call_listener(kind, view.as_consumer(), partitions))
        except KafkaError as error:
            return error
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            goes_on = goes_on or (CALLED_AGAIN if self._calls_again(kind) else GOES_ON)
            failed = RebalanceListenerError(f"on_partitions_{kind.name.lower()} raised {error!r}; {goes_on}")
            failed.__cause__ = error
            return failed
        finally:
            self._state.callback = None
            view.expire()
        return None

    def _note_time(self, kind: CallbackKind, began_ms: float) -> None:
        """Record how long the listener took. Called after it is noted that the listener was told: a signal handler may
        raise in here, and the listener must not be told again for that."""
        coordinator, ended_ms = self._state.link.metrics.coordinator, monotonic_ms()
        windows = {
            CallbackKind.ASSIGNED: coordinator.assigned,
            CallbackKind.REVOKED: coordinator.revoked,
            CallbackKind.LOST: coordinator.lost,
        }
        windows[kind].record(ended_ms - began_ms, ended_ms)

    def _call_listener(self, kind: CallbackKind, consumer: RebalanceConsumer, partitions: Partitions) -> object:
        methods: dict[CallbackKind, Callable[[RebalanceConsumer, Partitions], object]] = {
            CallbackKind.ASSIGNED: self.listener.on_partitions_assigned,
            CallbackKind.REVOKED: self.listener.on_partitions_revoked,
            CallbackKind.LOST: self.listener.on_partitions_lost,
        }
        return methods[kind](consumer, partitions)

    def _finish(self, result: object) -> Steps[None]:
        """Finish a callback that has returned this: a coroutine still has to be awaited."""
        if self.awaits and isinstance(result, Awaitable):
            yield Await(result)
        elif problem := unfinished(result):
            raise TypeError(f"the callback has done nothing: {problem}")

    # --- inside commit_sync and close -----------------------------------------------------------------------

    def run_completed_commits(self) -> Steps[None]:
        """Callbacks of commits that are done; everything else stays for the next poll. Where another task runs
        callbacks now, that one runs these."""
        while self._guard.is_entered and (completed := completed_commit(self._mailbox, but=self._running)) is not None:
            yield from self._call_back(completed)

    def _call_back(self, completed: CommitCompleted) -> Steps[None]:
        outer, self._running = self._running, (*self._running, completed)
        try:
            with self._guard.callback():
                yield from self._finish(completed.callback(completed.offsets, completed.error))
        except Exception as error:
            if not is_of_signal_handler(error):
                self._mailbox.remove(completed)
            raise
        finally:
            self._running = outer
        self._mailbox.remove(completed)

    # --- inside unsubscribe and close -----------------------------------------------------------------------

    def auto_commit(self, deadline: Deadline) -> Steps[None]:
        """Commit what was returned, before everything is given up. A failure is logged: it is given up all the same."""
        if not self._state.must_commit:
            return
        try:
            yield from self._end_commit(self._post_last_commit(), deadline)
        except BaseException:  # a Ctrl-C, a cancellation: what nobody waits for any more may not have been sent
            self._mailbox.post(CommitAsync(None, None))
            raise

    def give_up_partitions(self) -> Steps[BaseException | None]:
        """Run the callback for what a group gave, because this consumer is leaving; the error it raised."""
        self.discard()
        if self._state.assigned_by_hand or not self._state.assignment:
            return None
        kind = CallbackKind.REVOKED if self._state.is_member else CallbackKind.LOST
        began_ms = monotonic_ms()
        try:
            failed = yield from self._tell(kind, self._state.assignment, began_ms, "the group is left all the same")
            self._note_time(kind, began_ms)
            return failed
        except BaseException as error:  # noqa: BLE001  raised by the caller, once the leaving is done
            return error
        finally:
            self._state.assignment = frozenset()

    def discard(self) -> None:
        """Forget callbacks of a rebalance that the leaving has overtaken."""
        for release in self._releases:
            if release.commit is not None:
                release.commit.abandon()
        self._releases.clear()
        self._request = self._failed = None
        self._revocation.clear()
        discard_callbacks(self._mailbox)

    # --- the commit in front of it --------------------------------------------------------------------------

    def _post_last_commit(self) -> Reply[None]:
        self._state.note_delivered()
        return self._state.link.post(lambda reply: Commit(None, reply, is_last=True))

    def _end_commit(self, commit: Reply[None], deadline: Deadline) -> Steps[None]:
        try:
            yield from self._state.link.wait_for(commit, "auto-commit", deadline, wakeable=False)
        except KafkaError as error:
            fields = client_fields(self._state.link.client_id, self._state.config.group_id)
            log.warning("auto-commit before giving up partitions failed: %s", error, extra=fields)
