"""The catching up as metrics: names as Java's, numbers as `catch_up_progress()` has them."""

from __future__ import annotations

import math

from kwire import CatchUpProgress, MetricName, TopicPartition
from kwire.parallel_rebalance.metrics import metrics_of

AT = TopicPartition("orders", 3)


def progress(*, left_s: float | None = 4.0) -> CatchUpProgress:
    ranges = (range(70, 90), range(100, 120))
    return CatchUpProgress(topic_partition=AT, ranges=ranges, done=20, left=40, rate_per_s=10.0, left_s=left_s)


def by_name(metrics: dict[MetricName, float]) -> dict[str, float]:
    return {each.name: value for each, value in metrics.items()}


def test_a_lag_has_its_range_what_is_done_the_rate_and_the_time_left() -> None:
    assert by_name(metrics_of([progress()], "me")) == {
        "catch-up-start-offset": 70,
        "catch-up-end-offset": 120,
        "catch-up-done-total": 20,
        "catch-up-left": 40,
        "catch-up-rate": 10,
        "catch-up-seconds-left": 4,
    }


def test_names_are_written_as_java_writes_its_own() -> None:
    name = next(each for each in metrics_of([progress()], "me") if each.name == "catch-up-left")
    wanted = "kafka.consumer:type=consumer-catch-up-metrics,client-id=me,topic=orders,partition=3,name=catch-up-left"
    assert str(name) == wanted


def test_while_nothing_moves_nobody_knows_how_long_it_takes() -> None:
    assert math.isnan(by_name(metrics_of([progress(left_s=None)], "me"))["catch-up-seconds-left"])


def test_without_a_lag_there_are_none() -> None:
    assert metrics_of([], "me") == {}
