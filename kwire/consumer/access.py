"""One thread at a time: the guard around every call of a consumer except `wakeup()`.

Re-entrant, because callbacks run inside `poll()` and may use the consumer.
"""

from __future__ import annotations

from threading import Lock, current_thread, get_ident
from types import TracebackType

from kwire.errors import ConcurrentModificationError


class AccessGuard:
    """Enter it with `with`; a second thread is refused at once, it never waits."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner = 0
        self._owner_name = ""
        self._depth = 0

    def __enter__(self) -> None:
        if self._owner != get_ident():
            if not self._lock.acquire(blocking=False):
                raise ConcurrentModificationError(
                    f"this consumer is being used by thread {self._owner_name!r}; thread {current_thread().name!r} "
                    "must not use it at the same time (only wakeup() may be called from another thread)"
                )
            self._owner, self._owner_name = get_ident(), current_thread().name
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = 0
            self._lock.release()
