"""Loads what decoding needs, above all numpy, while something else goes on: it takes about as long as the first answer.

It is loaded in a thread of its own, where no signal handler runs: an exception in the middle would leave half a numpy,
which cannot be imported again in this process. A program that ends meanwhile waits for the thread, since half of numpy
cannot be taken down either. A fork waits as well: its child would have half of numpy, and an import lock that nobody
releases.
"""

from __future__ import annotations

import os
from functools import cache
from threading import Event, Thread
from typing import TYPE_CHECKING

from kwire.logs import part_logger
from kwire.switch_interval import ShortSwitchInterval

if TYPE_CHECKING:
    from kwire.fetching.open_fetch import OpenFetch

log = part_logger("fetch")

_loaded = Event()
_loading: Thread | None = None


def begin_loading() -> None:
    """Begin, unless it has begun."""
    global _loading  # noqa: PLW0603
    if not _loaded.is_set() and (_loading is None or not _loading.is_alive()):
        thread = Thread(target=_load, name="kwire-load", daemon=False)
        try:
            thread.start()
        except RuntimeError:
            return  # the system has no thread left: the first that needs it loads it
        _loading = thread


def finish_loading() -> None:
    """Wait until it is loaded, if that has begun."""
    if not _loaded.is_set() and _loading is not None:
        _loading.join()


@cache
def loaded_open_fetch() -> type[OpenFetch]:
    """The class that decodes a fetch, and all it needs. Kept: for a fetch of one record an import statement is much."""
    begin_loading()
    finish_loading()
    from kwire.fetching.open_fetch import OpenFetch

    return OpenFetch


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=finish_loading)


def _load() -> None:
    try:
        with ShortSwitchInterval():
            import fastcrc  # noqa: F401

            import kwire.fetching.open_fetch  # noqa: F401
    except Exception:  # the process has no file descriptor left, perhaps
        log.debug("cannot be loaded ahead: the first that needs it loads it, or raises why", exc_info=True)
        return
    _loaded.set()
