"""What a consumer's metrics are called in telemetry (KIP-714), and what is told of each: a number, a total, or what it
has grown by since the broker took the last one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

from kwire.metrics import MetricName
from kwire.protocol.otlp_metrics import Point, Temporality

PREFIX = "org.apache.kafka."
ALL = "*"
_CLIENT_ID = "client-id"  # the broker knows it
_TEXT_METRICS = frozenset({"version"})  # in Java texts, which are not told
_NS_PER_MS = 1_000_000


def telemetry_name(metric: MetricName) -> str:
    """As KIP-714 has it: "org.apache.kafka.consumer.fetch.manager.records.lag.max"."""
    group = metric.group.replace("-", ".").replace(".metrics", "")
    return f"{PREFIX}{group}.{metric.name.replace('-', '.')}"


def is_wanted(name: str, prefixes: Collection[str]) -> bool:
    """Whether a subscription to names that begin like that wants this one."""
    return tuple(prefixes) == (ALL,) or name.startswith(tuple(prefixes))


class PushedTotals:
    """The totals that the broker has taken, for the next to be told as differences.

    A total counts from the beginning of the consumer until it was first told, so nothing is left out.

    Args:
        started_ms: When the consumer was made, on the clock on the wall.
    """

    def __init__(self, started_ms: int) -> None:
        self._started_ms = started_ms
        self._told: dict[MetricName, float] = {}
        self._told_at_ms = started_ms
        self._on_the_way: tuple[dict[MetricName, float], int] | None = None

    def points(
        self, numbers: Mapping[MetricName, float], prefixes: Collection[str], wall_clock_ms: int, *, as_deltas: bool
    ) -> list[Point]:
        """What is to be told now. What is not a number is left out."""
        chosen = {
            metric: value
            for metric, value in numbers.items()
            if metric.name not in _TEXT_METRICS
            and not math.isnan(value)
            and is_wanted(telemetry_name(metric), prefixes)
        }
        self._on_the_way = chosen, wall_clock_ms
        return list(self._points(chosen, wall_clock_ms, as_deltas=as_deltas))

    def _points(self, chosen: Mapping[MetricName, float], wall_clock_ms: int, *, as_deltas: bool) -> Iterator[Point]:
        for metric, value in chosen.items():
            attributes = {word.replace("-", "_"): text for word, text in metric.tags if word != _CLIENT_ID}
            point = Point(telemetry_name(metric), attributes, value, wall_clock_ms * _NS_PER_MS)
            if not metric.name.endswith("-total"):
                yield point
            elif as_deltas:
                told = self._told.get(metric)
                since_ms = self._started_ms if told is None else self._told_at_ms
                yield point._replace(
                    value=value - (told or 0.0), started_ns=since_ms * _NS_PER_MS, temporality=Temporality.DELTA
                )
            else:
                started_ns = self._started_ms * _NS_PER_MS
                yield point._replace(started_ns=started_ns, temporality=Temporality.CUMULATIVE)

    def taken(self) -> None:
        """The broker has the newest points. Those it refused are part of the next difference."""
        if self._on_the_way is not None:
            told, self._told_at_ms = self._on_the_way
            self._told |= told
            self._on_the_way = None
