"""Bars as SVG, for the README: panels side by side, each with a scale of its own, spread as a line at a bar's end.

Colours are of middle brightness and there is no background, so the picture reads on light and on dark pages. Called by
`cli.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PER_LINE = 3
PANEL_WIDTH = 390
LABEL_WIDTH = 158
NUMBER_WIDTH = 70
BAR_HEIGHT = 14
BAR_STEP = 21
TITLE_HEIGHT = 34
GAP = 16
TEXT_COLOUR = "#7b848f"
OWN_COLOUR = "#e8833a"
PEER_COLOUR = "#6f9bd1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One value with its spread, and how it is written."""

    label: str
    value: float
    least: float
    most: float
    text: str
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Bars with a common scale."""

    title: str
    bars: tuple[Bar, ...]


def draw(title: str, panels: Sequence[Panel]) -> str:
    """The picture as text."""
    lines = (len(panels) + PER_LINE - 1) // PER_LINE
    height = TITLE_HEIGHT + max((len(panel.bars) for panel in panels), default=0) * BAR_STEP + GAP
    size = (PANEL_WIDTH * min(PER_LINE, max(1, len(panels))), TITLE_HEIGHT + lines * height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" '
        f'height="{size[1]}" role="img" font-family="system-ui, sans-serif" font-size="12" fill="{TEXT_COLOUR}">'
    )
    parts = [
        head,
        f"<title>{escape(title)}</title>",
        f'<text x="8" y="20" font-size="14" font-weight="600">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        x, y = number % PER_LINE * PANEL_WIDTH, TITLE_HEIGHT + number // PER_LINE * height
        parts += [f'<g transform="translate({x} {y})">', *_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> Iterator[str]:
    yield f'<text x="8" y="20" font-weight="600">{escape(panel.title)}</text>'
    room = PANEL_WIDTH - LABEL_WIDTH - NUMBER_WIDTH - GAP
    longest = max((bar.most for bar in panel.bars), default=0.0) or 1.0
    for number, bar in enumerate(panel.bars):
        yield from _bar(bar, TITLE_HEIGHT + number * BAR_STEP, room / longest)


def _bar(bar: Bar, y: int, per_unit: float) -> Iterator[str]:
    middle, text_y = y + BAR_HEIGHT / 2, y + BAR_HEIGHT - 3
    colour = OWN_COLOUR if bar.own else PEER_COLOUR
    weight = ' font-weight="600"' if bar.own else ""
    width, least, most = (value * per_unit for value in (bar.value, bar.least, bar.most))
    yield f'<text x="{LABEL_WIDTH - 6}" y="{text_y}" text-anchor="end"{weight}>{escape(bar.label)}</text>'
    yield f'<rect x="{LABEL_WIDTH}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" rx="2" fill="{colour}"/>'
    yield (
        f'<path d="M{LABEL_WIDTH + least:.1f} {middle}H{LABEL_WIDTH + most:.1f}" '
        f'stroke="{TEXT_COLOUR}" stroke-width="1.5"/>'
    )
    yield f'<text x="{LABEL_WIDTH + most + 6:.1f}" y="{text_y}"{weight}>{escape(bar.text)}</text>'
