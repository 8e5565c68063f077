"""Metrics as a table."""

from __future__ import annotations

import math

from kwire import MetricName
from kwire.metrics.table import format_metrics

CLIENT = ("client-id", "me")


def name(name: str, *tags: tuple[str, str], group: str = "consumer-metrics") -> MetricName:
    return MetricName(name=name, group=group, tags=(CLIENT, *tags))


def test_numbers_stand_in_order_below_what_they_are_of() -> None:
    lag, group = "records-lag", "consumer-fetch-manager-metrics"
    found = format_metrics(
        {
            name("connection-count"): 4.0,
            name(lag, ("partition", "10"), group=group): 1234567.0,
            name(lag, ("partition", "9"), group=group): 0.5,
            name("commit-latency-avg"): math.nan,
        }
    )
    assert found.splitlines() == [
        "consumer-fetch-manager-metrics client-id=me partition=9",
        "  records-lag       0.500",
        "consumer-fetch-manager-metrics client-id=me partition=10",
        "  records-lag       1,234,567",
        "consumer-metrics client-id=me",
        "  connection-count  4",
    ]


def test_a_client_may_be_named_by_a_digit_that_is_no_number() -> None:
    """`int` refuses what `str.isdigit` takes."""
    assert "client-id=²" in format_metrics({MetricName(name="lag", group="mine", tags=(("client-id", "²"),)): 1.0})


def test_of_nothing_there_is_no_table() -> None:
    assert format_metrics({}) == ""
