"""Metrics as a table for people: a line each, by group and by what they are of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import groupby

from kwire.metrics.names import MetricName


def format_metrics(metrics: Mapping[MetricName, float]) -> str:
    """Lines of a name and a number, below a line for each group. What is not a number is left out."""
    return "\n".join(_lines({metric: value for metric, value in metrics.items() if not math.isnan(value)}))


def _lines(metrics: Mapping[MetricName, float]) -> Iterator[str]:
    width = max((len(metric.name) for metric in metrics), default=0)
    for (group, tags), found in groupby(sorted(metrics, key=_order), key=lambda metric: (metric.group, metric.tags)):
        yield " ".join([group, *(f"{word}={value}" for word, value in tags)])
        for metric in found:
            yield f"  {metric.name:<{width}}  {_number(metrics[metric])}"


def _order(metric: MetricName) -> tuple[str, tuple[tuple[str, int, str], ...], str]:
    """Partition 10 behind partition 9."""
    tags = tuple((word, int(value) if value.isdecimal() else 0, value) for word, value in metric.tags)
    return metric.group, tags, metric.name


def _number(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.3f}"
