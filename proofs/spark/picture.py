"""Draws what `kwire pipeline` showed on a terminal, from the metrics it wrote: three moments of one run, as an SVG.

    python -m proofs.spark.picture METRICS.jsonl docs/pipeline.svg

`scripts/prove spark-fresh-first --picture FILE` does it for its own run.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from kwire.cli.pipeline_output import Bars
from kwire.spark.pipeline.progress import Figures

WIDTH = 112
COMMAND = "$ kwire pipeline orders -b localhost:9092 --path /data/orders --fresh-first"
Line = Mapping[str, object]
# Fonts that a page would have to fetch from somewhere: any font of one width will do.
_FOREIGN = re.compile(r"@font-face \{.*?\}|<!--.*?-->", re.DOTALL)


def draw(lines: Sequence[Line], file: Path) -> None:
    """The first batch, half of the backfill, and the end, of the longest run that the metrics have."""
    run = longest_run(lines)
    console = Console(file=io.StringIO(), force_terminal=True, width=WIDTH, record=True)
    console.print(COMMAND, highlight=False)
    for title, end in moments(run):
        bars = Bars("orders", console)
        for line in run[: end + 1]:
            bars(figures(line))
        seconds = (number(run[end], "ended_ms") - number(run[0], "ended_ms") + number(run[0], "took_ms")) / 1000
        console.print(f"\n[dim]{title}, {seconds:.1f} s after the first batch began[/dim]", highlight=False)
        console.print(bars.progress)
    file.write_text(_FOREIGN.sub("", console.export_svg(title="kwire pipeline")))


def longest_run(lines: Sequence[Line]) -> Sequence[Line]:
    """Metrics are added to by each start, which counts its rows from 0 on."""
    starts = [index for index, line in enumerate(lines) if line["rows"] == line["rows_total"]]
    runs = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    return max(runs, key=len)


def moments(run: Sequence[Line]) -> list[tuple[str, int]]:
    """What to show of it: title, and number of the last batch."""
    most = max(number(line, "backfill") for line in run)
    half = next((index for index, line in enumerate(run) if number(line, "backfill") <= most / 2), len(run) - 1)
    done = next((index for index, line in enumerate(run) if not number(line, "backfill")), len(run) - 1)
    return [("The first batch", 0), ("Half of the backfill", half), ("All of it", done)]


def figures(line: Line) -> Figures:
    """What was shown when the line was written."""
    left = line["seconds_left"]
    return Figures(
        batch=int(number(line, "batch")),
        rows=int(number(line, "rows_total")),
        rate=number(line, "rows_per_second"),
        lag=int(number(line, "lag")),
        backfill=int(number(line, "backfill")),
        left_s=None if left is None else number(line, "seconds_left"),
    )


def number(line: Line, name: str) -> float:
    return float(str(line[name]))


if __name__ == "__main__":
    metrics, picture = map(Path, sys.argv[1:])
    draw([json.loads(line) for line in metrics.read_text().splitlines()], picture)
