"""A broker that goes away in the middle of a task, on a cluster in this process, which tells when that is.

kwire waits for it as long as a task may, then Spark tries the task again: what the sink has is each record once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PythonException, StreamingQueryException

from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kwire.testing.cluster.control import Rule

pytestmark = [
    pytest.mark.slow,
    # Spark tells of pandas' and its own deprecations
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]
RECORDS, IN_A_BATCH = 200, 10
AT = r"127\.0\.0\.1:\d+"
TIMEOUT_S = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic `a` of two partitions, whose values are their offsets."""
    with Cluster(topics={"a": 2}) as kafka:
        fill(kafka, 0)
        yield kafka


def fill(cluster: Cluster, first: int) -> None:
    """So many records more in each partition."""
    for partition in range(2):
        for offset in range(first, first + RECORDS, IN_A_BATCH):
            values = (b"%d" % each for each in range(offset, offset + IN_A_BATCH))
            cluster.produce("a", *values, partition=partition)


def options_of(cluster: Cluster, **more: str) -> dict[str, str]:
    """A fetch gets no more than a batch of records, so that tasks have a middle."""
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "a",
        "startingOffsets": "earliest",
        "kafka.max.partition.fetch.bytes": "1",
        "kafkaConsumer.pollTimeoutMs": "2000",
        **more,
    }


def load(spark: SparkSession, cluster: Cluster, **more: str) -> DataFrame:
    return spark.read.format("kwire").options(**options_of(cluster, **more)).load()


def everything(behind_last: int = RECORDS) -> list[tuple[int, int, bytes]]:
    return [(partition, offset, b"%d" % offset) for partition in range(2) for offset in range(behind_last)]


def rows_of(table: DataFrame) -> list[tuple[int, int, bytes]]:
    return sorted((row.partition, row.offset, bytes(row.value)) for row in table.collect())


def fall_silent(cluster: Cluster) -> Rule:
    """The fifth fetch is never answered, nor what comes behind it on its connection: longer than a task waits."""
    seen = cluster.control.on(FetchRequest).observe()
    return cluster.control.on(FetchRequest, times=1, where=lambda *_: seen.fired >= 5).drop()


def test_a_batch_is_written_once_when_spark_tries_its_tasks_again(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    silence = fall_silent(cluster)
    load(spark, cluster).write.parquet(str(tmp_path / "table"))
    assert silence.fired, "no task was struck"
    assert rows_of(spark.read.parquet(str(tmp_path / "table"))) == everything()


def test_a_stream_goes_on_and_its_table_has_each_record_once(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    stream = spark.readStream.format("kwire").options(**options_of(cluster, maxOffsetsPerTrigger="100")).load()
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    silence = fall_silent(cluster)
    query = writer.start(str(tmp_path / "table"))
    assert query.awaitTermination(TIMEOUT_S)
    assert silence.fired, "no task was struck"
    assert rows_of(spark.read.parquet(str(tmp_path / "table"))) == everything()


def test_an_outage_that_a_task_can_wait_for_is_not_noticed(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """Every fifth fetch has its connection cut instead of an answer; no task fails."""
    seen = cluster.control.on(FetchRequest).observe()
    cuts = cluster.control.on(FetchRequest, where=lambda *_: seen.fired % 5 == 4).cut()
    load(spark, cluster).write.parquet(str(tmp_path / "table"))
    assert cuts.fired > 5
    assert rows_of(spark.read.parquet(str(tmp_path / "table"))) == everything()


def test_a_broker_that_stays_away_fails_the_job_which_names_it(spark: SparkSession, cluster: Cluster) -> None:
    seen = cluster.control.on(FetchRequest).observe()
    cluster.control.on(FetchRequest, where=lambda *_: seen.fired >= 5).drop()
    named = rf"Cannot fetch record for offset a-\d at \d+ in 2000 milliseconds: nothing came of a-\d \(from {AT}"
    with pytest.raises(PythonException, match=named):
        load(spark, cluster).count()


def damage(answer: FetchResponse) -> None:
    """One bit of the records from offset 50 on."""
    for topic in answer.responses:
        for partition in topic.partitions:
            if partition.records and int.from_bytes(bytes(partition.records)[:8]) == 50:
                records = bytes(partition.records)
                partition.records = records[:-1] + bytes([records[-1] ^ 0x01])


def test_a_damaged_batch_fails_the_job_which_names_its_place(spark: SparkSession, cluster: Cluster) -> None:
    cluster.control.on(FetchRequest).edit(damage)  # type: ignore[arg-type]  # answers of these requests alone
    with pytest.raises(PythonException, match=r"CorruptRecordError: a-\d at offset 50: "):
        load(spark, cluster).count()


def test_a_damaged_batch_fails_the_stream_until_it_is_skipped_and_no_other_record_is(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """The batch in front of it is in the table; what lies behind the damage comes when the user has said so."""

    def run(**more: str) -> StreamingQuery:
        options = options_of(cluster, maxOffsetsPerTrigger="80", **more)
        rows = spark.readStream.format("kwire").options(**options).load()
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        return writer.start(str(tmp_path / "table"))

    def table() -> list[tuple[int, int, bytes]]:
        return rows_of(spark.read.parquet(str(tmp_path / "table")))

    cluster.control.on(FetchRequest).edit(damage)  # type: ignore[arg-type]  # as above
    with pytest.raises(StreamingQueryException, match=r"CorruptRecordError: a-\d at offset 50: "):
        run().awaitTermination(TIMEOUT_S)
    assert table() == everything(40)
    assert run(**{"kwire.skipDamagedBatches": "true"}).awaitTermination(TIMEOUT_S)
    assert table() == [row for row in everything() if not 50 <= row[1] < 50 + IN_A_BATCH]
