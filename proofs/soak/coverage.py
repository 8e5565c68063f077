"""Which offsets of a partition were read, as runs: (first, end), the end not included."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Run: TypeAlias = tuple[int, int]


def runs_of(offsets: Iterable[int]) -> list[Run]:
    """The runs that these offsets make, in order. What is there twice makes a run of its own."""
    runs: list[Run] = []
    again: list[int] = []
    for offset in sorted(offsets):
        if runs and offset == runs[-1][1]:
            runs[-1] = (runs[-1][0], offset + 1)
        elif runs and offset < runs[-1][1]:
            again.append(offset)
        else:
            runs.append((offset, offset + 1))
    return [*runs, *(runs_of(again) if again else ())]


class Coverage:
    """What was read of one partition, by anybody.

    `again` counts records that were there already.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self.again = 0

    @property
    def read_up_to(self) -> int:
        """All in front of this offset were read."""
        return self._ends[0] if self._firsts and self._firsts[0] == 0 else 0

    def add(self, first: int, end: int) -> None:
        # Those from `left` to `right` touch it, and become one with it.
        left, right = bisect_left(self._ends, first), bisect_right(self._firsts, end)
        touched = list(zip(self._firsts[left:right], self._ends[left:right], strict=True))
        self.again += sum(max(0, min(end, theirs) - max(first, begins)) for begins, theirs in touched)
        merged = min([first, *(begins for begins, _ in touched)]), max([end, *(theirs for _, theirs in touched)])
        self._firsts[left:right], self._ends[left:right] = [merged[0]], [merged[1]]

    def missing(self, end: int) -> Sequence[Run]:
        """The runs in front of this end that nobody has read."""
        begins = [0, *self._ends]
        stops = [*self._firsts, end]
        return [(begin, min(stop, end)) for begin, stop in zip(begins, stops, strict=True) if begin < min(stop, end)]
