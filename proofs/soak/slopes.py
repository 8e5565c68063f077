"""Whether a figure grows: its slope over the hours, and how steep it may be.

The slope is Theil and Sen's, the median of the slopes between all pairs of points, which a few wild points do not move.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_S = 3600.0
MAX_POINTS = 400


@dataclass(frozen=True, slots=True)
class Point:
    at_s: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure that may not grow.

    Args:
        limit_per_hour: how steep it may be: in its unit, or of its own middle if `is_share`.
        beside_control: whether it is divided by the control's at the same time: it depends on what the machine does.
        in_calm: whether it is only looked at where no fault is near.
    """

    name: str
    unit: str
    limit_per_hour: float
    is_share: bool = False
    beside_control: bool = False
    in_calm: bool = False

    @property
    def limit(self) -> str:
        return f"{self.limit_per_hour:.0%}" if self.is_share else f"{self.limit_per_hour:g} {self.unit}".strip()


FIGURES = (
    Figure(name="memory", unit="MiB", limit_per_hour=2.0),
    Figure(name="objects", unit="thousand", limit_per_hour=2.0),
    Figure(name="malloc", unit="MiB", limit_per_hour=0.5),
    Figure(name="threads", unit="", limit_per_hour=0.2),
    Figure(name="descriptors", unit="", limit_per_hour=0.5),
    Figure(name="cpu a record", unit="us", limit_per_hour=0.05, is_share=True, beside_control=True, in_calm=True),
    Figure(name="latency p50", unit="ms", limit_per_hour=0.10, is_share=True, beside_control=True, in_calm=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one figure of one member.

    Args:
        middle: its median over the time that is judged, in its unit.
        per_hour: its slope: as the limit is given.
        is_promise: whether it may break one: the control is only told.
    """

    member: str
    figure: Figure
    middle: float
    per_hour: float
    is_promise: bool = True

    @property
    def is_broken(self) -> bool:
        return self.is_promise and self.per_hour > self.figure.limit_per_hour

    @property
    def slope(self) -> str:
        if self.figure.is_share:
            return f"{self.per_hour:+.1%}"
        return f"{self.per_hour:+.2f} {self.figure.unit}".strip()


def judge(
    member: str, figure: Figure, points: Sequence[Point], control: Sequence[Point], *, from_s: float
) -> Verdict | None:
    """None if there is too little to judge.

    Args:
        points: of the member, without those near a fault if that is asked for.
        control: the same of the control.
        from_s: when it was warm.
    """
    judged = [point for point in points if point.at_s >= from_s]
    compared = beside(judged, control) if figure.beside_control else judged
    if len(compared) < 3:
        return None
    slope = slope_per_hour(compared)
    if figure.is_share:
        slope /= median(point.value for point in compared)
    return Verdict(member=member, figure=figure, middle=median(point.value for point in judged), per_hour=slope)


def beside(points: Sequence[Point], control: Sequence[Point]) -> list[Point]:
    """Each divided by the control's at the same time; without those that have no such."""
    at_s = {point.at_s: point.value for point in control}
    return [Point(point.at_s, point.value / at_s[point.at_s]) for point in points if at_s.get(point.at_s)]


def slope_per_hour(points: Sequence[Point]) -> float:
    thin = thinned(points)
    slopes = [
        (later.value - sooner.value) / (later.at_s - sooner.at_s)
        for sooner, later in combinations(thin, 2)
        if later.at_s > sooner.at_s
    ]
    return median(slopes) * HOUR_S if slopes else 0.0


def thinned(points: Sequence[Point]) -> list[Point]:
    """No more than `MAX_POINTS`: neighbours become their middle."""
    each = -(-len(points) // MAX_POINTS)
    groups = [points[at : at + each] for at in range(0, len(points), each)] if points else []
    return [Point(median(p.at_s for p in group), median(p.value for p in group)) for group in groups]
