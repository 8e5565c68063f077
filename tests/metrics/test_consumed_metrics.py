"""What is told of partitions that come, go, and come back."""

from __future__ import annotations

import pytest

from kwire.metrics.consumed import NO_REPLICA, ConsumedMetrics, LogSpan
from kwire.metrics.window import WindowSetting
from kwire.model import TopicPartition

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def metrics() -> ConsumedMetrics:
    found = ConsumedMetrics(WindowSetting())
    found.keep_only({TP, OTHER})
    return found


def values(metrics: ConsumedMetrics, tp: TopicPartition) -> dict[str, float]:
    return dict(metrics.partition_values(tp, 2_000.0))


def test_a_partition_that_comes_back_does_not_report_where_it_stood_before(metrics: ConsumedMetrics) -> None:
    """It was at its end when it was given up; the lag of 0 was told until its first records had come."""
    for tp in (TP, OTHER):
        metrics.moved(tp, 900, LogSpan(0, 1_000), 0.0)
        metrics.at_end(tp, 1_000, LogSpan(0, 1_000), 1_000.0)
        metrics.follows(tp, 7, until_ms=1e9)
    metrics.forget({TP})
    assert values(metrics, TP) == {"preferred-read-replica": NO_REPLICA}
    assert values(metrics, OTHER)["records-lag"] == 0
    assert values(metrics, OTHER)["preferred-read-replica"] == 7


def test_what_a_poll_collects_while_its_partition_is_given_up_is_forgotten_by_the_next(
    metrics: ConsumedMetrics,
) -> None:
    metrics.forget({TP})
    metrics.moved(TP, 900, LogSpan(0, 1_000), 0.0)
    metrics.keep_only({OTHER})
    assert "records-lag" not in values(metrics, TP)
