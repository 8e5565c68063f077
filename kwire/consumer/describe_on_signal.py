"""`describe_on_signal`: a process that is sent a signal prints how its consumers stand.

The handler only starts a thread, by `_thread.start_new_thread`, which takes no lock of Python's: the thread that the
handler interrupts may hold any lock. The new thread finds out what to print, and waits for locks like any other.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
from types import FrameType

from kwire.consumer.live import live_consumers
from kwire.errors import IllegalStateError

DEFAULT_SIGNAL = "SIGUSR1"


def describe_on_signal(signum: int | None = None) -> None:
    """From now on, print `describe()` of all consumers of this process to stderr when it gets a signal.

    `kwire describe PID` sends the signal. This replaces the signal's handler. While the main thread is in a C function
    that does not return, nothing is printed: Python runs signal handlers between its own instructions.

    Args:
        signum: The signal; None for SIGUSR1.

    Raises:
        IllegalStateError: This is not the main thread, which alone can install handlers, or there is no such signal.
    """
    if signum is None:
        signum = getattr(signal, DEFAULT_SIGNAL, None)
        if signum is None:
            raise IllegalStateError(f"this system has no {DEFAULT_SIGNAL}: say which signal to describe consumers on")
    try:
        signal.signal(signum, _on_signal)
    except ValueError as error:
        raise IllegalStateError(f"describe_on_signal() has to be called in the main thread: {error}") from error


def _on_signal(_signum: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(RuntimeError):  # no more threads can be started: the interrupted code must not pay for it
        _thread.start_new_thread(_print_pages, ())


def _print_pages() -> None:
    if sys.stderr is None:
        return
    sys.stderr.write(pages())
    sys.stderr.flush()


def pages() -> str:
    """How all consumers of this process stand."""
    found = [page for consumer in live_consumers.all() if (page := consumer.page()) is not None]
    count = "no consumer" if not found else "1 consumer" if len(found) == 1 else f"{len(found)} consumers"
    return "\n\n".join([f"kwire: {count} in process {os.getpid()}", *found]) + "\n"
