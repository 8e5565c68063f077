"""Sources of metrics: the consumers that exporters read, which they do not keep alive."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from kwire.metrics import MetricName


class MetricsSource(Protocol):
    """A consumer, as an exporter sees it. Called by the exporter's thread."""

    def metrics(self) -> Mapping[MetricName, float]:
        """The current metrics."""
        ...


class Sources:
    """The consumers that are read, by weak references: one without other references is dropped. One that is closed has
    totals only, until another one has its client id."""

    def __init__(self, *sources: MetricsSource) -> None:
        self._references = [weakref.ref(source) for source in sources]
        self._lock = threading.Lock()

    def add(self, source: MetricsSource) -> None:
        """Read this consumer as well. One that is added twice is read once."""
        with self._lock:
            self._references = [*self._without(source), weakref.ref(source)]

    def remove(self, source: MetricsSource) -> None:
        """Do not read this consumer any more."""
        with self._lock:
            self._references = self._without(source)

    def _without(self, source: MetricsSource) -> list[weakref.ref[MetricsSource]]:
        return [each for each in self._references if each() not in (source, None)]

    def __iter__(self) -> Iterator[tuple[str, Mapping[MetricName, float]]]:
        """The client id and the metrics of each. The second one of an id has "#2" behind it, and so on: two of one name
        would pass for one."""
        ended: list[Mapping[MetricName, float]] = []
        times: Counter[str] = Counter()
        for reference in self._references:  # replaced as a whole, so another thread may add to them
            if (source := reference()) is None or not (metrics := _exported(source)):
                continue
            if getattr(source, "_has_ended", False):
                ended.insert(0, metrics)
                continue
            client_id = _client_id(metrics)
            times[client_id] += 1
            yield client_id if times[client_id] == 1 else f"{client_id}#{times[client_id]}", metrics
        for metrics in ended:
            if (client_id := _client_id(metrics)) not in times:
                times[client_id] += 1
                yield client_id, metrics


def _exported(source: MetricsSource) -> Mapping[MetricName, float]:
    """What a consumer has for exporters, or whatever a source of another kind has."""
    read: Callable[[], Mapping[MetricName, float]] = getattr(source, "_exported_metrics", source.metrics)
    return read()


def _client_id(metrics: Mapping[MetricName, float]) -> str:
    return next(iter(metrics)).tags[0][1]
