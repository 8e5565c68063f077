"""Whether a program fails over the records it was handed: the sign is an exception that is being handled."""

from __future__ import annotations

import sys


class FailureWatch:
    """Tells whether the program fails over the records of the last poll. Asked in the thread, or the task, that
    polls."""

    def __init__(self) -> None:
        self._amid: BaseException | None = None
        """What was being handled when the last poll began. It is held, for the next exception may get its `id`."""

    def begin(self) -> None:
        """A poll begins: what is being handled now says nothing of what it returns."""
        self._amid = sys.exception()

    def end(self) -> None:
        self._amid = None

    def is_failing(self) -> bool:
        """Whether the caller is in an `except` or a `finally` over something that was raised since the last poll began:
        over what that returned, as far as anybody can tell."""
        error = sys.exception()
        return error is not None and error is not self._amid
