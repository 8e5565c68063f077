"""What Spark asks a stream's reader in the driver, on a cluster in this process: a query that is started again plans
the batch that was not through as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kwire import TopicPartition
from kwire.spark.batch import TaskPartition
from kwire.spark.errors import DataLossError, OptionError
from kwire.spark.offsets import SparkOffset
from kwire.spark.ranges import OffsetRange
from kwire.spark.source import KwireDataSource
from kwire.spark.stream import KwireStreamReader
from kwire.testing import Cluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
Start = Callable[[], KwireStreamReader]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topics `a` and `b` of one partition, with 20 records."""
    with Cluster(topics={"a": 1, "b": 1}) as cluster:
        fill(cluster, "a", 0)
        fill(cluster, "b", 0)
        yield cluster


def fill(cluster: Cluster, topic: str, partition: int) -> None:
    cluster.produce(topic, *([b"x"] * 20), partition=partition)


@pytest.fixture
def start(cluster: Cluster) -> Iterator[Start]:
    """Starts the query: a reader as Spark makes one, which knows nothing of those before."""
    made: list[KwireStreamReader] = []

    def make() -> KwireStreamReader:
        options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribePattern": "a|b"}
        source = KwireDataSource({**options, "startingOffsets": "earliest"})
        reader = source.streamReader(source.schema())
        assert isinstance(reader, KwireStreamReader)
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.stop()


def ranges(reader: KwireStreamReader, begin: SparkOffset, end: SparkOffset) -> list[OffsetRange]:
    planned = reader.partitions(begin, end)
    assert all(isinstance(each, TaskPartition) for each in planned)
    return sorted(span for each in planned if isinstance(each, TaskPartition) for span in each.task)


def test_a_first_batch_that_failed_is_planned_again_though_partitions_were_added(
    cluster: Cluster, start: Start
) -> None:
    """SPARK-53560. Nobody has written down where the query began, so the added partition is part of its beginning and
    not of the batch: it was taken for one that was deleted, and the query failed whenever it was started."""
    reader = start()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    cluster.grow_topic("a", 2)
    fill(cluster, "a", 1)
    again = start()
    assert ranges(again, again.initialOffset(), end) == [
        OffsetRange(A0, 0, 20),
        OffsetRange(B0, 0, 20),
    ]
    assert ranges(again, end, again.latestOffset(end, ReadAllAvailable())) == [OffsetRange(A1, 0, 20)]


def test_a_partition_that_is_gone_before_the_first_batch_is_lost(cluster: Cluster, start: Start) -> None:
    reader = start()
    begin = reader.initialOffset()
    cluster.delete_topic("b")
    with pytest.raises(DataLossError, match=r"PARTITIONS_DELETED.*b-0"):
        reader.partitions(begin, reader.latestOffset(begin, ReadAllAvailable()))


@pytest.mark.parametrize("fresh_first", ["false", "stateless"])
def test_a_first_batch_that_begins_behind_its_end_when_asked_again_is_told_as_what_it_is(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, fresh_first: str
) -> None:
    """A query from the end of the log was stopped in its first batch, and its topic was called recreated; a fresh-first
    query passed the batch by without a word."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "a", "kwire.freshFirst": fresh_first}

    def started(**more: str) -> KwireStreamReader:
        source = KwireDataSource({**options, **more})
        reader = source.streamReader(source.schema())
        assert isinstance(reader, KwireStreamReader)
        return reader

    reader = started()
    begin = reader.initialOffset()
    fill(cluster, "a", 0)
    end = reader.latestOffset(begin, ReadAllAvailable())
    assert ranges(reader, begin, end) == [OffsetRange(A0, 20, 40)]
    fill(cluster, "a", 0)
    again, regardless = started(), started(failOnDataLoss="false")
    with pytest.raises(DataLossError, match=r"was to end at Map\(a-0 -> 40\).*kwire\.checkpointLocation"):
        again.partitions(again.initialOffset(), end)
    assert ranges(regardless, regardless.initialOffset(), end) == []
    assert caplog.text.count("PARTITION_OFFSET_CHANGED") == 1
    for each in (reader, again, regardless):
        each.stop()


@pytest.mark.parametrize("loss", ["true", "false"])
@pytest.mark.parametrize(
    "order",
    [
        {},
        {
            "kwire.freshFirst": "stateless",
            "kwire.freshOffsetsPerTrigger": "10",
            "kwire.backfillOffsetsPerTrigger": "10",
        },
    ],
)
def test_a_checkpoint_of_another_topic_is_refused_before_a_batch_is_planned(
    cluster: Cluster, loss: str, order: dict[str, str]
) -> None:
    """A planned batch stands in the checkpoint: with the right topic again the query failed each time, and by the
    advice of its error, failOnDataLoss=false, it read all records a second time."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "b", "failOnDataLoss": loss, **order}
    source = KwireDataSource(options)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, KwireStreamReader)
    with pytest.raises(OptionError, match=r"source 0 at offsets of a, .* needs another checkpoint"):
        reader.latestOffset({"a": {"0": 20}}, ReadAllAvailable())
    with pytest.raises(OptionError, match=r"source 0 at offsets of a"):
        reader.partitions({"a": {"0": 5}}, {"a": {"0": 20}})  # planned before, and not through
    reader.stop()


@pytest.mark.parametrize("topics", [{"subscribe": "b"}, {"subscribePattern": "^b"}, {"assign": '{"b": [0]}'}])
@pytest.mark.parametrize("loss", ["true", "false"])
def test_a_source_that_finds_the_beginning_of_another_one_asks_for_its_number(
    cluster: Cluster, tmp_path: Path, topics: dict[str, str], loss: str
) -> None:
    """Both were number 0. The second was told that the partitions of the first had been deleted; with
    failOnDataLoss=false it read its topic from the beginning, where it was to begin at the end."""
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kwire.checkpointLocation": str(tmp_path),
        "failOnDataLoss": loss,
    }

    def reader(**more: str) -> DataSourceStreamReader:
        source = KwireDataSource({**options, **more})
        return source.streamReader(source.schema())

    first, second, numbered = reader(subscribe="a"), reader(**topics), reader(**topics, **{"kwire.sourceIndex": "1"})
    assert first.initialOffset() == {"a": {"0": 20}}
    with pytest.raises(OptionError, match=r"source 0 at offsets of a, .* kwire\.sourceIndex"):
        second.initialOffset()
    assert numbered.initialOffset() == {"b": {"0": 20}}
    for each in (first, second, numbered):
        each.stop()
