"""`Future` with kafka-python's API: the result of `commit_async`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from kwire.interrupts import is_of_signal_handler

log = logging.getLogger("kwire.compat")


class Future:
    """The result of a call that does not wait. The thread that uses the consumer completes it and calls the callbacks.

    Attributes:
        is_done: Whether it is complete.
        value: The result; `exception` is the error, if the call has failed.
    """

    def __init__(self) -> None:
        self.is_done = False
        self.value: Any = None
        self.exception: Exception | None = None
        self._waiting: list[Callable[[], None]] = []

    def succeeded(self) -> bool:
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        return self.is_done and self.exception is not None

    def add_callback(self, f: Callable[..., object], *args: object, **kwargs: object) -> Self:
        """Add a function to call with these arguments and the value."""
        return self._when_done(lambda: f(*args, self.value, **kwargs) if self.succeeded() else None)

    def add_errback(self, f: Callable[..., object], *args: object, **kwargs: object) -> Self:
        """Add a function to call with these arguments and the exception."""
        return self._when_done(lambda: f(*args, self.exception, **kwargs) if self.failed() else None)

    def add_both(self, f: Callable[..., object], *args: object, **kwargs: object) -> Self:
        return self.add_callback(f, *args, **kwargs).add_errback(f, *args, **kwargs)

    def end(self, value: object, exception: Exception | None) -> None:
        self.value, self.exception, self.is_done = None if exception else value, exception, True
        for call in self._waiting:
            call()
        self._waiting.clear()

    def _when_done(self, call: Callable[[], object]) -> Self:
        if self.is_done:
            _logged(call)
        else:
            self._waiting.append(partial(_logged, call))
        return self


def _logged(call: Callable[[], object]) -> None:
    """Call a function of the program. If it raises, that is logged."""
    try:
        call()
    except Exception as error:
        if is_of_signal_handler(error):
            raise
        log.exception("a callback of a commit has failed")
