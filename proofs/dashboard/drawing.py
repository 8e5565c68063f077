"""Lines over time as SVG: one box for each panel of a dashboard, with the time of a fault shaded.

Not a picture of Grafana. Colours are of middle brightness and there is no background, so it reads on light and on dark
pages.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proofs.dashboard.panels import Series

COLUMNS = 3
BOX_WIDTH, BOX_HEIGHT = 400, 190
LEFT, TOP, RIGHT, BOTTOM = 52, 30, 12, 46
HEAD_HEIGHT = 30
MAX_NAMED = 4
MAX_LETTERS = 55
TEXT = "#7b848f"
COLOURS = ("#6f9bd1", "#e8833a", "#5aa469", "#a07cc5", "#3fa7a3", "#d277a8", "#8f9a3c", "#a8795a")


class Box(NamedTuple):
    """One panel."""

    title: str
    unit: str
    lines: Sequence[Series]


class Span(NamedTuple):
    """A time that is shaded, in seconds since 1970."""

    name: str
    start_s: float
    end_s: float


def draw(title: str, boxes: Sequence[Box], spans: Sequence[Span], start_s: float, end_s: float) -> str:
    """The picture as text."""
    rows = math.ceil(len(boxes) / COLUMNS)
    width, height = COLUMNS * BOX_WIDTH, HEAD_HEIGHT + rows * BOX_HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="11" fill="{TEXT}">'
    )
    parts = [
        head,
        f'<text x="8" y="20" font-size="14" font-weight="600">{escape(title)}</text>',
    ]
    for number, box in enumerate(boxes):
        x, y = number % COLUMNS * BOX_WIDTH, HEAD_HEIGHT + number // COLUMNS * BOX_HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *_box(box, spans, start_s, end_s), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(box: Box, spans: Sequence[Span], start_s: float, end_s: float) -> Iterator[str]:
    greatest = max((value for line in box.lines for _, value in line.points if math.isfinite(value)), default=0.0)
    top = _round_up(greatest)
    width, height = BOX_WIDTH - LEFT - RIGHT, BOX_HEIGHT - TOP - BOTTOM

    def place(at_s: float, value: float) -> str:
        x = LEFT + width * (at_s - start_s) / (end_s - start_s)
        return f"{x:.1f},{TOP + height * (1 - min(1.0, max(0.0, value) / top)):.1f}"

    for span in spans:
        x = LEFT + width * (span.start_s - start_s) / (end_s - start_s)
        wide = width * (span.end_s - span.start_s) / (end_s - start_s)
        yield f'<rect x="{x:.1f}" y="{TOP}" width="{wide:.1f}" height="{height}" fill="#7d6b91" fill-opacity=".15"/>'
    title = box.title if len(box.title) <= MAX_LETTERS else f"{box.title[: MAX_LETTERS - 1]}…"
    yield f'<text x="{LEFT}" y="20" font-weight="600">{escape(title)}</text>'
    for share in (0.0, 0.5, 1.0):
        y = TOP + height * (1 - share)
        yield f'<path d="M{LEFT} {y:.1f}h{width}" stroke="{TEXT}" stroke-opacity=".3"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{shown(top * share, box.unit)}</text>'
    for number, line in enumerate(box.lines):
        colour = COLOURS[number % len(COLOURS)]
        for points in _unbroken(line):
            way = " ".join(place(*point) for point in points)
            yield f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    yield from _legend(box)


def _legend(box: Box) -> Iterator[str]:
    """The names of the first lines, two beside each other."""
    for number, line in enumerate(box.lines[:MAX_NAMED]):
        x = LEFT + number % 2 * (BOX_WIDTH - LEFT) // 2
        y = BOX_HEIGHT - BOTTOM + 17 + number // 2 * 14
        yield f'<rect x="{x}" y="{y - 8}" width="8" height="8" fill="{COLOURS[number % len(COLOURS)]}"/>'
        more = f", and {len(box.lines) - MAX_NAMED} more" if number == MAX_NAMED - 1 < len(box.lines) - 1 else ""
        yield f'<text x="{x + 12}" y="{y}">{escape(line.name + more)}</text>'


def _unbroken(line: Series) -> Iterator[list[tuple[float, float]]]:
    """The parts of a line that have numbers."""
    part: list[tuple[float, float]] = []
    for at_s, value in line.points:
        if math.isfinite(value) and (not part or at_s - part[-1][0] < 5.0):
            part.append((at_s, value))
            continue
        if part:
            yield part
        part = [(at_s, value)] if math.isfinite(value) else []
    if part:
        yield part


def _round_up(greatest: float) -> float:
    """To 1, 2 or 5 of a power of ten."""
    if greatest <= 0.0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(greatest))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= greatest)


def shown(value: float, unit: str) -> str:
    """With the dashboard's unit."""
    if unit == "percentunit":
        return f"{value:.0%}"
    endings = {"Bps": " B/s", "rps": "/s", "reqps": "/s", "ms": " ms", "s": " s"}
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}{endings.get(unit, '')}"
    return f"{value:g}{endings.get(unit, '')}"
