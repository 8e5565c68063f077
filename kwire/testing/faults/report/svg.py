"""SVG as text: elements, the scale of time, and the picture's colours. Everything that is text is escaped here.

Colours are of middle brightness, those of the README's charts first, so that they read on light and on dark pages;
what has to differ is said in the style sheet, and print is always light.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

WIDTH = 1200
LEFT = 132
RIGHT = 68
PLOT = WIDTH - LEFT - RIGHT
# Of letters in the picture's small type, a little more than they take on average.
LETTER_WIDTH = 6.4

# Of members; those that run at the same time have different ones, up to their number. None looks like an alarm.
COLOURS = ("#6f9bd1", "#e8833a", "#5aa469", "#a07cc5", "#3fa7a3", "#d277a8", "#8f9a3c", "#a8795a")

STYLE = """
.tl{font:11px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#333c46}
.tl .dim{fill:#6c7681}.tl .head{font-weight:600}.tl .end{text-anchor:end}.tl .mid{text-anchor:middle}
.tl .on{fill:#14181d;font-weight:600;stroke:#fff;stroke-opacity:.5;stroke-width:3px;paint-order:stroke}
.tl .in{fill:#fff;font-weight:600}
.tl .grid{stroke:#8a939d;stroke-opacity:.22}.tl .rule{stroke:#8a939d;stroke-opacity:.5}
.tl .phase{stroke:#6c7681;stroke-dasharray:3 3}
.tl .fault{fill:#7d6b91}.tl .shade{fill:#7d6b91;fill-opacity:.08}
.tl .strike{stroke:#7d6b91;stroke-opacity:.45;stroke-dasharray:2 3}
.tl .bound{fill:#7b848f;fill-opacity:.3}.tl .well{fill:#2f9e55}.tl .late{fill:#d42a2a}.tl .unjudged{fill:#7b848f}
.tl .lag{fill:#2b323a;fill-opacity:.62}.tl .read{fill:none;stroke:#2b323a;stroke-opacity:.5}
.tl .own{fill-opacity:.17}.tl .frozen{fill:#fff;fill-opacity:.68}
.tl .key{stroke:#7b848f;stroke-width:1.5}.tl .tick{stroke:#14181d;stroke-width:1.5}
.tl .gone{stroke:#c62f2f;stroke-width:2}
.tl .silent{fill:#d39e00;fill-opacity:.34}.tl .silence{fill:#d39e00}
.tl .bad{fill:#d42a2a}
@media screen and (prefers-color-scheme:dark){
.tl{fill:#d5dae0}.tl .dim{fill:#98a2ad}.tl .in{fill:#14181d}
.tl .lag{fill:#e6eaee;fill-opacity:.6}.tl .read{stroke:#e6eaee}.tl .frozen{fill:#14181d}
.tl .fault{fill:#a893c0}.tl .shade{fill:#a893c0;fill-opacity:.12}.tl .strike{stroke:#a893c0}
.tl .phase{stroke:#98a2ad}.tl .gone{stroke:#ff6b6b}.tl .bad{fill:#ff5a5a}
}
@media print{.tl{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""


@dataclass(frozen=True, slots=True)
class Scale:
    """From milliseconds of the run to pixels."""

    end_ms: float

    def x(self, at_ms: float) -> float:
        return LEFT + PLOT * min(max(at_ms / (self.end_ms or 1.0), 0.0), 1.0)

    def width(self, from_ms: float, to_ms: float) -> float:
        """At least one pixel: what happened is to be seen."""
        return max(1.0, self.x(to_ms) - self.x(from_ms))


def number(value: float) -> str:
    """As short as it can be: "12.5", "7"."""
    return f"{value:.1f}".removesuffix(".0")


def element(name: str, kind: str = "", *, title: str = "", inner: Iterable[str] = (), **attributes: float | str) -> str:
    """Args:
    kind: its classes.
    title: what is shown when the pointer rests on it.
    inner: elements.
    attributes: underscores become hyphens.
    """
    values = {"class": kind} if kind else {}
    for key, value in attributes.items():
        values[key.replace("_", "-")] = value if isinstance(value, str) else number(value)
    head = " ".join([name, *(f"{key}={quoteattr(value)}" for key, value in values.items())])
    told = f"<title>{escape(title)}</title>" if title else ""
    content = told + "".join(inner)
    return f"<{head}>{content}</{name}>" if content else f"<{head}/>"


def text(words: str, kind: str = "", *, x: float, y: float, title: str = "") -> str:
    return element("text", kind, title=title, inner=[escape(words)], x=x, y=y)


def rect(
    kind: str,
    *,
    x: float,
    y: float,
    width: float,
    height: float,
    title: str = "",
    fill: str = "",
) -> str:
    """Args:
    fill: a colour, if its class does not say it.
    """
    more = {"fill": fill} if fill else {}
    return element("rect", kind, title=title, inner=(), x=x, y=y, width=width, height=height, **more)


def shortened(words: str, room: float) -> str:
    """With its middle left out, if it does not fit: the ends of names differ."""
    letters = max(3, int(room / LETTER_WIDTH))
    if len(words) <= letters:
        return words
    tail = letters // 2
    return f"{words[: letters - tail - 1]}\N{HORIZONTAL ELLIPSIS}{words[-tail:]}"
