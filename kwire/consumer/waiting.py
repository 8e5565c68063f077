"""How a blocking facade waits: for a reply, until a deadline, a `wakeup()` or the network thread's death."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kwire.clock import Deadline
from kwire.consumer.arguments import Timeout, milliseconds
from kwire.errors import KafkaTimeoutError, WakeupError
from kwire.events import ApplicationEvent, EndOfTurn, Reply
from kwire.mailbox import Mailbox

T = TypeVar("T")

# The network thread's turns take microseconds; this only bounds the wait for one whose thread is not let run.
TURN_MS = 1_000.0


class BlockingCalls:
    """Posts events that carry a reply, and waits for it. Used by the application thread.

    Args:
        default_timeout_ms: For calls without a timeout of their own (`default_api_timeout_ms`).
    """

    def __init__(self, mailbox: Mailbox, default_timeout_ms: float) -> None:
        self._mailbox = mailbox
        self._default_timeout_ms = default_timeout_ms

    def ask(self, what: str, event: Callable[[Reply[T]], ApplicationEvent], timeout: Timeout | None) -> T:
        """Post a question to the cluster and wait for its answer.

        Raises:
            KafkaTimeoutError: Names `what`, and what it was still waiting for.
            WakeupError: `wakeup()` was called.
        """
        default_ms = self._default_timeout_ms
        deadline = Deadline.after(default_ms if timeout is None else milliseconds(timeout))
        return self.wait(self.post(event), what, deadline, wakeable=True)

    def command(self, what: str, event: Callable[[Reply[T]], ApplicationEvent]) -> T:
        """Post something that needs no broker: the network thread answers within its next turn."""
        return self.wait(self.post(event), what, Deadline.after(self._default_timeout_ms), wakeable=False)

    def post(self, event: Callable[[Reply[T]], ApplicationEvent]) -> Reply[T]:
        """Post without waiting; filling the reply wakes the application thread."""
        reply: Reply[T] = Reply(on_done=self._mailbox.notify)
        self._mailbox.post(event(reply))
        return reply

    def wait(self, reply: Reply[T], what: str, deadline: Deadline, *, wakeable: bool) -> T:
        """The reply's value, or its error raised. A caller that leaves without one has abandoned it.

        Even with no time at all the network thread gets to look at the question, and answers it if it can by itself.
        """
        was_looked_at = False
        try:
            while True:
                seen = self._mailbox.signal()
                if reply.done:
                    return reply.result()
                self.check_alive()
                if wakeable:
                    self.raise_wakeup()
                if deadline.expired and not was_looked_at:
                    self._wait_for_turn()
                    was_looked_at = True
                    continue
                if deadline.expired:
                    raise KafkaTimeoutError(f"{what} took too long; it was still waiting for {reply.waiting_for}")
                self._mailbox.wait(seen, deadline)
        finally:
            reply.abandon()

    def _wait_for_turn(self) -> None:
        turn = self.post(EndOfTurn)
        deadline = Deadline.after(TURN_MS)
        while not (turn.done or deadline.expired or self._mailbox.failure is not None):
            seen = self._mailbox.signal()
            if not turn.done:
                self._mailbox.wait(seen, deadline)

    def check_alive(self) -> None:
        """Raise what the network thread died of."""
        if self._mailbox.failure is not None:
            raise self._mailbox.failure

    def raise_wakeup(self) -> None:
        if self._mailbox.take_wakeup():
            raise WakeupError("wakeup() was called")
