"""Sets of offsets, kept as ranges: what is done or left to do of a log. Pure.

A set of a million offsets is a few numbers, and a hole in it two more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class OffsetSet(tuple[range, ...]):
    """An immutable set of offsets: the tuple of its ranges, in order, none empty, none touching the next.

    Args:
        ranges: Any ranges with step 1. Those that overlap or touch become one.
    """

    __slots__ = ()

    def __new__(cls, ranges: Iterable[range] = ()) -> OffsetSet:
        found: list[range] = []
        for each in sorted((each for each in ranges if each), key=lambda each: each.start):
            if found and each.start <= found[-1].stop:
                found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
            else:
                found.append(range(each.start, each.stop))
        return super().__new__(cls, found)

    @property
    def size(self) -> int:
        """How many offsets are in it."""
        return sum(map(len, self))

    def covers(self, offset: int) -> bool:
        """Whether the offset is in it."""
        at = bisect_right(self, offset, key=lambda each: each.start) - 1
        return at >= 0 and offset in self[at]

    def __or__(self, more: Iterable[range]) -> OffsetSet:
        """The offsets of both."""
        return OffsetSet((*self, *more))

    def __sub__(self, taken: Iterable[range]) -> OffsetSet:
        """Without the offsets of another set."""
        holes = OffsetSet(taken)
        left: list[range] = []
        for each in self:
            start = each.start
            for hole in holes:
                if hole.stop <= start or hole.start >= each.stop:
                    continue
                left.append(range(start, hole.start))
                start = hole.stop
            left.append(range(start, each.stop))
        return OffsetSet(left)

    def within(self, bounds: range) -> OffsetSet:
        """The offsets inside `bounds`."""
        return OffsetSet(range(max(each.start, bounds.start), min(each.stop, bounds.stop)) for each in self)

    def below(self, offset: int) -> OffsetSet:
        """The offsets in front of this one."""
        return OffsetSet(range(each.start, min(each.stop, offset)) for each in self)

    def first(self, many: int) -> OffsetSet:
        """Its `many` lowest offsets, or all if there are fewer."""
        found: list[range] = []
        for each in self:
            if many <= 0:
                break
            found.append(each[:many])
            many -= len(found[-1])
        return OffsetSet(found)

    def range_before(self, offset: int) -> range | None:
        """The range that a commit of `offset` speaks of: the last one that begins in front of it. None: it lies in
        front of them all."""
        return next((each for each in reversed(self) if each.start < offset), None)


NO_OFFSETS = OffsetSet()
