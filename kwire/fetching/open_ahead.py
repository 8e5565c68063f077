"""Opens the next fetch while the records of this one are handled, so that a thread can inflate what comes first of it.

Where the interpreter has no lock, `decode_ahead.py` does more. Contract: opening ahead changes nothing but the time.
Used by one collector, in the application's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.fetching.buffer import CompletedFetch
    from kwire.fetching.open_fetch import OpenFetch


class OpenAhead:
    """One fetch at a time, if a thread can inflate it. Others are opened in their turn: opening reads all bytes of a
    fetch, and when they are decoded right after, they are still in the processor's cache.

    Args:
        opened: Opens a fetch.
    """

    def __init__(self, opened: Callable[[CompletedFetch], OpenFetch]) -> None:
        self._opened = opened
        self._fetch: CompletedFetch | None = None
        self._next: OpenFetch | None = None

    def begin(self, fetch: CompletedFetch | None) -> None:
        """This one is next, unless another comes before it. None: nothing is, and nothing is kept."""
        if fetch is self._fetch:
            return
        self._next, self._fetch = None, fetch
        if fetch is not None and self._pays(fetch):
            opened = self._opened(fetch)
            opened.inflate_ahead()
            self._next = opened

    def take(self, fetch: CompletedFetch) -> OpenFetch | None:
        """The fetch, if it was opened, and was not taken before."""
        if fetch is not self._fetch:
            return None
        opened = self._next
        self._next = self._fetch = None
        return opened

    def _pays(self, fetch: CompletedFetch) -> bool:
        from kwire.protocol.record_payloads import pays_ahead  # `import kwire` does without it

        return pays_ahead(fetch.records)
