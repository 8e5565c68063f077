"""Lag by partition, from what Spark tells of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pyspark.sql.streaming.listener import SourceProgress

from kwire import TopicPartition
from kwire.spark.listener import lags

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


def test_other_sources_are_left_out() -> None:
    others = [Source("7", "9"), Source(None, None), Source('{"logOffset":1}', "null"), Source('{"t": {"0": 5}}', None)]
    assert lag_of(*others, Source('{"t": {"1": 1}}', '{"t":{"1":3}}')) == {T1: 2}


def test_what_a_fresh_first_query_jumped_over_is_lag() -> None:
    end = '{"t": {"0": {"head": 500, "gaps": [[100, 300]]}, "1": 7}}'
    assert lag_of(Source(end, '{"t":{"0":510,"1":7}}')) == {T0: 210, T1: 0}
