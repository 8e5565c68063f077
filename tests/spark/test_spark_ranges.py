"""How offsets are cut into tasks: the cases of Spark's KafkaOffsetRangeCalculatorSuite, with its results."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import TopicPartition
from kwire.spark.ranges import OffsetRange, divide

T1, T2, T3 = TopicPartition("t1", 1), TopicPartition("t2", 1), TopicPartition("t3", 1)
Edges = list[tuple[TopicPartition, list[int]]]


def spans(*edges: tuple[TopicPartition, list[int]]) -> list[OffsetRange]:
    """Ranges between neighbours of the edges."""
    return [OffsetRange(tp, start, end) for tp, places in edges for start, end in pairwise(places)]


CASES: dict[str, tuple[int | None, int | None, Edges, Edges]] = {
    "one task for each partition": (None, None, [(T1, [1, 2])], [(T1, [1, 2])]),
    "empty ranges ignored": (None, None, [(T1, [1, 2]), (T2, [1, 1])], [(T1, [1, 2])]),
    "as many partitions as wanted": (
        3,
        None,
        [(T1, [1, 2]), (T2, [1, 2]), (T3, [1, 2])],
        [(T1, [1, 2]), (T2, [1, 2]), (T3, [1, 2])],
    ),
    "one partition in four": (4, None, [(T1, [1, 5])], [(T1, [1, 2, 3, 4, 5])]),
    "skewed": (4, None, [(T1, [1, 5]), (T2, [1, 21])], [(T1, [1, 5]), (T2, [1, 7, 14, 21])]),
    "SPARK-30656: empty ignored, the rest split": (
        4,
        None,
        [(T1, [1, 1]), (T2, [1, 21])],
        [(T2, [1, 6, 11, 16, 21])],
    ),
    "SPARK-30656: very skewed": (
        4,
        None,
        [(T1, [1, 2]), (T2, [1, 1001])],
        [(T1, [1, 2]), (T2, [1, 334, 667, 1001])],
    ),
    "SPARK-30656: fewer wanted than there are": (
        1,
        None,
        [(T1, [1, 5]), (T2, [1, 21])],
        [(T1, [1, 5]), (T2, [1, 21])],
    ),
    "no exact multiple": (3, None, [(T1, [1, 11])], [(T1, [1, 4, 7, 11])]),
    "empty ranges among others ignored": (
        4,
        None,
        [(T1, [1, 5]), (T2, [1, 21]), (T3, [1, 1])],
        [(T1, [1, 5]), (T2, [1, 7, 14, 21])],
    ),
    "SPARK-28489: never drop offsets": (
        6,
        None,
        [(T1, [0, 10]), (T2, [0, 10]), (T3, [0, 1])],
        [(T1, [0, 3, 6, 10]), (T2, [0, 3, 6, 10]), (T3, [0, 1])],
    ),
    "SPARK-36576: three large": (
        9,
        None,
        [(T1, [0, 10000]), (T2, [0, 15000]), (T3, [0, 20000])],
        [(T1, [0, 5000, 10000]), (T2, [0, 5000, 10000, 15000]), (T3, [0, 5000, 10000, 15000, 20000])],
    ),
    "SPARK-36576: one small, two large": (
        6,
        None,
        [(T1, [0, 500]), (T2, [0, 12000]), (T3, [0, 15001])],
        [(T1, [0, 500]), (T2, [0, 6000, 12000]), (T3, [0, 5000, 10000, 15001])],
    ),
    "SPARK-36576: two small, one large": (
        6,
        None,
        [(T1, [0, 1]), (T2, [0, 1]), (T3, [0, 10000])],
        [(T1, [0, 1]), (T2, [0, 1]), (T3, [0, 2500, 5000, 7500, 10000])],
    ),
    "SPARK-49259: as many records as wanted": (None, 4, [(T1, [1, 5])], [(T1, [1, 5])]),
    "SPARK-49259: fewer": (None, 4, [(T1, [1, 2])], [(T1, [1, 2])]),
    "SPARK-49259: more": (None, 4, [(T1, [1, 6])], [(T1, [1, 3, 6])]),
    "SPARK-49259: several partitions": (
        None,
        20,
        [(T1, [1, 40]), (T2, [1, 50]), (T3, [1, 60])],
        [(T1, [1, 20, 40]), (T2, [1, 17, 33, 50]), (T3, [1, 20, 40, 60])],
    ),
    "SPARK-49259: both, few partitions wanted": (1, 20, [(T1, [1, 40])], [(T1, [1, 20, 40])]),
    "SPARK-49259: both, many partitions wanted": (4, 20, [(T1, [1, 40])], [(T1, [1, 10, 20, 30, 40])]),
}


@pytest.mark.parametrize("name", CASES)
def test_ranges_are_cut_as_spark_cuts_them(name: str) -> None:
    min_partitions, max_records, given_edges, expected = CASES[name]
    divided = divide(spans(*given_edges), min_partitions=min_partitions, max_records_per_partition=max_records)
    assert divided == spans(*expected)


sizes = st.lists(st.integers(0, 5_000), min_size=1, max_size=8)


@given(sizes, st.none() | st.integers(1, 40), st.none() | st.integers(1, 2_000))
def test_no_offset_is_left_out_or_read_twice(
    lengths: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    whole = [OffsetRange(TopicPartition("t", n), 7 * n, 7 * n + length) for n, length in enumerate(lengths)]
    parts = divide(whole, min_partitions=min_partitions, max_records_per_partition=max_records)
    for span in whole:
        own = [part for part in parts if part.topic_partition == span.topic_partition]
        assert [part.start for part in own[1:]] == [part.end for part in own[:-1]]
        assert not own or (own[0].start, own[-1].end) == (span.start, span.end)
        assert bool(own) == (span.size > 0)
