"""Imports what takes long in a thread of its own, while something else goes on.

No signal handler runs there: an exception in the middle would leave half a module, which, if it is numpy, cannot be
imported again in this process. A program that ends meanwhile waits for the thread, since half of numpy cannot be taken
down either. A fork waits as well: its child would have half a module, and an import lock that nobody releases.
"""

from __future__ import annotations

import os
from importlib import import_module
from threading import Thread

from kwire.logs import part_logger
from kwire.switch_interval import ShortSwitchInterval

log = part_logger("fetch")


class ImportApart:
    """Some modules, by their names: kwire's own, or those of libraries that it needs."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.is_done = False
        """Whether all are imported. If one cannot be, the code that needs it imports it again, and raises why."""
        self._thread: Thread | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.finish)

    def begin(self) -> None:
        """Begin, unless it has begun."""
        if not self.is_done and (self._thread is None or not self._thread.is_alive()):
            thread = Thread(target=self._import, name="kwire-load", daemon=False)
            try:
                thread.start()
            except RuntimeError:
                return  # the system has no thread left: the first that needs them imports them
            self._thread = thread

    def finish(self) -> None:
        """Wait until it is done, if it has begun."""
        if not self.is_done and self._thread is not None:
            self._thread.join()

    def _import(self) -> None:
        try:
            with ShortSwitchInterval():
                for name in self._names:
                    import_module(name)
        except Exception:  # the process has no file descriptor left, perhaps
            log.debug("%s cannot be imported ahead", self._names, exc_info=True)
            return
        self.is_done = True
