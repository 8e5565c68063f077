"""Sets of offsets as ranges: sorted, none empty, none touching the next. Pure; what is done or left to do of a log.

A set of a million offsets is a few numbers, and a hole in it two more. Everything here takes and answers such sets;
`normal` makes one of any ranges.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

MAP_PREFIX = "kwire2:"
"""What metadata of a commit begins with that says what is finished behind its offset (`kwire.processing.offset_map`);
nobody else's begins like that. The number is the version of what follows."""
Ranges: TypeAlias = tuple[range, ...]
"""`[start, stop)` each, in order, with at least one offset between two of them that is in neither."""


def normal(ranges: Iterable[range]) -> Ranges:
    """All offsets of any ranges, as a set. Ranges that overlap or touch become one."""
    found: list[range] = []
    for each in sorted((each for each in ranges if each), key=lambda each: each.start):
        if found and each.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
        else:
            found.append(range(each.start, each.stop))
    return tuple(found)


def without(ranges: Ranges, taken: Ranges) -> Ranges:
    """What is left of a set when another one is taken out of it."""
    left: list[range] = []
    for each in ranges:
        start = each.start
        for hole in taken:
            if hole.stop <= start or hole.start >= each.stop:
                continue
            left.append(range(start, hole.start))
            start = hole.stop
        left.append(range(start, each.stop))
    return tuple(each for each in left if each)


def within(ranges: Ranges, bounds: range) -> Ranges:
    """What lies inside `bounds`."""
    cut = (range(max(each.start, bounds.start), min(each.stop, bounds.stop)) for each in ranges)
    return tuple(each for each in cut if each)


def count(ranges: Ranges) -> int:
    """How many offsets are in it."""
    return sum(map(len, ranges))


def first(ranges: Ranges, many: int) -> Ranges:
    """Its `many` lowest offsets, or all if there are fewer."""
    found: list[range] = []
    for each in ranges:
        if many <= 0:
            break
        found.append(each[:many])
        many -= len(found[-1])
    return tuple(found)
