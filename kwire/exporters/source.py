"""Sources of metrics: the consumers that exporters read, which they do not keep alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Protocol

from kwire.metrics import MetricName


class MetricsSource(Protocol):
    """A consumer, as an exporter sees it. Called by the exporter's thread."""

    def metrics(self) -> Mapping[MetricName, float]:
        """The current metrics."""
        ...


class Sources:
    """The consumers that are read, by weak references: one without other references is dropped."""

    def __init__(self, *sources: MetricsSource) -> None:
        self._references = [weakref.ref(source) for source in sources]

    def add(self, source: MetricsSource) -> None:
        """Read this consumer as well. One that is added twice is read once."""
        self.remove(source)
        self._references = [*self._references, weakref.ref(source)]

    def remove(self, source: MetricsSource) -> None:
        """Do not read this consumer any more."""
        self._references = [each for each in self._references if each() not in (source, None)]

    def __iter__(self) -> Iterator[Mapping[MetricName, float]]:
        """The metrics of each."""
        for reference in self._references:  # replaced as a whole, so another thread may add to them
            source = reference()
            if source is not None:
                yield source.metrics()
