"""Decodes the next fetch while the records of this one are handled, where the interpreter has no lock.

With the lock (GIL) a second thread of Python's gains nothing: it computes while the first one waits. So nothing is
decoded ahead then. What a thread without Python can do, `open_ahead.py` begins.

Contract: decoding ahead changes nothing but the time, because a decoded fetch depends on the fetch alone. Used by one
collector, in the application's thread.
"""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kwire.fetching.completed_fetch import CompletedFetch
    from kwire.fetching.open_fetch import OpenFetch


class DecodeAhead:
    """Decodes the next fetch in a thread. One fetch at a time. Each has a thread of its own: to start one takes a
    fiftieth of what decoding takes, and none is left when the consumer is closed.

    Args:
        decoded: Opens a fetch, and decodes the first portion of it.
    """

    def __init__(self, decoded: Callable[[CompletedFetch], OpenFetch]) -> None:
        self._decoded = decoded
        self._fetch: CompletedFetch | None = None
        self._result: Future[OpenFetch] = Future()

    def begin(self, fetches: Sequence[CompletedFetch]) -> None:
        """Decode the first of these, if there is one, and that has not begun."""
        fetch = fetches[0] if fetches else None
        if fetch is None or fetch is self._fetch:
            return
        result: Future[OpenFetch] = Future()
        try:
            Thread(target=self._decode, args=(fetch, result), name="kwire-decode").start()
        except RuntimeError:
            return  # the system has no thread left, or the interpreter ends: the collector decodes it
        self._fetch, self._result = fetch, result

    def take(self, fetch: CompletedFetch) -> OpenFetch | None:
        """The fetch, when it is decoded. None: nobody has begun, or it was taken before.

        Raises what decoding has raised, once: the next caller decodes the fetch itself.
        """
        if fetch is not self._fetch:
            return None
        result = self._result
        result.exception()  # waits; an exception of a signal handler leaves it to be taken
        self._fetch = None
        return result.result()

    def _decode(self, fetch: CompletedFetch, result: Future[OpenFetch]) -> None:
        try:
            result.set_result(self._decoded(fetch))
        except BaseException as error:  # noqa: BLE001  it is raised where the fetch is taken
            result.set_exception(error)
