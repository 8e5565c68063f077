"""`NetworkLink`: the application's end of one network thread, which it starts and ends; Java's ApplicationEventHandler.

Questions go over as events that carry a reply. What has to wait for one is written as steps (`steps.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, TypeVar

from kwire.clock import NEVER_MS, Deadline, monotonic_ms, wall_clock_ms
from kwire.config import ConsumerConfig, GroupProtocol
from kwire.consumer.access import CLOSED
from kwire.consumer.arguments import Timeout, milliseconds
from kwire.consumer.host import Host, current_host
from kwire.consumer.steps import Steps, Wait, run_blocking
from kwire.errors import ForkedConsumerError, IllegalStateError, KafkaError, KafkaTimeoutError, WakeupError
from kwire.events import ApplicationEvent, Close, EndOfTurn, Reply
from kwire.fetching.buffer import FetchBuffer
from kwire.mailbox import Mailbox
from kwire.metrics import ConsumerMetrics, MetricName, WindowSetting
from kwire.metrics.consumer import Gauges

if TYPE_CHECKING:
    from kwire.assignors.base import Assignor
    from kwire.consumer.event_dispatch import EventDispatcher

T = TypeVar("T")

# The network thread's turns take microseconds; this only bounds the wait for a thread that gets no processor.
TURN_MS = 1_000.0
# When the time of closing is up the network thread still has sockets to close: a few ms, after which nothing is left
# behind.
CLOSE_GRACE_MS = 100.0


class NetworkLink:
    """Starts and ends one network thread, and asks it questions. Used by the application thread.

    Args:
        assignors: For a group whose members assign partitions.
        children: How many child cursors there are. Each fetches into a buffer of its own.

    Attributes:
        leaves_wakeup: Answers whether the caller leaves a pending wakeup to another task: to the one that polls, which
            is processing its records now, and has to hear of it in its next poll.
        woken_in: The thread in which a wakeup has ended another call than a poll, since the last poll began. A program
            may stop there, in the midst of its records.
        asks_until: When questions are given up at the latest: the calls of callbacks must not keep `close()` for more
            than its time.
        called_as: The function that the user has called, if that is no method of the consumer; errors name it.
    """

    def __init__(
        self, config: ConsumerConfig, assignors: Sequence[Assignor] = (), *, client_id: str, children: int = 0
    ) -> None:
        host = current_host()
        self.config = config
        self.client_id = client_id
        windows = WindowSetting(config.metrics_num_samples, config.metrics_sample_window_ms)
        is_classic = config.group_protocol is GroupProtocol.CLASSIC
        self.metrics = ConsumerMetrics(windows, started_ms=wall_clock_ms(), is_classic=is_classic)
        self.mailbox = Mailbox(host.new_waiter, self.metrics)
        self.buffer = FetchBuffer(children)
        self._events = self.mailbox.operator = _dispatcher(config, client_id, host)  # looked at by the network side
        self.thread = host.new_network_side(config, assignors, self.mailbox, self.buffer, client_id=client_id)
        self.asks_until = Deadline(NEVER_MS)
        self._is_close_posted = False
        self.leaves_wakeup: Callable[[], bool] = lambda: False
        self.woken_in: int | None = None
        self.called_as = ""

    def start(self) -> None:
        """Start the network thread. Returns when it takes events. Raises: NoThreadError."""
        try:
            self.thread.start()
            if self._events is not None:
                self._events.start()  # last: it ends with the network thread, and without one never
        except BaseException:
            self.post_close(0.0)  # a Ctrl-C, perhaps: nobody will hold what would close the thread
            raise

    def run(self, steps: Steps[T]) -> T:
        """Drive the steps of a call, blocking where they wait."""
        return run_blocking(self.mailbox, steps)

    # --- questions ------------------------------------------------------------------------------------------

    def ask(
        self,
        what: str,
        event: Callable[[Reply[T]], ApplicationEvent],
        timeout: Timeout | None,
        *,
        wakeable: bool = True,
    ) -> Steps[T]:
        """Post a question to the cluster and wait for its answer.

        Args:
            timeout: In seconds; None for `default_api_timeout_ms`.
            wakeable: Whether a wakeup ends the wait.

        Raises:
            KafkaTimeoutError: Names `what`, and what it was still waiting for.
            WakeupError: `wakeup()` was called.
        """
        timeout_ms = self.config.default_api_timeout_ms if timeout is None else milliseconds(timeout)
        deadline = min(Deadline.after(timeout_ms), self._latest())
        return (yield from self.wait_for(self.post(event), what, deadline, wakeable=wakeable))

    def command(self, what: str, event: Callable[[Reply[T]], ApplicationEvent]) -> Steps[T]:
        """Post something that needs no broker: the network thread answers within its next turn."""
        deadline = min(Deadline.after(self.config.default_api_timeout_ms), self._latest())
        return (yield from self.wait_for(self.post(event), what, deadline, wakeable=False))

    def _latest(self) -> Deadline:
        """When a question that is asked now is given up. A callback that has taken all the time of `close()` gets the
        answer of a broker that is there."""
        return max(self.asks_until, Deadline.after(CLOSE_GRACE_MS))

    def post(self, event: Callable[[Reply[T]], ApplicationEvent]) -> Reply[T]:
        """Post without waiting; filling the reply wakes the application thread."""
        reply: Reply[T] = Reply(on_done=self.mailbox.notify)
        self.mailbox.post(event(reply))
        return reply

    def wait_for(self, reply: Reply[T], what: str, deadline: Deadline, *, wakeable: bool) -> Steps[T]:
        """The reply's value, or its error raised. A caller that leaves without one has abandoned it.

        Even with no time at all the network thread gets to look at the question, and answers it if it can by itself.
        """
        was_looked_at = False
        was_woken = self.mailbox.is_wakeup_pending
        try:
            while True:
                seen = self.mailbox.signal()
                has_ended = self._has_ended  # read before the reply: its last act may be to answer
                if reply.done:
                    return reply.result()
                self.check_alive()
                if has_ended:
                    raise IllegalStateError(CLOSED)
                if wakeable and self.mailbox.is_wakeup_pending:
                    self._raise_unless_left(was_woken=was_woken)
                if deadline.expired and not was_looked_at:
                    yield from self._wait_for_turn()
                    was_looked_at = True
                    continue
                if deadline.expired:
                    call = self.called_as or what
                    raise KafkaTimeoutError(f"{call} took too long; it was still waiting for {reply.waiting_for}")
                yield Wait(seen, deadline, reply=reply)
        finally:
            reply.abandon()

    def _wait_for_turn(self) -> Steps[None]:
        turn = self.post(EndOfTurn)
        deadline = Deadline.after(TURN_MS)
        while not (turn.done or deadline.expired or self.mailbox.failure is not None or self._has_ended):
            seen = self.mailbox.signal()
            if not turn.done:
                yield Wait(seen, deadline, reply=turn)

    @property
    def _has_ended(self) -> bool:
        """Whether nobody is left to answer, as in the last callbacks of a `close()`."""
        return self._is_close_posted and not self.mailbox.is_attached

    def check_alive(self) -> None:
        """Raise what the network thread died of."""
        if self.mailbox.failure is not None:
            raise self.mailbox.failure.with_traceback(None)  # one error for all calls: without their frames

    def raise_wakeup(self) -> None:
        """Raise WakeupError if `wakeup()` was called."""
        if self.mailbox.take_wakeup():
            raise WakeupError("wakeup() was called")

    def _raise_unless_left(self, *, was_woken: bool) -> None:
        """A wakeup ends the call that waits, unless it is left to another task and came before the call."""
        if not self.leaves_wakeup():
            self.woken_in = get_ident()
            self.raise_wakeup()
        elif not was_woken:
            raise WakeupError("wakeup() was called")

    def snapshot(self) -> dict[MetricName, float]:
        """What both threads have counted. Any thread may ask; nobody is waited for, dead or alive."""
        gauges = Gauges(tuple(self.mailbox.view.epochs), *self.mailbox.queue_sizes)
        return self.metrics.snapshot(self.client_id, gauges, monotonic_ms())

    # --- the end --------------------------------------------------------------------------------------------

    def post_close(self, deadline_ms: float, *, leave_group: bool | None = None) -> None:
        """Have the network thread end. A second call has no effect."""
        if not self._is_close_posted:
            self.mailbox.post(Close(deadline_ms, leave_group))
            self._is_close_posted = True

    def wait_for_end(self, deadline: Deadline) -> Steps[None]:
        """Until the network thread has ended."""
        seen = self.mailbox.signal()
        while self.mailbox.is_attached and not deadline.expired:
            yield Wait(seen, deadline)
            seen = self.mailbox.signal()
        self.thread.join(deadline)  # it has nothing left to do

    @property
    def identity(self) -> str:
        """Which consumer this is, as messages about a process name it."""
        return f"{self.client_id} of group {self.config.group_id!r}" if self.config.group_id else self.client_id

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy, in a process that the network thread's process has forked."""
        return isinstance(self.mailbox.failure, ForkedConsumerError)

    def disown(self, error: KafkaError) -> None:
        """This is such a copy: the network thread, its sockets and the membership are the other process's."""
        self._is_close_posted = True
        self.buffer.forget_other_threads()
        self.mailbox.forget_other_threads(error)


def _dispatcher(config: ConsumerConfig, client_id: str, host: Host) -> EventDispatcher | None:
    if config.on_event is None:
        return None
    from kwire.consumer.event_dispatch import EventDispatcher  # few have one

    return EventDispatcher(config.on_event, config, client_id, host)
