"""What the catching up does to sets of offsets, beside what `kwire.offset_ranges` has for everybody."""

from __future__ import annotations

from kwire.offset_ranges import Ranges, normal, without

NOTHING: Ranges = ()


def add(ranges: Ranges, more: range) -> Ranges:
    """The set, and these offsets with it."""
    return normal((*ranges, more))


def cut(ranges: Ranges, gone: range) -> Ranges:
    """The set without these offsets."""
    return without(ranges, (gone,) if gone else ())


def below(ranges: Ranges, offset: int) -> Ranges:
    """What of the set lies in front of an offset."""
    return normal(range(each.start, min(each.stop, offset)) for each in ranges)


def holding(ranges: Ranges, offset: int) -> range | None:
    """The range that a commit of `offset` speaks of: the last one that begins in front of it. None: it lies in front of
    them all."""
    return next((each for each in reversed(ranges) if each.start < offset), None)
