"""How long a thread that computes keeps the interpreter while kwire takes in, or decodes, records.

Calls that read, decrypt, check or inflate let go of the interpreter's lock, and have to get it back afterwards: a few
times for each batch of records. A thread that computes gives it away after the switch interval of the process, which
is 5 ms by default. So records would come at 5 to 20 MB/s beside such a thread (`scripts/bench tls`). While kwire is at
work the interval is shorter. Where no thread computes, nobody waits, and nothing changes.
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

SHORT_INTERVAL_S = 0.00005
"""With an interval twice as long, records come a third slower; with two fifths of it, no faster (measured)."""


class _SwitchInterval:
    """The interpreter's own, shortened while anybody wants it to be.

    It belongs to the process, and has many users: each connection and each consumer's polls. The first one that wants
    it short notes what it was, the last one puts that back, unless other code has set it meanwhile.
    """

    def __init__(self) -> None:
        self._before_s = sys.getswitchinterval()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._users = set[object]()

    def shorten_for(self, user: object) -> None:
        if user in self._users:  # as a rule, and each poll asks
            return
        with self._lock:
            if not self._users:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(SHORT_INTERVAL_S, self._before_s))
            self._users.add(user)

    def restore_for(self, user: object) -> None:
        with self._lock:
            if user in self._users:
                self._users.remove(user)
                self._restore_without_users()

    def begin_anew(self) -> None:
        """Forget all users, in the child of a fork: threads that wanted it short, or held the lock, do not exist."""
        had_users = bool(self._users)
        self._begin()
        if had_users:
            self._restore_without_users()

    def _restore_without_users(self) -> None:
        if not self._users and sys.getswitchinterval() <= SHORT_INTERVAL_S:
            sys.setswitchinterval(self._before_s)


_OF_PROCESS = _SwitchInterval()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OF_PROCESS.begin_anew)


class ShortSwitchInterval:
    """Shortens the interval for one user: between `shorten` and `restore`, or with it in a `with` statement.

    Calling `shorten` twice has the effect of calling it once. So an exception that prevents one `restore` does no harm:
    the next one makes up for it.
    """

    def shorten(self) -> None:
        _OF_PROCESS.shorten_for(self)

    def restore(self) -> None:
        _OF_PROCESS.restore_for(self)

    def __enter__(self) -> None:
        self.shorten()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.restore()


class PollsInARow:
    """Keeps the interval short over polls that follow each other quickly, and what is done with their records.

    To restore it after each would cost more than it gains: a thread that asks for the interpreter while it is short
    gets it soon after, and then keeps it for a long interval. An application that takes its time between polls has it
    restored by each poll that returns; one that stops polling, by the network thread. A loop of polls that do not wait
    is itself a thread that computes: in its long intervals a record would take twenty milliseconds.
    """

    QUICK_MS = 100.0

    def __init__(self) -> None:
        self._interval = ShortSwitchInterval()
        self._returned_at_ms = -self.QUICK_MS
        self._has_ended = False

    def collects(self) -> None:
        """A poll is about to collect records."""
        if not self._has_ended:
            self._interval.shorten()

    def returns(self, now_ms: float) -> None:
        """A poll returns with records, or without, because it was not to wait."""
        if now_ms - self._returned_at_ms > self.QUICK_MS:
            self._interval.restore()
        self._returned_at_ms = now_ms

    def finds_nothing(self) -> None:
        """A poll waits, or returns for news of something else."""
        self._interval.restore()

    def end(self) -> None:
        """Network thread: it ends, so nobody would look any more."""
        self._has_ended = True
        self._interval.restore()

    def look(self, now_ms: float) -> None:
        """Network thread: see whether the application has stopped polling."""
        if now_ms - self._returned_at_ms > self.QUICK_MS:
            self._interval.restore()
