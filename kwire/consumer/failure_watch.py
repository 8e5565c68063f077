"""Whether a program fails over the records it was handed: the signs are an exception that is being handled, and a task
of asyncio that was told to end."""

from __future__ import annotations

import sys


class FailureWatch:
    """Tells whether the program fails over the records of the last poll. Asked in the thread, or the task, that
    polls."""

    def __init__(self) -> None:
        self._amid: BaseException | None = None
        """What was being handled when the last poll began. It is held, for the next exception may get its `id`."""
        self._cancellations = 0

    def begin(self) -> None:
        """A poll begins: what is being handled now says nothing of what it returns."""
        self._amid = sys.exception()
        self._cancellations = _cancellations()

    def end(self) -> None:
        self._amid = None

    def is_failing(self) -> bool:
        """Whether the caller is in an `except` or a `finally` over something that was raised since the last poll began:
        over what that returned, as far as anybody can tell. Or its task was cancelled since: it may have caught that
        (`except CancelledError: pass`), but has not gone on."""
        error = sys.exception()
        return (error is not None and error is not self._amid) or _cancellations() > self._cancellations


def _cancellations() -> int:
    """How often the task of asyncio that runs was told to end, without those that were taken back, as by
    `asyncio.timeout`."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return 0
    task = asyncio.current_task()
    return 0 if task is None else int(task.cancelling())
