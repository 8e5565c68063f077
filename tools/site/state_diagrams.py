"""A Sphinx extension: a Mermaid state diagram becomes an SVG in the page, without a script from elsewhere.

States stand below each other, in the order in which they are named. An arc on the right leads down, one on the left up;
pointing at an arc shows its events. Only what `tools.draw_states` writes is understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol
from xml.sax.saxutils import escape

ROW = 64
BOX_WIDTH, BOX_HEIGHT = 260, 28
MIDDLE = 430
REACH = 30
TEXT_SIZE = 11
_ARROW = re.compile(r"^\s*(?P<source>\S+) --> (?P<target>\w+)(: (?P<label>.*))?$")


@dataclass(frozen=True, slots=True)
class Arrow:
    """From state to state; the source of the first one is None."""

    source: str | None
    target: str
    label: str


def arrows_of(text: str) -> tuple[Arrow, ...]:
    """The arrows of a diagram, in its order."""
    found = (_ARROW.match(line) for line in text.splitlines())
    return tuple(
        Arrow(None if match["source"] == "[*]" else match["source"], match["target"], match["label"] or "")
        for match in found
        if match
    )


def drawn(text: str) -> str:
    """The diagram as SVG."""
    arrows = arrows_of(text)
    rows = _rows(arrows)
    height = ROW * len(rows) + ROW // 2
    parts = [_box(state, row, is_first=row == 0) for state, row in rows.items()]
    parts += [_arc(arrow, rows) for arrow in arrows if arrow.source is not None]
    parts += _labels(arrows, rows)
    return (
        f'<svg class="state-diagram" role="img" viewBox="0 0 {2 * MIDDLE} {height}" width="100%" '
        f'font-family="sans-serif" font-size="{TEXT_SIZE}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#6f9bd1"/></marker></defs>'
        f"{''.join(parts)}</svg>"
    )


def _rows(arrows: tuple[Arrow, ...]) -> Mapping[str, int]:
    """Where each state stands: as it is reached from the first one, nearest first."""
    (first,) = (arrow.target for arrow in arrows if arrow.source is None)
    rows = {first: 0}
    queue = [first]
    for state in queue:
        for arrow in arrows:
            if arrow.source == state and arrow.target not in rows:
                rows[arrow.target] = len(rows)
                queue.append(arrow.target)
    unreached = {arrow.source for arrow in arrows if arrow.source is not None} - rows.keys()
    return {**rows, **{state: len(rows) + number for number, state in enumerate(sorted(unreached))}}


def _centre(row: int) -> int:
    return ROW * row + ROW // 2


def _box(state: str, row: int, *, is_first: bool) -> str:
    left, top = MIDDLE - BOX_WIDTH // 2, _centre(row) - BOX_HEIGHT // 2
    width = 3 if is_first else 1
    return (
        f'<rect x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="none" stroke="#7b848f" '
        f'stroke-width="{width}"/><text x="{MIDDLE}" y="{_centre(row) + 4}" text-anchor="middle" '
        f'fill="currentColor" font-weight="bold">{escape(state)}</text>'
    )


def _arc(arrow: Arrow, rows: Mapping[str, int]) -> str:
    source, target = rows[arrow.source or ""], rows[arrow.target]
    title = f"<title>{escape(f'{arrow.source} to {arrow.target}: {arrow.label}')}</title>"
    style = 'fill="none" stroke="#6f9bd1" marker-end="url(#tip)"'
    side = 1 if target >= source else -1
    edge = MIDDLE + side * BOX_WIDTH // 2
    if source == target:
        y = _centre(source)
        bend = edge + REACH
        return f'<path d="M{edge},{y - 7} C{bend},{y - 16} {bend},{y + 16} {edge},{y + 7}" {style}>{title}</path>'
    start, end = _centre(source) + side * 5, _centre(target) - side * 5
    bend = edge + side * REACH * abs(target - source)
    return f'<path d="M{edge},{start} C{bend},{start} {bend},{end} {edge},{end}" {style}>{title}</path>'


def _labels(arrows: tuple[Arrow, ...], rows: Mapping[str, int]) -> Iterator[str]:
    """Events of arrows to the state just below: there is room for them between the boxes."""
    for arrow in arrows:
        if arrow.source is not None and rows[arrow.target] == rows[arrow.source] + 1:
            y = (_centre(rows[arrow.source]) + _centre(rows[arrow.target])) // 2 + 4
            yield f'<text x="{MIDDLE}" y="{y}" text-anchor="middle" fill="#7b848f">{escape(arrow.label)}</text>'


class _Application(Protocol):
    """What an extension uses of Sphinx, which is installed only where the site is built."""

    def add_directive(self, name: str, cls: type[object]) -> None: ...


def setup(app: _Application) -> dict[str, bool]:
    """What Sphinx calls."""
    from docutils import nodes
    from docutils.parsers.rst import Directive

    class StateDiagram(Directive):  # type: ignore[misc]  # it has no types
        has_content = True

        def run(self) -> list[nodes.Node]:
            return [nodes.raw("", drawn("\n".join(self.content)), format="html")]

    app.add_directive("mermaid", StateDiagram)
    return {"parallel_read_safe": True}
