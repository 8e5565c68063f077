"""Metrics of consumers for Prometheus (`kwire[prometheus]`): a collector that reads them when it is scraped.

from prometheus_client import REGISTRY
REGISTRY.register(ConsumerCollector(consumer))
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from kwire.exporters.prometheus_names import EXPORTED, exported_as, label_names, metric_name
from kwire.exporters.source import MetricsSource, Sources
from kwire.metrics.catalogue import Description

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ImportError(
        "exporting to Prometheus needs prometheus_client; install it with: pip install 'kwire[prometheus]'"
    ) from error

__all__ = ["ConsumerCollector"]


class ConsumerCollector(Collector):
    """Collects the metrics of consumers. Has no thread, and keeps no consumer alive.

    Args:
        consumers: The consumers; others may be added later. If two have the same `client_id`, the label of the second
            one ends with "#2", since Prometheus tells consumers apart only by it. It keeps that when the first is
            closed.
    """

    def __init__(self, *consumers: MetricsSource) -> None:
        self._sources = Sources(*consumers)

    def add(self, consumer: MetricsSource) -> None:
        """Collect the metrics of this consumer as well."""
        self._sources.add(consumer)

    def remove(self, consumer: MetricsSource) -> None:
        """Do not collect the metrics of this consumer any more."""
        self._sources.remove(consumer)

    def describe(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """The names of the metrics, so that the registry can refuse duplicates."""
        return [_family(row) for row in EXPORTED.values()]

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """The current metrics, without those that are no numbers."""
        families: dict[Description, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, metrics in self._sources:
            for metric, value in metrics.items():
                row = exported_as(metric)
                if row is not None and not math.isnan(value):
                    family = families.get(row) or families.setdefault(row, _family(row))
                    family.add_metric([name, *(of for _, of in metric.tags[1:])], value)
        return families.values()


def _family(row: Description) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if row.is_counter else GaugeMetricFamily
    return kind(metric_name(row), row.text, labels=label_names(row))
