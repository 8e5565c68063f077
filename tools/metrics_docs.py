"""`python -m tools.metrics_docs`: writes the table of all metrics into docs/metrics.md."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.exporters.opentelemetry_names import name_of
from kwire.exporters.prometheus_names import EXPORTED, metric_name
from kwire.metrics.catalogue import CATALOGUE, Description

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
MARK = "<!-- written by python -m tools.metrics_docs, do not edit -->\n"


def page() -> str:
    """The page with the table as it has to be."""
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return head + MARK + "".join(_tables())


def _tables() -> Iterator[str]:
    for (group, tags), rows in groupby(CATALOGUE, key=lambda each: each[:2]):
        yield f"\n### `{group}`{_of(tags)}\n\n| name | what it is | Prometheus | OpenTelemetry |\n|---|---|---|---|\n"
        for row in rows:
            yield _row(row)


def _of(tags: tuple[str, ...]) -> str:
    return f", of each {' and '.join(tags)}" if tags else ""


def _row(row: Description) -> str:
    exported = metric_name(row) if row in EXPORTED.values() else ""
    return f"| {row.name} | {row.text} | {_code(exported)} | {_code(name_of(row))} |\n"


def _code(name: str) -> str:
    return f"`{name}`" if name else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
