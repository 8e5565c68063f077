"""What metrics are called in Prometheus: as Micrometer calls those of Java's clients, so that its dashboards fit.

Java has many numbers of a client, of each of its topics, and of each partition. Under one name, sums over these would
be too large by as many times, so only those of the smallest part are exported: the others are their sums and extremes.
"""

from __future__ import annotations

from kwire.metrics.catalogue import CATALOGUE, Description
from kwire.metrics.names import MetricName


def metric_name(row: Description) -> str:
    """Its name; a counter's ends in `_total`."""
    group = row.group.removesuffix("-metrics")
    return f"kafka_{group}_{row.name}".replace("-", "_")


def label_names(row: Description) -> tuple[str, ...]:
    """What tells its numbers apart."""
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
    """The row that a number is exported by, if it is."""
    row = EXPORTED[metric.group, metric.name]
    return row if len(row.tags) == len(metric.tags) - 1 else None
