"""A run as one picture: what was done to it, who was there, who had which partition, and how far that was read.

SVG as text, 1,200 pixels wide, readable by itself and inside a page. What happens within a pixel is one mark, so its
size depends on the numbers of lanes, not of events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from kwire.model import TopicPartition
from kwire.testing.faults.report.fault_lane import fault_lane
from kwire.testing.faults.report.figures import counted, duration
from kwire.testing.faults.report.lane import Lane
from kwire.testing.faults.report.lanes import (
    member_colours,
    member_lanes,
    partition_lanes,
    violation_lane,
)
from kwire.testing.faults.report.progress import Track, follow
from kwire.testing.faults.report.recovery import recoveries
from kwire.testing.faults.report.run import FaultRun
from kwire.testing.faults.report.spans import FaultSpan, ends_ms, fault_spans, member_spans, owner_spans
from kwire.testing.faults.report.svg import (
    LEFT,
    LETTER_WIDTH,
    PLOT,
    STYLE,
    WIDTH,
    Scale,
    element,
    number,
    rect,
    shortened,
    text,
)
from kwire.testing.invariants.ledger import Calm, Closing, Ledger, Quiet

AXIS = 24.0
BETWEEN = 8.0
LEGEND_LINE = 17.0
LEGEND = 9 + 2 * LEGEND_LINE
# Between two figures on the axis there have to be this many pixels.
TICK_ROOM = 56.0
TICKS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600)


def timeline(run: FaultRun, tracks: Mapping[TopicPartition, Track] | None = None) -> str:
    """Args:
    tracks: what `follow` has made of the run's ledger, if that is known already.
    """
    tracks = follow(run.ledger) if tracks is None else tracks
    scale = Scale(ends_ms(run.ledger))
    faults = fault_spans(run.ledger)
    above = [fault_lane(recoveries(faults, tracks, run.expected), scale), *_violations(run, scale)]
    members, partitions = _below(run, tracks, scale)
    top = AXIS + _height(above) + BETWEEN
    middle = top + _height(members) + BETWEEN
    foot = middle + _height(partitions) + BETWEEN
    parts = [
        *_shades(faults, scale, top, foot),
        *_axis(scale, foot),
        *_phases(run.ledger, scale, foot),
        *_stacked(above, AXIS),
        *_stacked(members, top),
        *_stacked(partitions, middle),
        *_legend(foot + AXIS),
    ]
    return _picture(
        f"{run.name}: {counted(len(faults), 'fault')} in {duration(scale.end_ms)}", foot + AXIS + LEGEND, parts
    )


def _picture(name: str, height: float, parts: Iterable[str]) -> str:
    picture = element(
        "svg",
        "tl",
        inner=[f"<title>{escape(name)}</title><style>{STYLE}</style>", *parts],
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {number(height)}",
        width=WIDTH,
        height=height,
        role="img",
    )
    return picture + "\n"


def _violations(run: FaultRun, scale: Scale) -> list[Lane]:
    return [violation_lane(run.violations, scale)] if run.violations else []


def _below(run: FaultRun, tracks: Mapping[TopicPartition, Track], scale: Scale) -> tuple[list[Lane], list[Lane]]:
    """Members, and partitions in their colours."""
    members = member_spans(run.ledger)
    peaks: dict[str, int] = {}
    for sample in run.memory:
        peaks[sample.member] = max(peaks.get(sample.member, 0), sample.resident_bytes)
    owners, colours = owner_spans(run.ledger), member_colours(members)
    return (
        member_lanes(members, run.ledger, peaks, run.violations, scale),
        partition_lanes(tracks, owners, colours, run.violations, run.silence_limit_ms, scale),
    )


def _height(lanes: Iterable[Lane]) -> float:
    return sum(lane.height for lane in lanes)


def _stacked(lanes: Iterable[Lane], y: float) -> Iterator[str]:
    """Each with its name on the left and its figure on the right."""
    for lane in lanes:
        middle = min(lane.height / 2 + 4, 18)
        yield element(
            "g",
            inner=[
                element("path", "grid", d=f"M0 {number(lane.height - 0.5)}H{WIDTH}"),
                *lane.parts,
                text(shortened(lane.label, LEFT - 14), "end", x=LEFT - 8, y=middle, title=lane.title or lane.label),
                text(lane.note, "dim end", x=WIDTH - 4, y=middle) if lane.note else "",
            ],
            transform=f"translate(0 {number(y)})",
        )
        y += lane.height


def _axis(scale: Scale, foot: float) -> Iterator[str]:
    """Times above and below, with lines through everything."""
    end_s = scale.end_ms / 1000
    step_s = next((step for step in TICKS_S if step * PLOT / (end_s or 1) >= TICK_ROOM), TICKS_S[-1])
    for position in range(int(end_s / step_s) + 1):
        at_s = position * step_s
        x = number(scale.x(at_s * 1000))
        yield element("path", "grid", d=f"M{x} {AXIS:g}V{number(foot)}")
        words = f"{int(at_s) // 60}:{int(at_s) % 60:02}" if step_s >= 1 else f"{at_s:.1f} s"
        for y in (AXIS - 12, foot + 12):
            yield text(words, "dim mid", x=scale.x(at_s * 1000), y=y)
    for y in (AXIS - 2, foot):
        yield element("path", "rule", d=f"M{LEFT} {number(y)}H{LEFT + PLOT}")


def _shades(faults: Sequence[FaultSpan], scale: Scale, top: float, foot: float) -> Iterator[str]:
    """Behind members and partitions, so that one sees what happened to them while a fault was at work."""
    for fault in faults:
        x = scale.x(fault.began_ms)
        if fault.ended_ms is None:
            yield element("path", "strike", d=f"M{number(x)} {number(top)}V{number(foot)}")
        else:
            yield rect("shade", x=x, y=top, width=scale.width(fault.began_ms, fault.ended_ms), height=foot - top)


def _phases(ledger: Ledger, scale: Scale, foot: float) -> Iterator[str]:
    for event in ledger.events:
        if isinstance(event, (Quiet, Calm, Closing)):
            x, name = scale.x(event.at_ms), type(event).__name__.lower()
            yield element("path", "phase", title=name, d=f"M{number(x)} {AXIS - 4:g}V{number(foot + 16)}")
            yield text(name, "dim", x=x + 3, y=foot + 22)


LEGEND_WORDS = (
    ("well", "M-6 -3h8v3h-8z", "until all moved again"),
    ("bound", "M-6 -3h12v3h-12z", "allowed"),
    ("key", "M0 -9v11", "assigned"),
    ("key", "M0 -4v6", "revoked"),
    ("gone", "M0 -4v6", "lost"),
    ("gone", "M-4 -7l8 8m0 -8l-8 8", "killed, died"),
    ("lag", "M-6 1v-3h4v-4h4v7z", "unread records (and their most)"),
    ("read", "M-6 1l12 -8", "delivered"),
    ("silence", "M-6 -3h12v4h-12z", "unread, nothing came"),
    ("bad", "M-5 1l5 -9l5 9z", "violation"),
)


def _legend(y: float) -> Iterator[str]:
    """In lines, as far as the picture goes to the right."""
    x = begin = LEFT + 6.0
    for kind, path, words in LEGEND_WORDS:
        width = 34 + len(words) * LETTER_WIDTH
        if x + width > WIDTH:
            x, y = begin, y + LEGEND_LINE
        yield element("path", kind, transform=f"translate({number(x)} {number(y + 16)})", d=path)
        yield text(words, "dim", x=x + 10, y=y + 16)
        x += width
