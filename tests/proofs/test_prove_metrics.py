"""`scripts/prove metrics`: what its judge says of two lists of metrics."""

from __future__ import annotations

import math

from proofs.group import Group
from proofs.metrics.prove import Key, differences, is_equal, page, table

LAG = Key("consumer-fetch-manager-metrics", "{partition=0, topic=t}", "records-lag")
LATENCY = Key("consumer-metrics", "{}", "commit-latency-avg")
OF_NODE = Key("consumer-node-metrics", "{node-id=node-1}", "request-total")


def test_counts_and_places_have_to_be_equal_and_times_have_not() -> None:
    theirs = {LAG: 0.0, LATENCY: 5.0}
    assert not list(differences(theirs, {LAG: 0.0, LATENCY: 3.0}))
    assert list(differences(theirs, {LAG: 7.0, LATENCY: 3.0})) == [
        "consumer-fetch-manager-metrics {partition=0, topic=t} records-lag: Java 0, kwire 7"
    ]


def test_a_name_that_is_missing_is_told_and_brokers_may_have_other_numbers() -> None:
    ours = {OF_NODE._replace(tags="{node-id=node--1}"): 3.0}
    assert not list(differences({OF_NODE: 1.0}, ours))
    (line,) = differences({LATENCY: 1.0}, ours)
    assert line == "consumer-metrics of the client: there is no commit-latency-avg"


def test_what_neither_has_a_number_for_is_equal_and_seconds_may_differ_by_one() -> None:
    assert is_equal("records-lag", math.nan, math.nan)
    assert not is_equal("records-lag", math.nan, 0.0)
    assert is_equal("last-poll-seconds-ago", 3.0, 4.0)
    assert not is_equal("records-lag", 3.0, 4.0)


def test_the_table_shows_both_and_marks_what_was_judged() -> None:
    _, *lines = table({LAG: 1234.0, LATENCY: 0.5}, {LAG: 1235.0})
    assert [line.split()[0] for line in lines] == ["!", "consumer-metrics"]
    assert lines[0].split()[-2:] == ["1,234", "1,235"]
    assert lines[1].split()[-2:] == ["0.500", "-"]


def test_the_page_has_what_both_say_and_marks_what_has_to_be_equal() -> None:
    other = Key("consumer-fetch-manager-metrics", "{partition=1, topic=t}", "records-lag")
    theirs, ours = {LAG: 0.0, LATENCY: 1.5, other: 3.0, OF_NODE: 1.0}, {LAG: 7.0, LATENCY: 2.5, other: 3.0}
    lines = page({Group.RANGE: (theirs, ours)}, 10).splitlines()
    assert lines[-2:] == [
        "| **!** | records-lag (consumer-fetch-manager, of a partition) | 0 | 7 |",
        "|  | commit-latency-avg (consumer) | 1.500 | 2.500 |",
    ]
