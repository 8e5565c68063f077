"""`spark.readStream.format("kwire")` in a real session: each record once, from where the query began or left off."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kwire import TopicPartition
from kwire.spark.listener import lags

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from tests.integration.conftest import GrowTopic, MakeTopic, Produce
    from tests.integration.kafkas import SharedKafka

REASON = "what tasks ask of Kafka is asked by the consumer, which is tested against both; sessions of Spark take long"
pytestmark = [
    pytest.mark.only("kafka", reason=REASON),
    pytest.mark.slow,
    # Spark tells of pandas' and its own deprecations
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]
TIMEOUT_S = 60
Sink = Callable[[DataFrame, int], None]


class Job:
    """A streaming query that takes all there is and ends, into files or a function. It may be started again."""

    def __init__(self, spark: SparkSession, kafka: SharedKafka, folder: Path) -> None:
        self._spark = spark
        self._servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        self.checkpoint = str(folder / "checkpoint")
        self.table = str(folder / "table")

    def run(self, options: Mapping[str, str], sink: Sink | None = None) -> StreamingQuery:
        """Answers the query when it has ended; raises what it ended with."""
        frame = self._spark.readStream.format("kwire").options(**{**self._servers, **options}).load()
        writer = frame.writeStream.option("checkpointLocation", self.checkpoint).trigger(availableNow=True)
        writer = writer.format("parquet").option("path", self.table) if sink is None else writer.foreachBatch(sink)
        query = writer.start()
        assert query.awaitTermination(TIMEOUT_S), "the query did not end"
        return query

    def values(self) -> list[bytes]:
        """What is in the files, in the order of the log."""
        rows = self._spark.read.parquet(self.table).select("partition", "offset", "value").collect()
        return [bytes(row.value) for row in sorted(rows)]


@pytest.fixture
def job(spark: SparkSession, kafka: SharedKafka, tmp_path: Path) -> Job:
    return Job(spark, kafka, tmp_path)


def numbers(first: int, behind_last: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, behind_last)]


def test_batches_are_limited_and_a_query_goes_on_where_it_left_off(
    job: Job, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    produce(name, numbers(0, 100))
    query = job.run(options)
    assert [progress.numInputRows for progress in query.recentProgress] == [40, 40, 20]
    assert [json.loads(progress.sources[0].endOffset) for progress in query.recentProgress] == [
        {name: {"0": end}} for end in (40, 80, 100)
    ]
    assert [lags(progress.sources) for progress in query.recentProgress] == [
        {TopicPartition(name, 0): lag} for lag in (60, 20, 0)
    ]
    produce(name, numbers(100, 130))
    job.run(options)
    assert job.values() == numbers(0, 130)


def fail(frame: DataFrame, batch_id: int) -> None:
    raise RuntimeError("the first batch is lost")


def test_a_query_that_fails_in_its_first_batch_begins_where_it_was_to_begin(
    job: Job, topic: MakeTopic, produce: Produce
) -> None:
    """It starts at the end of the log, which has moved when it comes back."""
    name = topic()
    produce(name, numbers(0, 10))
    options = {"subscribe": name, "startingOffsets": "latest", "kwire.checkpointLocation": job.checkpoint}
    job.run(options)  # writes down where it begins; there is no batch
    assert Path(job.checkpoint, "sources/0/0").read_bytes() == b'\0v1\n{"%s":{"0":10}}' % name.encode()
    produce(name, numbers(10, 15))
    with pytest.raises(StreamingQueryException, match="the first batch is lost"):
        job.run(options, fail)
    produce(name, numbers(15, 20))
    found: list[bytes] = []
    job.run(options, lambda frame, _: found.extend(bytes(row.value) for row in frame.sort("offset").collect()))
    assert found == numbers(10, 20)


def test_progress_is_committed_to_a_group_for_tools_that_show_lag(
    job: Job, topic: MakeTopic, produce: Produce, admin: AdminClient
) -> None:
    name = topic(partitions=2)
    for partition in range(2):
        produce(name, numbers(0, 5 * (partition + 1)), partition=partition)
    group = f"progress-of-{name}"
    job.run({"subscribe": name, "startingOffsets": "earliest", "kwire.commitOffsetsToGroup": group})
    asked = [ConsumerGroupTopicPartitions(group)]
    committed = admin.list_consumer_group_offsets(asked)[group].result(TIMEOUT_S).topic_partitions
    assert {(tp.topic, tp.partition): tp.offset for tp in committed} == {(name, 0): 5, (name, 1): 10}


def test_partitions_that_are_added_are_read_from_their_beginning(
    job: Job, topic: MakeTopic, produce: Produce, grow: GrowTopic
) -> None:
    name = topic()
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "7"}
    produce(name, numbers(0, 5))
    job.run(options)
    grow(name, 2)
    produce(name, numbers(5, 20), partition=1)
    job.run(options)
    assert job.values() == numbers(0, 20)


def test_records_that_are_gone_fail_the_query_or_are_skipped_as_the_user_says(
    job: Job, topic: MakeTopic, produce: Produce, admin: AdminClient
) -> None:
    name = topic()
    options = {"subscribe": name, "startingOffsets": "earliest"}
    produce(name, numbers(0, 5))
    job.run(options)
    produce(name, numbers(5, 10))
    delete_records(admin, name, 8)
    with pytest.raises(StreamingQueryException, match="Could not read records in offset"):
        job.run(options)
    job.run({**options, "failOnDataLoss": "false"})
    assert job.values() == [*numbers(0, 5), *numbers(8, 10)]


def delete_records(admin: AdminClient, topic: str, before: int) -> None:
    from confluent_kafka import TopicPartition as AdminTopicPartition

    for done in admin.delete_records([AdminTopicPartition(topic, 0, before)]).values():
        done.result(TIMEOUT_S)


@pytest.mark.parametrize(
    ("options", "message", "error"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries", StreamingQueryException),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"},
            "than the maxOffsetsPerTrigger",
            AnalysisException,
        ),
    ],
)
def test_what_cannot_be_fails_the_query_or_is_refused_before(
    job: Job, topic: MakeTopic, options: dict[str, str], message: str, error: type[PySparkException]
) -> None:
    with pytest.raises(error, match=message):
        job.run({"subscribe": topic(), **options})
