"""The timeline's topmost lane: what was done, and below each fault how long it took until everything moved again.

Called by `timeline`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kwire.testing.faults.report.figures import duration, moment
from kwire.testing.faults.report.lane import Lane, Placed, place
from kwire.testing.faults.report.recovery import Judgement, Recovery
from kwire.testing.faults.report.spans import FaultSpan
from kwire.testing.faults.report.svg import Scale, element, number, rect, text

BAR = 13.0
STRIP = 3.0
ROW = BAR + STRIP + 4
# With more rows than this, bars are named without what they struck.
ROWS_OF_LONG_NAMES = 4

COLOURS: Mapping[Judgement, str] = {
    Judgement.IN_TIME: "well",
    Judgement.LATE: "late",
    Judgement.NEVER: "late",
    Judgement.UNBOUNDED: "unjudged",
    Judgement.CROWDED: "unjudged",
}


def fault_lane(recoveries: Sequence[Recovery], scale: Scale) -> Lane:
    """Bars with names, momentary ones as diamonds; by when they began."""
    placed = _placed(recoveries, [_named(each.fault) for each in recoveries], scale)
    if _rows(placed) > ROWS_OF_LONG_NAMES:
        placed = _placed(recoveries, [each.fault.fault for each in recoveries], scale)
    parts = [each for recovery, at in zip(recoveries, placed, strict=True) for each in _fault(recovery, at, scale)]
    return Lane(label="faults", height=_rows(placed) * ROW + 2, parts=tuple(parts), note=str(len(recoveries)))


def _named(fault: FaultSpan) -> str:
    """With the broker or the member that it struck, if the harness says so: "all for 5s: broker 0, 1, 2"."""
    target, _, struck = fault.detail.partition(": ")
    return f"{fault.fault} {struck}" if struck and not target.startswith("all") else fault.fault


def _placed(recoveries: Sequence[Recovery], names: Sequence[str], scale: Scale) -> list[Placed]:
    spans = [(each.fault.began_ms, each.fault.over_ms, name) for each, name in zip(recoveries, names, strict=True)]
    return place(spans, scale, [max(_well_ms(each, scale), _bound_ms(each)) for each in recoveries])


def _rows(placed: Sequence[Placed]) -> int:
    return 1 + max((at.row for at in placed), default=0)


def _well_ms(each: Recovery, scale: Scale) -> float:
    return scale.end_ms if each.took_ms is None else each.from_ms + each.took_ms


def _bound_ms(each: Recovery) -> float:
    return each.from_ms if each.bound_ms is None else each.from_ms + each.bound_ms


def _fault(recovery: Recovery, at: Placed, scale: Scale) -> Iterator[str]:
    fault, y = recovery.fault, at.row * ROW + 2
    when = moment(fault.began_ms)
    if fault.ended_ms is not None:
        when += f" to {moment(fault.ended_ms)}"
    told = f"{fault.fault}, {when}\n{fault.detail}".rstrip()
    if fault.ended_ms is None:
        yield element("path", "fault", title=told, d=f"M{number(at.x)} {y:g}l5 6.5l-5 6.5l-5 -6.5z")
    else:
        yield rect("fault", x=at.x, y=y, width=at.width, height=BAR, title=told)
    yield from _recovery(recovery, y + BAR + 1, scale)
    yield text(at.words, "in" if at.is_inside else "", x=at.text_x, y=y + 10, title=told)


def _recovery(each: Recovery, y: float, scale: Scale) -> Iterator[str]:
    """How long it took, on how long it was allowed to take."""
    told = _told(each)
    if each.bound_ms is not None:
        width = scale.width(each.from_ms, _bound_ms(each))
        yield rect("bound", x=scale.x(each.from_ms), y=y, width=width, height=STRIP, title=told)
    if each.took_ms != 0.0:
        width = scale.width(each.from_ms, _well_ms(each, scale))
        kind = COLOURS[each.judgement]
        yield rect(kind, x=scale.x(each.from_ms), y=y, width=width, height=STRIP, title=told)


def _told(each: Recovery) -> str:
    since = "the strike" if each.from_ms == each.fault.began_ms else "the heal"
    if each.took_ms is None:
        return f"{each.fault.fault}: {each.slowest} never moved again since {since}"
    allowed = "" if each.bound_ms is None else f" of {duration(each.bound_ms)}"
    slowest = "" if each.slowest is None else f"; slowest {each.slowest}"
    return f"{each.fault.fault}: recovered in {duration(each.took_ms)}{allowed} since {since}{slowest}"
