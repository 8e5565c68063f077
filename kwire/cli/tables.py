"""Tables as text: columns are as wide as their cells, and numbers are aligned to the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GAP = "  "


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of a table. None is shown as a dash; columns of numbers are aligned to the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(headings, *cells, strict=True)]
    is_number = [all(cell is None or isinstance(cell, int) for cell in column) for column in zip(*rows, strict=True)]
    is_number = is_number or [False] * len(headings)
    for line in (headings, *cells):
        parts = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_number, strict=True)
        ]
        yield GAP.join(parts).rstrip()


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as 1 partition, 3 partitions."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _text(cell: object) -> str:
    return "-" if cell is None else str(cell)
