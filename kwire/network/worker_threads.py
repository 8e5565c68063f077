"""What trio asks worker threads to do: look-ups of names, and calls of code that may block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class NoWorkerThreadError(OSError):
    """The system starts no more threads: a limit of processes is reached, by this program or by others. It passes: what
    needed the thread is tried again."""


@contextmanager
def worker_thread_needed(purpose: str) -> Iterator[None]:
    """trio starts a worker thread within this block.

    Raises:
        NoWorkerThreadError: It cannot be started. trio passes on what Python says then, a RuntimeError, which would
            count as a bug.
    """
    try:
        yield
    except RuntimeError as error:
        if "new thread" not in str(error):  # "can't start new thread", and another one while the interpreter ends
            raise
        raise NoWorkerThreadError(f"no thread can be started to {purpose}: {error}") from error
