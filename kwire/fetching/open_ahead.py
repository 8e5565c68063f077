"""Opens the next fetches while the records of this one are handled, so that threads can inflate them.

Where the interpreter has no lock, `decode_ahead.py` does more. Contract: opening ahead changes nothing but the time.
Used by one collector, in the application's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kwire.fetching.completed_fetch import CompletedFetch
    from kwire.fetching.open_fetch import OpenFetch


MAX_FETCHES = 2
"""How many fetches are opened ahead. Of many partitions each fetch has a portion or less, and a single one that is
inflated ahead may come too late: with two, columns of 50 partitions come 5 to 12 % faster (measured)."""


class OpenAhead:
    """Opens the next fetches that a thread can inflate, until two portions are begun. Others are opened in their turn:
    opening reads all bytes of a fetch, and if they are decoded right after, they are still in the processor's cache.

    Args:
        opened: Opens a fetch.
    """

    def __init__(self, opened: Callable[[CompletedFetch], OpenFetch]) -> None:
        self._opened = opened
        self._fetches: Sequence[CompletedFetch] = ()
        self._next: dict[CompletedFetch, OpenFetch] = {}

    def begin(self, fetches: Sequence[CompletedFetch]) -> None:
        """Open these, which are next, in this order, unless another comes before them. Others are dropped."""
        if fetches == self._fetches:
            return
        before, self._fetches, self._next = self._next, fetches, {}
        for fetch in fetches:
            opened = before.get(fetch) or self._begun(fetch)
            if opened is None:
                break
            self._next[fetch] = opened
            if not opened.inflate_ahead():
                break  # it has a second portion, which is begun once the first is decoded

    def take(self, fetch: CompletedFetch) -> OpenFetch | None:
        """The fetch, if it was opened, and was not taken before."""
        return self._next.pop(fetch, None)

    def _begun(self, fetch: CompletedFetch) -> OpenFetch | None:
        return self._opened(fetch) if self._pays(fetch) else None

    def _pays(self, fetch: CompletedFetch) -> bool:
        from kwire.protocol.record_payloads import pays_ahead  # `import kwire` does without it

        return pays_ahead(fetch.records)
