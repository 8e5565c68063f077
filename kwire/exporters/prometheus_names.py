"""Names of metrics in Prometheus: those that Micrometer gives to metrics of Java's clients, so that dashboards for it
fit.

Java has many metrics for the client, for each topic, and for each partition. Under one name, a sum over all of these
would count values several times, so only the most detailed ones are exported: the others are their sums and extremes.
"""

from __future__ import annotations

from kwire.metrics.catalogue import CATALOGUE, Description
from kwire.metrics.names import MetricName


def metric_name(row: Description) -> str:
    """The name of a metric; that of a counter ends in `_total`."""
    group = row.group.removesuffix("-metrics")
    return f"kafka_{group}_{row.name}".replace("-", "_")


def label_names(row: Description) -> tuple[str, ...]:
    """The labels of a metric."""
    return tuple(tag.replace("-", "_") for tag in ("client-id", *row.tags))


def _smallest() -> dict[tuple[str, str], Description]:
    found: dict[tuple[str, str], Description] = {}
    for row in CATALOGUE:
        other = found.get((row.group, row.name))
        if other is None or len(other.tags) < len(row.tags):
            found[row.group, row.name] = row
    return found


EXPORTED = _smallest()
"""By group and name."""


def exported_as(metric: MetricName) -> Description | None:
    """The row by which a metric is exported, if it is."""
    row = EXPORTED[metric.group, metric.name]
    return row if len(row.tags) == len(metric.tags) - 1 else None
