"""Which offsets of a partition were read, as runs: (first, end), the end not included."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kwire.offset_set import OffsetSet

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
    """The offsets of one partition that any member has read.

    `again` counts records that were there already.
    """

    def __init__(self) -> None:
        self._read = OffsetSet()
        self.again = 0

    @property
    def read_up_to(self) -> int:
        """All in front of this offset were read."""
        return self._read[0].stop if self._read.covers(0) else 0

    def add(self, first: int, end: int) -> None:
        run = range(first, end)
        self.again += self._read.within(run).size
        self._read |= [run]

    def missing(self, end: int) -> Sequence[Run]:
        """The runs in front of this end that nobody has read."""
        return [(run.start, run.stop) for run in OffsetSet([range(end)]) - self._read]
