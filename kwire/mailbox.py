"""Locked by `Mailbox._lock`: the two queues between the application thread and the network thread.

The application thread posts events and waits; the network thread drains them, delivers background events, and publishes
the assignment view. Neither ever blocks in the other's code. Waiting follows the event-count pattern, which cannot miss
a wake-up: read `signal()`, look at everything that may have changed, then `wait(signal, ...)`, which returns at once if
anything was signalled since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import TIMEOUT_MAX, Lock, RLock
from typing import TYPE_CHECKING, Protocol

from kwire.clock import Deadline, monotonic_ms
from kwire.errors import KafkaError
from kwire.events import ApplicationEvent, AssignmentView, BackgroundEvent, Delivered, ErrorRaised
from kwire.metrics import ConsumerMetrics
from kwire.switch_interval import PollsInARow

if TYPE_CHECKING:
    from kwire.consumer_events import EventSink


class Woken(Protocol):
    """What is released when something is signalled."""

    def release(self) -> None:
        """Raises RuntimeError if nobody sleeps on it."""
        ...


class Waiter(Woken, Protocol):
    """What a waiting thread sleeps on: acquired once, it sleeps in the second `acquire` until it is released."""

    def acquire(self, *, timeout: float = -1) -> bool: ...


class Awaited(Protocol):
    """A reply, of any type."""

    @property
    def done(self) -> bool: ...


class Mailbox:
    """The two queues between the threads of one consumer.

    Args:
        new_waiter: `threading.Lock`, except where the application is no thread.
        metrics: What both threads count, each its part.
    """

    def __init__(self, new_waiter: Callable[[], Waiter] = Lock, metrics: ConsumerMetrics | None = None) -> None:
        self.metrics = metrics or ConsumerMetrics()
        self._new_waiter = new_waiter
        self._lock = RLock()  # reentrant: a signal handler's wakeup() may find it held by the thread it runs on
        self._signal = 0
        self._waiters: dict[Woken, Awaited | None] = {}
        """With the reply that each waits for, if it waits for nothing else."""
        self._to_network: deque[ApplicationEvent] = deque()
        self._to_application: deque[BackgroundEvent] = deque()
        self._wake_network: Callable[[], None] | None = None
        self._is_turn_due = False
        """Whether the network thread was woken and has not begun a turn since."""
        self._wakeup_pending = False
        self._told_this_turn: list[ErrorRaised] = []  # the network thread's own
        # Single values, replaced as a whole by their one writer, so reading them needs no lock.
        self.view = AssignmentView()
        self.polled_at_ms = monotonic_ms()
        self.polls_in_a_row = PollsInARow()
        self.failure: KafkaError | None = None
        self.bootstrap_error: KafkaError | None = None
        self.was_reached = False
        self.connection_failures = ""
        self.awaits_poll = True
        self.poll_round = 1
        """How many times the network thread has begun to wait for a poll."""
        self.operator: EventSink | None = None
        self.in_front_of_loop: Callable[[], Sequence[Delivered]] = lambda: ()
        """What a `for` loop over the consumer has passed; see `Delivery.in_front_of_loop`."""

    # --- application thread ---------------------------------------------------------------------------------

    def post(self, event: ApplicationEvent) -> None:
        """Queue an event and wake the network thread."""
        self._to_network.append(event)
        self.wake_network()

    def note(self, event: ApplicationEvent) -> None:
        """Queue an event the network thread need not hurry for; it sees it in its next turn, in order with the rest."""
        self._to_network.append(event)

    def wake_network(self) -> None:
        """Nothing happens if it was woken before and has not begun a turn since: that turn is still to come."""
        wake = self._wake_network  # read once: the network thread may take it away at any moment
        if wake is None or self._is_turn_due:
            return
        try:
            self._is_turn_due = True  # first: the turn may begin before `wake` returns
            wake()
        except BaseException:  # of a signal handler: perhaps nobody was woken
            self._is_turn_due = False
            raise

    def signal(self) -> int:
        return self._signal

    def wait(self, seen: int, deadline: Deadline) -> None:
        """Sleep until something is signalled after `seen`, or the deadline.

        Not a Condition. With one this could happen: the thread looks and finds nothing; a signal handler interrupts it,
        passes the lock of its own thread, and finds nobody to wake; the thread sleeps. Here the waiter is in the list
        before the thread looks.
        """
        waiter = self._new_waiter()
        waiter.acquire()
        try:
            self.add_waiter(waiter)
            if self._signal == seen:
                waiter.acquire(timeout=min(deadline.remaining_ms() / 1000.0, TIMEOUT_MAX))
        finally:
            self.remove_waiter(waiter)

    def add_waiter(self, waiter: Woken, reply: Awaited | None = None) -> None:
        """Have `waiter` released by each signal from now on; with a reply, by those alone after which the reply is done
        or each call has to end. So hundreds of tasks that wait for replies do not all wake up for each of them. A
        caller that then finds `signal()` unchanged has missed nothing."""
        with self._lock:
            self._waiters[waiter] = reply

    def remove_waiter(self, waiter: Woken) -> None:
        """Undo `add_waiter`. Nothing happens if it is not there."""
        with self._lock:
            self._waiters.pop(waiter, None)

    @property
    def has_background_events(self) -> bool:
        """Whether there are any; almost never, and every poll asks."""
        return bool(self._to_application)

    def find(self, wanted: Callable[[BackgroundEvent], bool]) -> BackgroundEvent | None:
        """The oldest background event of this kind, which stays in the queue: an exception of a signal handler must not
        lose it."""
        with self._lock:
            return next(filter(wanted, self._to_application), None)

    def remove(self, event: BackgroundEvent) -> None:
        """What it asked for is done. Nothing happens if it is not there."""
        with self._lock:
            if self._to_application and self._to_application[0] is event:  # as a rule
                self._to_application.popleft()
            else:
                self._to_application = deque(each for each in self._to_application if each is not event)

    def discard_background(self, unwanted: Callable[[BackgroundEvent], bool]) -> None:
        """Drop queued background events that a call of the user has made pointless."""
        with self._lock:
            self._to_application = deque(event for event in self._to_application if not unwanted(event))

    # --- any thread -----------------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """Make the current or next blocking call raise WakeupError."""
        self._wakeup_pending = True
        self.notify_all()

    @property
    def is_wakeup_pending(self) -> bool:
        return self._wakeup_pending

    def take_wakeup(self) -> bool:
        """Whether `wakeup` was called since the last call. Needs no lock: a wakeup between the two lines makes this
        very call raise."""
        if not self._wakeup_pending:
            return False
        self._wakeup_pending = False  # only if it was set: else a wakeup since the look would be lost
        return True

    @property
    def queue_sizes(self) -> tuple[int, int]:
        """How many events wait for the network thread, and how many for the application."""
        return len(self._to_network), len(self._to_application)

    # --- network thread -------------------------------------------------------------------------------------

    def attach(self, wake_network: Callable[[], None] | None) -> None:
        """Set how the network thread is woken; None when it is gone."""
        self._wake_network = wake_network
        self._is_turn_due = False
        if wake_network is None:
            self.polls_in_a_row.end()
            if self.operator is not None:
                self.operator.end()

    @property
    def is_attached(self) -> bool:
        """Whether there is a network thread that takes events."""
        return self._wake_network is not None

    def begin_turn(self) -> None:
        """A turn of the network thread begins. What is posted from now on wakes it again; what was posted before, this
        turn sees."""
        self._is_turn_due = False
        self._told_this_turn.clear()

    def drain(self) -> list[ApplicationEvent]:
        """Everything posted so far, oldest first."""
        events: list[ApplicationEvent] = []
        while self._to_network:
            events.append(self._to_network.popleft())
        return events

    def deliver(self, event: BackgroundEvent) -> None:
        """Queue a background event, but not an error that is in the queue already. Otherwise a request that fails again
        and again while nobody polls would fill the queue, and polls would raise its error long after it is over. An
        error of this turn is not queued again either, even if a poll has raised it already. Otherwise two requests
        that fail by one refused login would be one error or two, by how fast the application polls."""
        with self._lock:
            if not isinstance(event, ErrorRaised):
                self._to_application.append(event)
            elif not any(_says_the_same(event, told) for told in (*self._told_this_turn, *self._to_application)):
                self._told_this_turn.append(event)
                self._to_application.append(event)
            self._notify_locked()

    def notify(self) -> None:
        """Make a waiting application thread look again: records arrived, a reply is there."""
        with self._lock:
            self._notify_locked()

    def notify_all(self) -> None:
        """As `notify`; also make those look again who wait for a reply that is not there."""
        with self._lock:
            self._notify_locked(to_all=True)

    def await_poll(self, awaits: bool) -> None:
        """Say whether the network thread has to hear of polls. If it now has to, a poll that is under way looks again:
        it may have seen that nobody waits for it, and gone to sleep, just before. And it says once more that it polls,
        if it has said so already."""
        if awaits and not self.awaits_poll:
            self.poll_round += 1
            self.awaits_poll = True
            self.notify()
        else:
            self.awaits_poll = awaits

    def fail(self, error: KafkaError) -> None:
        """The network thread is dead: every waiting and later call raises `error`."""
        self.failure = error
        self.notify_all()

    def forget_other_threads(self, error: KafkaError) -> None:
        """Forget the network thread, in a process that was forked: it runs in the other. Each call raises `error`."""
        self._lock = RLock()
        self._waiters = {}
        self._wake_network = None
        self._to_network.clear()
        self._to_application.clear()
        self.failure = error

    def _notify_locked(self, *, to_all: bool = False) -> None:
        self._signal += 1
        for waiter, reply in tuple(self._waiters.items()):  # a signal handler may add one meanwhile
            if reply is None or reply.done or to_all:
                try:
                    waiter.release()
                except RuntimeError:
                    continue  # released before, and not up yet


def _says_the_same(event: ErrorRaised, queued: BackgroundEvent) -> bool:
    if not isinstance(queued, ErrorRaised):
        return False
    same_error = type(event.error) is type(queued.error) and str(event.error) == str(queued.error)
    return same_error and event.subscription_epoch == queued.subscription_epoch
