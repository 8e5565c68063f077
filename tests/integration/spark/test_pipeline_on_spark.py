"""`kwire pipeline` on Spark and Kafka: each record reaches its target once, whatever came in between."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from kwire.cli.commands import app
from kwire.spark.pipeline.plan import plan_from
from kwire.spark.pipeline.progress import Figures
from kwire.spark.pipeline.run import PipelineError, run

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.kafkas import SharedKafka

REASON = "what tasks ask of Kafka is asked by the consumer, which is tested against both; sessions of Spark take long"
pytestmark = [
    pytest.mark.only("kafka", reason=REASON),
    pytest.mark.slow,
    # Spark tells of pandas' and its own deprecations
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]


class Pipeline:
    """A pipeline into a table, to the end of what there is. It may be run again."""

    def __init__(self, spark: SparkSession, kafka: SharedKafka, folder: Path) -> None:
        self.spark = spark
        self.table = folder / "table"
        self.metrics = folder / "metrics.jsonl"
        self._always = {
            "bootstrap": kafka.bootstrap_servers,
            "exit_at_end": True,
            "metrics": str(self.metrics),
            "path": str(self.table),
        }

    def run(self, topic: str, **settings: object) -> list[Figures]:
        """What it told of its batches."""
        told: list[Figures] = []
        given = {**self._always, "topic": topic, **settings}
        run(plan_from({name: value for name, value in given.items() if value is not None}), told.append, lambda: False)
        return told

    def rows(self, *columns: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in self.spark.read.parquet(str(self.table)).select(*columns).collect())

    def files(self) -> list[str]:
        return sorted(str(file.parent.relative_to(self.table)) for file in self.table.rglob("*.parquet"))


@pytest.fixture
def pipeline(spark: SparkSession, kafka: SharedKafka, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, kafka, tmp_path)


def numbers(first: int, behind_last: int) -> list[bytes | None]:
    return [b'{"id": %d}' % number for number in range(first, behind_last)]


def test_a_table_has_each_record_once_whatever_number_of_runs_it_took(
    pipeline: Pipeline, topic: MakeTopic, produce: Produce
) -> None:
    name = topic(3)
    json_values = {"value_format": "json", "value_schema": "id BIGINT", "partition_by": "date"}
    days_ms = (1_767_225_600_000, 1_767_312_000_000)  # the first two of 2026
    produce(name, numbers(0, 60), timestamps_ms=[days_ms[number % 2] for number in range(60)])
    figures = pipeline.run(name, **json_values)[-1]
    assert (figures.rows, figures.lag, figures.left_s) == (60, 0, 0.0)
    assert pipeline.files() == ["date=2026-01-01", "date=2026-01-02"]  # three partitions, one file for each day
    produce(name, numbers(60, 90), timestamps_ms=[days_ms[0]] * 30)
    assert pipeline.run(name, **json_values)[-1].rows == 30
    assert pipeline.rows("id") == [(number,) for number in range(90)]
    assert pipeline.rows("date", "kafka_topic") == [
        *[(date(2026, 1, 1), name)] * 60,
        *[(date(2026, 1, 2), name)] * 30,
    ]
    lines = [json.loads(line) for line in pipeline.metrics.read_text().splitlines()]
    assert sum(line["rows"] for line in lines) == 90
    assert all(lag == 0 for lag in lines[-1]["lags"].values())
    assert len(lines[-1]["lags"]) == 3


def test_fresh_first_the_newest_records_are_in_the_first_batch_and_all_are_there_once(
    pipeline: Pipeline, topic: MakeTopic, produce: Produce
) -> None:
    name = topic(2)
    for partition in range(2):
        produce(name, numbers(0, 500), partition=partition)
    limits = {"kwire.freshOffsetsPerTrigger": 40, "kwire.backfillOffsetsPerTrigger": 300}
    told = pipeline.run(name, fresh_first=True, source=limits)
    assert [figures.rows for figures in told] == [340, 640, 940, 1_000]
    assert [figures.backfill for figures in told] == [660, 360, 60, 0]
    assert pipeline.rows("partition", "offset") == [(tp, offset) for tp in range(2) for offset in range(500)]
    first = json.loads((pipeline.table / "_spark_metadata" / "0").read_text().splitlines()[1])["path"]
    offsets = [row.offset for row in pipeline.spark.read.parquet(first).collect()]
    assert max(offsets) == 499
    ends = json.loads((pipeline.table / "_checkpoint" / "offsets" / "3").read_text().splitlines()[-1])
    assert ends == {name: {"0": 500, "1": 500}}  # as Spark's own source has it


def test_a_query_with_state_is_refused_before_it_reads_anything(
    spark: SparkSession, kafka: SharedKafka, topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    name, checkpoint = topic(), str(tmp_path / "checkpoint")
    produce(name, numbers(0, 10))
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": name, "startingOffsets": "earliest"}
    fresh = {"kwire.freshFirst": "true", "kwire.checkpointLocation": checkpoint}
    rows = spark.readStream.format("kwire").options(**{**options, **fresh}).load()
    counted = rows.groupBy("partition").count().writeStream.outputMode("complete").format("memory")
    query = counted.queryName("counted").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="this query keeps state"):
        query.awaitTermination()
    assert spark.table("counted").count() == 0


def test_without_the_option_a_checkpoint_with_gaps_is_not_read_on(
    pipeline: Pipeline, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, numbers(0, 10))
    pipeline.run(name)
    offsets = pipeline.table / "_checkpoint" / "offsets" / "0"
    (offsets.parent / ".0.crc").unlink()
    written = offsets.read_text()
    offsets.write_text(written.replace('{"0": 10}', '{"0": {"head": 10, "gaps": [[2, 5]]}}'))
    assert "gaps" in offsets.read_text()
    with pytest.raises(PipelineError, match=r"kwire\.freshFirst wrote them, and goes on only with it"):
        pipeline.run(name)


def test_a_value_that_does_not_fit_stops_the_pipeline_and_names_the_record(
    pipeline: Pipeline, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, [b'{"id": 1}', b"no json"])
    with pytest.raises(PipelineError, match=f"the value of {name}-0 at offset 1 does not fit value_schema"):
        pipeline.run(name, value_format="json", value_schema="id BIGINT")


def test_a_topic_that_does_not_exist_is_told(pipeline: Pipeline) -> None:
    with pytest.raises(PipelineError, match="there is no topic nowhere"):
        pipeline.run("nowhere")


def test_a_function_gets_each_batch_once_over_restarts_of_the_command(
    spark: SparkSession,
    kafka: SharedKafka,
    topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "billing_of_batches.py").write_text(
        "SEEN = []\ndef store(rows, number):\n    SEEN.append((number, [row.value for row in rows.collect()]))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = topic()
    command = ["pipeline", name, "-b", kafka.bootstrap_servers, "--exit-at-end", "--value-format", "text"]
    command += ["--to", "function", "--function", "billing_of_batches:store", "--checkpoint", str(tmp_path / "state")]
    for first in (0, 3):
        produce(name, numbers(first, first + 3))
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.stderr
        assert "3 rows" in done.stderr
    assert [
        (batch, [f'{{"id": {number}}}' for number in range(3 * batch, 3 * batch + 3)]) for batch in range(2)
    ] == sys.modules["billing_of_batches"].SEEN
    assert spark.getActiveSession() is not None  # a session that was there stays
