"""The catching up as metrics: of each partition with a lag, which offsets, how far, how fast, and how much longer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from kwire.metrics.names import CATCH_UP_GROUP, MetricName
from kwire.model import CatchUpProgress


def metrics_of(progress: Iterable[CatchUpProgress], client_id: str) -> dict[MetricName, float]:
    """Times are in seconds, as Java's rates are; the time left is not a number while nothing moves."""
    found: dict[MetricName, float] = {}
    for each in progress:
        topic, partition = each.topic_partition
        tags = (("client-id", client_id), ("topic", topic), ("partition", str(partition)))
        found |= {MetricName(name=name, group=CATCH_UP_GROUP, tags=tags): float(value) for name, value in _values(each)}
    return found


def _values(progress: CatchUpProgress) -> Iterator[tuple[str, float]]:
    if progress.ranges:
        yield "catch-up-start-offset", progress.ranges[0].start
        yield "catch-up-end-offset", progress.ranges[-1].stop
    yield "catch-up-done-total", progress.done
    yield "catch-up-left", progress.left
    yield "catch-up-rate", progress.rate_per_s
    yield "catch-up-seconds-left", math.nan if progress.left_s is None else progress.left_s
