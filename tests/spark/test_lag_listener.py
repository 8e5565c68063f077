"""Lag by partition, from what Spark tells of a batch."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, SourceProgress

from kwire import TopicPartition
from kwire.spark.callbacks import CallbackError
from kwire.spark.listener import LagListener, lags

if TYPE_CHECKING:
    from collections.abc import Mapping

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class Source:
    """As much of Spark's as is looked at."""

    endOffset: str | None  # noqa: N815  Spark's name
    latestOffset: str | None  # noqa: N815


def lag_of(*sources: Source) -> dict[TopicPartition, int]:
    return lags(cast("list[SourceProgress]", list(sources)))


def test_what_is_not_read_yet_by_partition() -> None:
    assert lag_of(Source('{"t": {"0": 5, "1": 7}}', '{"t":{"0":9,"1":7}}')) == {T0: 4, T1: 0}


def test_an_end_that_went_back_is_no_lag() -> None:
    assert lag_of(Source('{"t": {"0": 5}}', '{"t":{"0":3}}')) == {T0: 0}


def test_of_two_sources_of_a_topic_the_one_that_is_further_behind_counts() -> None:
    """The lag was that of the source that Spark names last."""
    behind, done = Source('{"t": {"0": 5}}', '{"t":{"0":9}}'), Source('{"t": {"0": 9}}', '{"t":{"0":9}}')
    assert lag_of(behind, done) == lag_of(done, behind) == {T0: 4}


def test_other_sources_are_left_out() -> None:
    others = [Source("7", "9"), Source(None, None), Source('{"logOffset":1}', "null"), Source('{"t": {"0": 5}}', None)]
    assert lag_of(*others, Source('{"t": {"1": 1}}', '{"t":{"1":3}}')) == {T1: 2}


def test_what_a_fresh_first_query_jumped_over_is_lag() -> None:
    end = '{"t": {"0": {"head": 500, "gaps": [[100, 300]]}, "1": 7}}'
    assert lag_of(Source(end, '{"t":{"0":510,"1":7}}')) == {T0: 210, T1: 0}


@dataclass
class Progress:
    """As much of Spark's as is looked at."""

    name: str
    sources: list[SourceProgress]


@dataclass
class Event:
    progress: Progress


def test_a_report_that_ends_the_program_ends_its_call_alone() -> None:
    """Py4J answers the JVM when a function returns or raises an `Exception`: of `sys.exit()` it never heard, and told
    no listener of anything any more."""

    def report(_name: str, _lags: Mapping[TopicPartition, int]) -> None:
        sys.exit(3)

    event = cast("QueryProgressEvent", Event(Progress("copies", [])))
    with pytest.raises(CallbackError, match="LagListener raised SystemExit"):
        LagListener(report).onQueryProgress(event)


def test_a_report_that_nobody_awaits_is_told() -> None:
    """Spark logs what a listener raises; a coroutine went by without a word, and so did the lags."""

    async def report(_name: str, _lags: Mapping[TopicPartition, int]) -> None:
        raise AssertionError("nobody awaits this")

    event = cast("QueryProgressEvent", Event(Progress("copies", [])))
    with pytest.raises(CallbackError, match="the report of a LagListener: it returned an object to await"):
        LagListener(report).onQueryProgress(event)
