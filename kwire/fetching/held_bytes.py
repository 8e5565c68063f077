"""How many bytes the fetches of a buffer keep in memory. The buffer's lock guards all of it.

What came in one answer is there as a whole until the last fetch of it is released: all of them are views of one frame.

An exception of a signal handler may strike between any two lines of a release that the application thread runs. Only
`_answers` is right then, so everything else is counted again from it before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Container

    from kwire.fetching.completed_fetch import CompletedFetch
    from kwire.model import TopicPartition


@dataclass(slots=True, kw_only=True, eq=False)
class _HeldAnswer:
    """The fetches of one answer: those that are not released (`left`), and the size of the others, which the former
    keep in memory."""

    size_bytes: int
    left: set[CompletedFetch]
    released_bytes: int = 0


class HeldBytes:
    """Counts each fetch from `add` until `release`, and each answer until its last fetch is released.

    Attributes:
        has_run_out: Whether nothing was left of a partition at some time since the buffer set it back.
    """

    def __init__(self) -> None:
        self.has_run_out = False
        self._answers: dict[CompletedFetch, _HeldAnswer] = {}
        self._begun: set[_HeldAnswer] = set()  # some of it has been released, and some has not
        self._bytes: dict[TopicPartition, int] = {}
        self._size_bytes = 0
        self._is_counting = False

    def add(self, fetches: Collection[CompletedFetch]) -> None:
        """The fetches of one answer."""
        answer = _HeldAnswer(size_bytes=sum(len(fetch.records) for fetch in fetches), left=set(fetches))
        for fetch in fetches:
            tp, size_bytes = fetch.topic_partition, len(fetch.records)
            self._answers[fetch] = answer
            self._bytes[tp] = self._bytes.get(tp, 0) + size_bytes
            self._size_bytes += size_bytes

    def release(self, fetch: CompletedFetch) -> None:
        """A second call has no effect."""
        self._count_again_if_cut_short()
        self._is_counting = True
        answer = self._answers.pop(fetch, None)  # from here on it is released
        if answer is not None:
            self._discount(fetch, answer)
        self._is_counting = False

    def clear(self) -> None:
        self._size_bytes = 0
        for each in (self._answers, self._begun, self._bytes):
            each.clear()

    def total(self) -> int:
        self._count_again_if_cut_short()
        return self._size_bytes

    def partitions(self) -> Container[TopicPartition]:
        """Those of which something is not released."""
        self._count_again_if_cut_short()
        return self._bytes.keys()

    def without(self, withheld: Collection[TopicPartition]) -> int:
        """The total without fetches of `withheld`, and without released ones that only these keep in memory."""
        total_bytes = self.total()
        if not withheld:
            return total_bytes
        kept_bytes = sum(
            answer.released_bytes
            for answer in self._begun
            if all(fetch.topic_partition in withheld for fetch in answer.left)
        )
        return total_bytes - kept_bytes - sum(size for tp, size in self._bytes.items() if tp in withheld)

    def _discount(self, fetch: CompletedFetch, answer: _HeldAnswer) -> None:
        tp, size_bytes = fetch.topic_partition, len(fetch.records)
        self._bytes[tp] -= size_bytes
        if not self._bytes[tp]:
            del self._bytes[tp]
            self.has_run_out = True
        answer.left.remove(fetch)
        answer.released_bytes += size_bytes
        if answer.left:
            self._begun.add(answer)
        else:
            self._begun.discard(answer)
            self._size_bytes -= answer.size_bytes

    def _count_again_if_cut_short(self) -> None:
        if not self._is_counting:
            return
        self._bytes = {}
        left: dict[_HeldAnswer, set[CompletedFetch]] = {}
        for fetch, answer in self._answers.items():
            tp = fetch.topic_partition
            self._bytes[tp] = self._bytes.get(tp, 0) + len(fetch.records)
            left.setdefault(answer, set()).add(fetch)
        for answer, fetches in left.items():
            answer.left = fetches
            answer.released_bytes = answer.size_bytes - sum(len(fetch.records) for fetch in fetches)
        self._begun = {answer for answer in left if answer.released_bytes}
        self._size_bytes = sum(answer.size_bytes for answer in left)
        self.has_run_out = True  # perhaps: then nobody has noted it
        self._is_counting = False
