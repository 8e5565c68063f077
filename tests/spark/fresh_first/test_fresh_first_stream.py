"""A fresh-first stream reader asked as Spark asks it, on a Kafka in this process; no Spark runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kwire import Consumer, TopicPartition
from kwire.spark.batch import TaskPartition
from kwire.spark.fresh_first.stream import FreshFirstStreamReader
from kwire.spark.source import KwireDataSource
from kwire.testing import Cluster

pytestmark = pytest.mark.slow

P0 = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(1, topics={"orders": 1}) as cluster:
        produce(cluster, 100)
        yield cluster


def produce(cluster: Cluster, many: int) -> None:
    for _ in range(many):
        cluster.produce("orders", b"an order", partition=0)


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[FreshFirstStreamReader]:
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "orders",
        "startingOffsets": "earliest",
        "kwire.freshFirst": "stateless",
        "kwire.freshOffsetsPerTrigger": "10",
        "kwire.backfillOffsetsPerTrigger": "30",
        "kwire.commitOffsetsToGroup": "dashboard",
    }
    source = KwireDataSource(options)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, FreshFirstStreamReader)
    yield reader
    reader.stop()


def planned(reader: FreshFirstStreamReader, start: object, end: object) -> list[range]:
    assert isinstance(start, dict)
    assert isinstance(end, dict)
    tasks = [partition.task for partition in reader.partitions(start, end) if isinstance(partition, TaskPartition)]
    return [range(span.start, span.end) for task in tasks for span in task]


def test_a_batch_has_the_newest_records_and_a_slice_of_the_rest(
    cluster: Cluster, reader: FreshFirstStreamReader
) -> None:
    start = reader.initialOffset()
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert first == {"orders": {"0": {"head": 100, "gaps": [[30, 90]]}}}
    assert planned(reader, start, first) == [range(90, 100), range(30)]
    produce(cluster, 5)
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert planned(reader, first, second) == [range(100, 105), range(30, 60)]
    assert reader.reportLatestOffset() == {"orders": {"0": 105}}


def test_a_trigger_without_limits_takes_everything(reader: FreshFirstStreamReader) -> None:
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"orders": {"0": 100}}


def test_available_now_ends_where_the_log_ended_with_no_gap_left(
    cluster: Cluster, reader: FreshFirstStreamReader
) -> None:
    reader.prepareForTriggerAvailableNow()
    offset, batches = reader.initialOffset(), 0
    while (after := reader.latestOffset(offset, ReadMaxRows(40))) != offset:
        planned(reader, offset, after)
        offset, batches = after, batches + 1
        produce(cluster, 1)
    assert (offset, batches) == ({"orders": {"0": 100}}, 3)


def test_tools_that_show_lag_are_told_of_nothing_that_was_jumped_over(
    cluster: Cluster, reader: FreshFirstStreamReader
) -> None:
    reader.commit(reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit()))
    asking: Consumer[bytes, bytes] = Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="dashboard")
    with asking:
        committed = asking.committed([P0])[P0]
    assert committed is not None
    assert committed.offset == 30
