"""From offsets to tasks: what is new, gone or moved between two offsets of a query, on a cluster in the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kwire import TopicPartition
from kwire.errors import UnknownTopicOrPartitionError
from kwire.spark.errors import DataLossError, OffsetsError
from kwire.spark.options import SourceOptions, batch_options, stream_options
from kwire.spark.planning import batch_ranges, loss_handler, stream_ranges, tasks
from kwire.spark.ranges import OffsetRange
from kwire.spark.resolve import OffsetReader
from kwire.testing import Cluster
from kwire.testing.cluster.batches import NewRecord

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """a-0 has 10 records, one a second from 1 s on, a-1 has 20, b-0 none."""
    with Cluster() as kafka:
        kafka.create_topic("a", partitions=2)
        kafka.create_topic("b", partitions=1)
        for number in range(10):
            kafka.produce("a", NewRecord(b"x", timestamp_ms=1_000 * (number + 1)), partition=0)
        for _ in range(20):
            kafka.produce("a", b"x", partition=1)
        yield kafka


def options_of(cluster: Cluster, **options: str) -> dict[str, str]:
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "fetchOffset.retryIntervalMs": "1"}
    return {**servers, "subscribe": "a", **options}


def planned(cluster: Cluster, **options: str) -> list[OffsetRange]:
    read = batch_options(options_of(cluster, **options))
    with reader_of(read) as reader:
        return batch_ranges(read, reader)


class reader_of(OffsetReader):  # noqa: N801  reads as a function
    def __enter__(self) -> OffsetReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- batches --------------------------------------------------------------------------------------------------


def test_ends_are_left_to_be_looked_up_by_the_tasks(cluster: Cluster) -> None:
    assert planned(cluster) == [OffsetRange(A0, -2, -1), OffsetRange(A1, -2, -1)]


def test_only_inner_edges_are_looked_up_when_ranges_are_cut(cluster: Cluster) -> None:
    assert planned(cluster, minPartitions="3") == [
        OffsetRange(A0, -2, -1),
        OffsetRange(A1, -2, 10),
        OffsetRange(A1, 10, -1),
    ]


def test_offsets_that_are_given_are_kept(cluster: Cluster) -> None:
    limits = {"startingOffsets": '{"a":{"0":3,"1":-2}}', "endingOffsets": '{"a":{"0":7,"1":20}}'}
    assert planned(cluster, **limits) == [OffsetRange(A0, 3, 7), OffsetRange(A1, -2, 20)]
    assert planned(cluster, **limits, maxRecordsPerPartition="3")[:2] == [OffsetRange(A0, 3, 5), OffsetRange(A0, 5, 7)]


def test_times_are_looked_up(cluster: Cluster) -> None:
    assign = {"subscribe": "", "assign": '{"a":[0]}'}
    asked = {name: value for name, value in options_of(cluster, **assign).items() if value}
    read = batch_options({**asked, "startingTimestamp": "2500", "endingTimestamp": "99000"})
    with reader_of(read) as reader:
        assert batch_ranges(read, reader) == [OffsetRange(A0, 2, 10)]


def test_partitions_that_are_left_out_are_named(cluster: Cluster) -> None:
    with pytest.raises(
        OffsetsError, match=r"start offsets don't match .* Specified: Set\(a-0\) Assigned: Set\(a-0, a-1\)"
    ):
        planned(cluster, startingOffsets='{"a":{"0":3}}')
    with pytest.raises(OffsetsError, match="timestamp based start offsets don't match"):
        planned(cluster, startingOffsetsByTimestamp='{"a":{"0":3}}')
    with pytest.raises(OffsetsError, match="timestamp based end offsets don't match"):
        planned(cluster, endingOffsetsByTimestamp='{"a":{"0":3}}')


def test_a_start_behind_the_end_is_found_when_both_are_known(cluster: Cluster) -> None:
    with pytest.raises(OffsetsError, match="resolved start offset 9 is greater than the resolved end offset 2"):
        planned(cluster, startingOffsets='{"a":{"0":9,"1":0}}', endingOffsetsByTimestamp='{"a":{"0":2500,"1":0}}')


def test_a_pattern_is_looked_for_anywhere_in_names(cluster: Cluster) -> None:
    asked = {**options_of(cluster), "subscribePattern": "[ab]"}
    del asked["subscribe"]
    read = batch_options(asked)
    with reader_of(read) as reader:
        assert reader.partitions() == {A0, A1, B0}


def test_of_assigned_partitions_those_that_exist_are_read(cluster: Cluster) -> None:
    asked = {**options_of(cluster), "assign": '{"a":[1,7]}'}
    del asked["subscribe"]
    read = batch_options(asked)
    with reader_of(read) as reader:
        assert reader.partitions() == {A1}


def test_a_topic_that_does_not_exist_is_an_error_and_is_not_made(cluster: Cluster) -> None:
    for _ in range(2):
        with pytest.raises(UnknownTopicOrPartitionError, match="there is no topic missing"):
            planned(cluster, subscribe="a,missing")


class Asking(OffsetReader):
    """Counts its pauses, and has something happen in one of them."""

    def __init__(self, options: SourceOptions, happens: Callable[[int], None]) -> None:
        super().__init__(options)
        self.pauses = 0
        self._happens = happens

    def _pause(self) -> None:
        self.pauses += 1
        self._happens(self.pauses)


def test_offsets_are_asked_for_again_when_that_fails(cluster: Cluster) -> None:
    def create(pause: int) -> None:
        if pause == 2:
            cluster.create_topic("late", partitions=1)

    reader = Asking(batch_options(options_of(cluster, subscribe="late")), create)
    assert reader.partitions() == {TopicPartition("late", 0)}
    assert reader.pauses == 2
    reader.close()


def test_offsets_are_asked_for_no_more_often_than_the_option_says(cluster: Cluster) -> None:
    options = batch_options(options_of(cluster, subscribe="missing", **{"fetchOffset.numRetries": "4"}))
    reader = Asking(options, lambda _: None)
    with pytest.raises(UnknownTopicOrPartitionError):
        reader.partitions()
    assert reader.pauses == 3
    reader.close()


# --- streams --------------------------------------------------------------------------------------------------

Starts = dict[TopicPartition, int]


def stream_of(cluster: Cluster, start: Starts, end: Starts, **options: str) -> tuple[list[OffsetRange], list[str]]:
    """The ranges, and the conditions that were reported as losses."""
    read: SourceOptions = stream_options(options_of(cluster, **options))
    losses: list[str] = []
    with reader_of(read) as reader:
        ranges = stream_ranges(read, reader, start, end, lambda error: losses.append(error.condition))
    return ranges, losses


def test_a_batch_is_what_lies_between_two_offsets(cluster: Cluster) -> None:
    ranges, losses = stream_of(cluster, {A0: 3, A1: 20}, {A0: 10, A1: 20})
    assert (ranges, losses) == ([OffsetRange(A0, 3, 10)], [])


def test_a_new_partition_is_read_from_its_beginning(cluster: Cluster) -> None:
    ranges, losses = stream_of(cluster, {A0: 3}, {A0: 10, A1: 20})
    assert (ranges, losses) == ([OffsetRange(A0, 3, 10), OffsetRange(A1, 0, 20)], [])


def test_a_new_partition_that_has_lost_its_beginning_is_a_loss(cluster: Cluster) -> None:
    cluster.delete_records("a", 1, offset=5)
    ranges, losses = stream_of(cluster, {A0: 3}, {A0: 10, A1: 20})
    assert losses == ["KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"]
    assert ranges == [OffsetRange(A0, 3, 10), OffsetRange(A1, 5, 20)]


def test_partitions_that_are_gone_are_a_loss(cluster: Cluster) -> None:
    gone = TopicPartition("a", 9)
    ranges, losses = stream_of(cluster, {A0: 3, gone: 7}, {A0: 10})
    assert (ranges, losses) == ([OffsetRange(A0, 3, 10)], ["KAFKA_DATA_LOSS.PARTITIONS_DELETED"])
    ranges, losses = stream_of(cluster, {A0: 3}, {A0: 10, gone: 7})
    assert (ranges, losses) == (
        [OffsetRange(A0, 3, 10)],
        ["KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"],
    )


def test_an_end_that_went_back_is_a_loss(cluster: Cluster) -> None:
    ranges, losses = stream_of(cluster, {A0: 100, A1: 0}, {A0: 10, A1: 5})
    assert (ranges, losses) == ([OffsetRange(A1, 0, 5)], ["KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"])


def test_a_loss_fails_the_query_unless_the_user_can_live_with_it(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    loss = DataLossError("PARTITIONS_DELETED", "Partitions Set(a-0) have been deleted.")
    with pytest.raises(DataLossError, match=r"failOnDataLoss to false\. Reason: Partitions"):
        loss_handler(stream_options(options_of(cluster)))(loss)
    loss_handler(stream_options(options_of(cluster, failOnDataLoss="false")))(loss)
    assert "Partitions Set(a-0) have been deleted." in caplog.text


def test_a_new_query_starts_where_it_is_told(cluster: Cluster) -> None:
    def initial(**options: str) -> Starts:
        read = stream_options(options_of(cluster, **options))
        with reader_of(read) as reader:
            return reader.initial(read.start)

    assert initial() == {A0: 10, A1: 20}
    assert initial(startingOffsets="earliest") == {A0: 0, A1: 0}
    assert initial(startingOffsets='{"a":{"0":3,"1":-1}}') == {A0: 3, A1: 20}
    with pytest.raises(OffsetsError, match="you must specify all TopicPartitions"):
        initial(startingOffsets='{"a":{"0":3}}')


# --- tasks ----------------------------------------------------------------------------------------------------


def test_a_task_never_reads_two_ranges_of_one_partition() -> None:
    spans = [OffsetRange(A0, 0, 5), OffsetRange(A0, 5, 9), OffsetRange(A1, 0, 5), OffsetRange(B0, 0, 1)]
    assert tasks(spans, 1) == [(span,) for span in spans]
    assert tasks(spans, 2) == [(spans[0],), (spans[1], spans[2]), (spans[3],)]
