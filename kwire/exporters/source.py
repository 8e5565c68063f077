"""Sources of metrics: the consumers that exporters read, which they do not keep alive."""

from __future__ import annotations

import itertools
import threading
import weakref
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
    totals only, until another one has its name."""

    def __init__(self, *sources: MetricsSource) -> None:
        self._references = [weakref.ref(source) for source in sources]
        self._names: weakref.WeakKeyDictionary[MetricsSource, str] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def add(self, source: MetricsSource) -> None:
        """Read this consumer as well. One that is added twice is read once."""
        with self._lock:
            self._references = [*self._without(source), weakref.ref(source)]

    def remove(self, source: MetricsSource) -> None:
        """Do not read this consumer any more."""
        with self._lock:
            self._references = self._without(source)
            self._names.pop(source, None)

    def _without(self, source: MetricsSource) -> list[weakref.ref[MetricsSource]]:
        return [each for each in self._references if each() not in (source, None)]

    def __iter__(self) -> Iterator[tuple[str, Mapping[MetricName, float]]]:
        """The name and the metrics of each: its client id, with "#2" behind it for the second one that is open, and so
        on, since two of one name would pass for one. It keeps the name, so that no total jumps when another one is
        closed."""
        ended: list[tuple[MetricsSource, Mapping[MetricName, float]]] = []
        taken: set[str] = set()
        for reference in self._references:  # replaced as a whole, so another thread may add to them
            if (source := reference()) is None or not (metrics := _exported(source)):
                continue
            if _has_ended(source):
                ended.insert(0, (source, metrics))
                continue
            name = self._name_of(source, _client_id(metrics))
            taken.add(name)
            yield name, metrics
        for source, metrics in ended:
            if (name := self._names.get(source, _client_id(metrics))) not in taken:
                taken.add(name)
                yield name, metrics

    def _name_of(self, source: MetricsSource, client_id: str) -> str:
        with self._lock:
            if (known := self._names.get(source)) is not None:
                return known
            taken = {name for other, name in self._names.items() if not _has_ended(other)}
            numbered = (f"{client_id}#{number}" for number in itertools.count(2))
            self._names[source] = next(name for name in itertools.chain((client_id,), numbered) if name not in taken)
            return self._names[source]


def _has_ended(source: MetricsSource) -> bool:
    return bool(getattr(source, "_has_ended", False))


def _exported(source: MetricsSource) -> Mapping[MetricName, float]:
    """What a consumer has for exporters, or whatever a source of another kind has."""
    read: Callable[[], Mapping[MetricName, float]] = getattr(source, "_exported_metrics", source.metrics)
    return read()


def _client_id(metrics: Mapping[MetricName, float]) -> str:
    return next(iter(metrics)).tags[0][1]
