"""A run as SVG: a panel for each figure, a line for each member, and a mark at each fault.

There is no background and colours are of middle brightness, so the picture reads on light and on dark pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from proofs.soak.slopes import FIGURES, thinned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proofs.soak.faults import Strike
    from proofs.soak.slopes import Point

WIDTH, PANEL_HEIGHT, PLOT_HEIGHT = 860, 130, 88
LEFT, RIGHT, TOP = 70, 20, 64
TEXT_COLOUR, FAULT_COLOUR = "#7b848f", "#7b848f"
COLOURS = {"sync": "#e8833a", "async": "#c0504d", "processor": "#4f9d69", "parallel": "#8064a2", "control": "#6f9bd1"}
LABELS = {"control": "control (confluent-kafka)"}


def draw(
    title: str, points: Mapping[str, Mapping[str, Sequence[Point]]], strikes: Sequence[Strike], duration_s: float
) -> str:
    """The picture as text. `points`: by figure, then by member."""
    height = TOP + len(FIGURES) * PANEL_HEIGHT + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="12" fill="{TEXT_COLOUR}">'
    )
    parts = [
        head,
        f"<title>{escape(title)}</title>",
        f'<text x="8" y="20" font-size="14" font-weight="600">{escape(title)}</text>',
    ]
    parts += _legend()
    across = Across(duration_s)
    for number, figure in enumerate(FIGURES):
        parts.append(f'<g transform="translate(0 {TOP + number * PANEL_HEIGHT})">')
        name = f"{figure.name}, {figure.unit}" if figure.unit else figure.name
        parts += [*_panel(name, points.get(figure.name, {}), strikes, across), "</g>"]
    parts += _hours(across, height)
    return "\n".join([*parts, "</svg>", ""])


class Across:
    """Where a time is."""

    def __init__(self, duration_s: float) -> None:
        self.duration_s = duration_s or 1.0

    def at(self, at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * at_s / self.duration_s


def _legend() -> Iterator[str]:
    x = 8
    for way, colour in COLOURS.items():
        label = LABELS.get(way, way)
        yield f'<rect x="{x}" y="34" width="12" height="4" fill="{colour}"/><text x="{x + 18}" y="41">{label}</text>'
        x += 40 + 7 * len(label)
    yield f'<path d="M{x} 32V42" stroke="{FAULT_COLOUR}" stroke-opacity="0.5"/><text x="{x + 8}" y="41">a fault</text>'


def _panel(
    name: str, members: Mapping[str, Sequence[Point]], strikes: Sequence[Strike], across: Across
) -> Iterator[str]:
    yield f'<text x="8" y="10" font-weight="600">{escape(name)}</text>'
    values = sorted(point.value for found in members.values() for point in thinned(found))
    # What a fault does to a latency would press all else to the ground.
    top = 1.1 * values[int(0.98 * (len(values) - 1))] if values else 1.0
    top = top or 1.0
    for share in (0.0, 0.5, 1.0):
        y = _down(share * top, top)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{TEXT_COLOUR}" stroke-opacity="0.25"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * top:.3g}</text>'
    for strike in strikes:
        x = across.at(strike.begin_s)
        yield f'<path d="M{x:.1f} 18V{18 + PLOT_HEIGHT}" stroke="{FAULT_COLOUR}" stroke-opacity="0.35"/>'
    for way, found in members.items():
        path = "L".join(
            f"{across.at(point.at_s):.1f} {_down(min(point.value, top), top):.1f}" for point in thinned(found)
        )
        yield f'<path d="M{path}" fill="none" stroke="{COLOURS.get(way, TEXT_COLOUR)}" stroke-width="1.4"/>'


def _down(value: float, top: float) -> float:
    return 18 + PLOT_HEIGHT * (1 - value / top)


def _hours(across: Across, height: int) -> Iterator[str]:
    step_s = 600.0 if across.duration_s < 3 * 3600 else 3600.0
    at_s = 0.0
    while at_s <= across.duration_s:
        yield f'<text x="{across.at(at_s):.1f}" y="{height - 8}" text-anchor="middle">{_clock(at_s)}</text>'
        at_s += step_s


def _clock(at_s: float) -> str:
    return f"{int(at_s // 3600)}:{int(at_s % 3600 // 60):02d}"
