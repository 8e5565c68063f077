"""Sets of offsets, kept as ranges: what is done or left to do of a log. Pure.

A set of a million offsets is a few numbers, and a hole in it two more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter

_START, _STOP = attrgetter("start"), attrgetter("stop")


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
        at = bisect_right(self, offset, key=_START) - 1
        return at >= 0 and offset in self[at]

    def __or__(self, more: Iterable[range]) -> OffsetSet:
        """The offsets of both."""
        return OffsetSet((*self, *more))

    def __sub__(self, taken: Iterable[range]) -> OffsetSet:
        """The offsets of this set that are not in the other one."""
        holes = taken if isinstance(taken, OffsetSet) else OffsetSet(taken)
        if not self or not holes:
            return self
        first, last = self._indices(holes[0].start, holes[-1].stop)
        left, at = [*self[:first]], 0
        for each in self[first:last]:
            start = each.start
            while at < len(holes) and holes[at].start < each.stop:
                if start < holes[at].start:
                    left.append(range(start, holes[at].start))
                start = max(start, holes[at].stop)
                if start > each.stop:  # the next range may begin in this hole
                    break
                at += 1
            if start < each.stop:
                left.append(range(start, each.stop))
        return _in_order((*left, *self[last:]))

    def within(self, bounds: range) -> OffsetSet:
        """The offsets inside `bounds`."""
        first, last = self._indices(bounds.start, bounds.stop)
        found = [*self[first:last]] if bounds else []
        if found:
            found[0] = range(max(found[0].start, bounds.start), found[0].stop)
            found[-1] = range(found[-1].start, min(found[-1].stop, bounds.stop))
        return _in_order(found)

    def below(self, offset: int) -> OffsetSet:
        """The offsets in front of this one."""
        return self.within(range(self[0].start, offset)) if self else self

    def _indices(self, begin: int, end: int) -> tuple[int, int]:
        """Which of its ranges overlap those offsets, as the bounds of a slice. By bisection: there may be tens of
        thousands of ranges, and each poll asks."""
        first = bisect_right(self, begin, key=_STOP)
        return first, bisect_left(self, end, lo=first, key=_START)

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
        """The range that a commit of `offset` speaks of: the last one that begins in front of `offset`. None if none
        does."""
        return next((each for each in reversed(self) if each.start < offset), None)


def _in_order(ranges: Iterable[range]) -> OffsetSet:
    """The set of these: in order, none empty, none touching the next."""
    return tuple.__new__(OffsetSet, ranges)


NO_OFFSETS = OffsetSet()
