"""The little HTML the page is made of, as text. Everything that is not an element already is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from html import escape

STYLE = """
:root{color-scheme:light dark;--ink:#1f262d;--dim:#6c7681;--paper:#fff;--line:#d9dee3;--soft:#f4f6f8;
--bad:#c22525;--good:#2c7a45}
@media screen and (prefers-color-scheme:dark){
:root{--ink:#dce1e6;--dim:#98a2ad;--paper:#14181d;--line:#333b44;--soft:#1c2229;
--bad:#ff6b6b;--good:#6fcf8b}}
body{margin:0 auto;max-width:1200px;box-sizing:content-box;padding:24px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:32px 0 8px}
.verdict{font-size:18px;border-left:5px solid var(--good);padding:8px 14px;margin:14px 0;background:var(--soft)}
.verdict.failed{border-color:var(--bad)}
.dim{color:var(--dim)}.bad{color:var(--bad);font-weight:600}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:3px 18px 3px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--dim);font-weight:600}th,td:first-child{white-space:nowrap}
pre{font:12px/1.45 ui-monospace,"DejaVu Sans Mono",Menlo,monospace;background:var(--soft);padding:10px;margin:6px 0;
overflow-x:auto;white-space:pre-wrap}
.picture{overflow-x:auto}.picture svg{display:block;max-width:100%;height:auto}
details{margin:6px 0}summary{cursor:pointer}
@page{size:landscape;margin:12mm}
@media print{body{padding:0;font-size:12px;max-width:none}
details>*{display:block}h2{break-after:avoid}tr{break-inside:avoid}}
"""


def heading(words: str) -> str:
    return f"<h1>{escape(words)}</h1>"


def paragraph(words: str, kind: str = "") -> str:
    return f'<p class="{escape(kind)}">{escape(words)}</p>' if kind else f"<p>{escape(words)}</p>"


def verbatim(words: str) -> str:
    return f"<pre>{escape(words)}</pre>"


def section(heading: str, parts: Iterable[str]) -> str:
    """Nothing at all, if it would be empty."""
    content = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape(heading)}</h2>\n{content}\n</section>" if content else ""


def folded(heading: str, content: str, *, is_open: bool = False) -> str:
    """What one may open. `content` is HTML."""
    return f"<details{' open' if is_open else ''}><summary>{escape(heading)}</summary>\n{content}\n</details>"


def table(head: Sequence[str], lines: Sequence[Sequence[str]], bad: Set[tuple[int, int]] = frozenset()) -> str:
    """Args:
    bad: the cells to be marked, by line and column.
    """
    if not lines:
        return ""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, (row, column) in bad) for column, cell in enumerate(line)) + "</tr>"
        for row, line in enumerate(lines)
    )
    return f"<table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _cell(words: str, is_bad: bool) -> str:
    return f'<td class="bad">{escape(words)}</td>' if is_bad else f"<td>{escape(words)}</td>"


def document(title: str, parts: Iterable[str]) -> str:
    """A page that needs nothing from outside, and may not ask for it."""
    content = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{content}\n</body>\n</html>\n"
    )
