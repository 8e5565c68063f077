"""A fresh-first stream as Spark asks about it: offsets in, offsets and ranges out, and what it says of lost data."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.model import TopicPartition
from kwire.spark.errors import DataLossError
from kwire.spark.fresh_first.advance import BatchLimits
from kwire.spark.fresh_first.planning import low_water, next_offset, ranges
from kwire.spark.fresh_first.settings import FreshFirst, State
from kwire.spark.options import stream_options
from kwire.spark.ranges import OffsetRange

P0, P1 = (TopicPartition("orders", number) for number in range(2))
FRESH = FreshFirst(BatchLimits(fresh=100, backfill=300), State.KNOWN_ABSENT)
LEAST = {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"}


class Losses:
    """Notes what is lost, as a query that goes on regardless."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, error: DataLossError) -> None:
        self.told.append(f"{error.condition.removeprefix('KAFKA_DATA_LOSS.')}: {error.reason}")


def advanced(
    start: Mapping[str, object], begins: dict[int, int], ends: dict[int, int]
) -> tuple[Mapping[str, object], list[str]]:
    losses = Losses()
    offset = next_offset(
        FRESH.limits,
        start,
        {TopicPartition("orders", number): begin for number, begin in begins.items()},
        {TopicPartition("orders", number): end for number, end in ends.items()},
        losses,
    )
    return offset, losses.told


def test_offsets_are_plain_until_there_is_backfill_and_again_when_it_is_done() -> None:
    behind, told = advanced({"orders": {"0": 0}}, {0: 0}, {0: 700})
    assert (behind, told) == ({"orders": {"0": {"head": 700, "gaps": [[300, 600]]}}}, [])
    assert advanced(behind, {0: 0}, {0: 710}) == ({"orders": {"0": 710}}, [])


def test_a_batch_never_ends_behind_the_end_it_was_given_though_the_log_begins_behind_it_by_now() -> None:
    """With Trigger.AvailableNow the end is that of when the query began, and retention goes on meanwhile. Such a query
    failed, as one whose offsets are wrong, where data loss was to be lived with."""
    start: dict[str, object] = {"orders": {"0": {"head": 500, "gaps": [[100, 300]]}, "1": 600}}
    assert advanced(start, {0: 900, 1: 900}, {0: 700, 1: 600}) == (
        {"orders": {"0": 700, "1": 600}},
        [
            "COULD_NOT_READ_OFFSET_RANGE: Could not read records in offset [100, 300) for topic partition orders-0.",
            "COULD_NOT_READ_OFFSET_RANGE: Could not read records in offset [500, 700) for topic partition orders-0.",
        ],
    )


def test_ranges_are_those_between_two_offsets_fresh_ones_first() -> None:
    start: dict[str, object] = {"orders": {"0": 0, "1": 5}}
    end: dict[str, object] = {"orders": {"0": {"head": 700, "gaps": [[300, 600]]}, "1": 9}}
    assert ranges(FRESH, stream_options({**LEAST, "maxRecordsPerPartition": "150"}), start, end) == [
        OffsetRange(P0, 600, 700),
        OffsetRange(P1, 5, 9),
        OffsetRange(P0, 0, 150),
        OffsetRange(P0, 150, 300),
    ]


def test_a_partition_that_is_gone_is_told_and_left_out() -> None:
    offset, told = advanced({"orders": {"0": 5, "1": 7}}, {0: 0}, {0: 5})
    assert offset == {"orders": {"0": 5}}
    assert told == ["PARTITIONS_DELETED: Partitions Set(orders-1) have been deleted."]


def test_a_new_partition_that_begins_later_than_0_is_told() -> None:
    offset, told = advanced({"orders": {"0": 5}}, {0: 0, 1: 70}, {0: 5, 1: 80})
    assert offset == {"orders": {"0": 5, "1": {"head": 80, "begin": 70}}}
    assert told == [
        "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: Added partition orders-1 starts from 70 instead of 0."
    ]


def test_what_retention_took_of_a_gap_is_told() -> None:
    _offset, told = advanced({"orders": {"0": {"head": 700, "gaps": [[300, 600]]}}}, {0: 400}, {0: 700})
    assert told == [
        "COULD_NOT_READ_OFFSET_RANGE: Could not read records in offset [300, 400) for topic partition orders-0."
    ]


def test_a_topic_that_was_recreated_is_told() -> None:
    offset, told = advanced({"orders": {"0": 700}}, {0: 0}, {0: 20})
    assert offset == {"orders": {"0": 20}}
    (said,) = told
    assert said.startswith("PARTITION_OFFSET_CHANGED: Partition orders-0 offset was changed from 700 to 20.")


def test_tools_that_know_one_offset_get_the_one_behind_which_nothing_is_certain() -> None:
    assert low_water({"orders": {"0": {"head": 700, "gaps": [[300, 600]]}, "1": 5}}) == {P0: 300, P1: 5}
