"""What exporters read: consumers, which they do not keep alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Protocol

from kwire.metrics import MetricName


class MetricsSource(Protocol):
    """A consumer, as an exporter sees it. Asked from the exporter's thread."""

    def metrics(self) -> Mapping[MetricName, float]:
        """The numbers of this moment."""
        ...


class Sources:
    """Those that are read. One that nobody else holds any more is gone by itself."""

    def __init__(self, *sources: MetricsSource) -> None:
        self._references = [weakref.ref(source) for source in sources]

    def add(self, source: MetricsSource) -> None:
        """Read this one as well. Nothing happens the second time."""
        self.remove(source)
        self._references = [*self._references, weakref.ref(source)]

    def remove(self, source: MetricsSource) -> None:
        """Read it no longer."""
        self._references = [each for each in self._references if each() not in (source, None)]

    def __iter__(self) -> Iterator[Mapping[MetricName, float]]:
        """The metrics of each."""
        for reference in self._references:  # replaced as a whole, so another thread may add to them
            source = reference()
            if source is not None:
                yield source.metrics()
