"""The job of `scripts/prove spark-kills`: a topic into a table of Parquet files, until somebody ends it.

`python -m proofs.spark.kills_job run SOURCE SERVERS TOPIC DIRECTORY` streams for ever; `drain` instead of `run` until
nothing is left; `count` prints what is in the table, partition by partition, as JSON: records, different offsets, the
least and the most, wrong ones. The process is meant to be killed, with its JVM, whose number it leaves in
`DIRECTORY/jvm`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from tools.spark_sessions import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 20_000
ATTEMPTS = 4
DRAINED_AT_ONCE = 200  # batches


def stream(spark: SparkSession, source: str, servers: str, topic: str, directory: Path, *, ends: bool) -> None:
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    most = str(BATCH * (DRAINED_AT_ONCE if ends else 1))
    frame = spark.readStream.format(source).options(**options, maxOffsetsPerTrigger=most).load()
    writer = frame.select("partition", "offset", "value").writeStream.format("parquet").outputMode("append")
    places = {"path": str(directory / "table"), "checkpointLocation": str(directory / "checkpoint")}
    trigger = writer.trigger(availableNow=True) if ends else writer.trigger(processingTime="0 seconds")
    trigger.options(**places).start().awaitTermination()


def table_counts(spark: SparkSession, path: Path) -> dict[str, list[int]]:
    """The table is what Spark's own log of it says, not whatever files lie there."""
    table = spark.read.parquet(str(path))
    offset = sf.col("offset")
    is_wrong = sf.col("value").cast("string") != sf.concat_ws(":", "partition", "offset")
    rows = table.groupBy("partition").agg(
        sf.count("*"), sf.countDistinct(offset), sf.min(offset), sf.max(offset), sf.count_if(is_wrong)
    )
    return {str(row[0]): list(row[1:]) for row in rows.collect()}


def main() -> None:
    task, source, servers, topic, directory = *sys.argv[1:5], Path(sys.argv[5])
    with spark_session("kills", attempts=ATTEMPTS, memory="1g", kafka=source == "kafka") as spark:
        jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # started by this process
        (directory / "jvm").write_text(str(jvm))
        if task == "count":
            print(json.dumps(table_counts(spark, directory / "table")))
        else:
            stream(spark, source, servers, topic, directory, ends=task == "drain")


if __name__ == "__main__":
    main()
