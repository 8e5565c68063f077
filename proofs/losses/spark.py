"""The programs of `scripts/prove losses` that read with Spark: batch jobs, and a stream, both into tables of files.

What is said in the table counts as handled; a record whose row says that it is bad counts as kept. How far a program is
stands in its checkpoint: Spark's for a stream, a file of its own for batch jobs.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kwire import Consumer, TopicPartition
from proofs.losses.cell import PARTITIONS, TARGET, Cell, Place
from proofs.losses.faults import Fault, Handle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "place ARRAY<INT>, filling STRING, bad STRING"
PER_JOB = 40  # offsets of each partition
# A JVM of a minute gains nothing by compiling code well.
JVM_OPTIONS, QUICK_START = "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
STRUCK_S = 1.0  # a signal is to strike in the middle of a job
# What an error says, and what its user then does.
ADVICE = {
    "failOnDataLoss": "skip-loss",
    "kwire.skipDamagedBatches": "skip-damage",
    "on_bad = keep": "skip-failure",
    "PERMISSIVE": "skip-failure",
    "this record cannot be handled": "skip-failure",
}

Ends = dict[int, int]


@dataclass(frozen=True, slots=True)
class HandleRow:
    """What the program does with a row, in a Python process of Spark's. Whether that could be done."""

    handle: Handle

    def __call__(self, partition: int, offset: int) -> bool:
        cell = self.handle.cell
        cell.delivered(partition, offset)
        if Place(partition, offset) != TARGET:
            return True
        if cell.has("skip-failure") and cell.fault == Fault.HANDLER_ALWAYS.value:
            return False  # the program was mended
        was_struck = cell.has("struck")
        self.handle.strike()
        if cell.has("struck") and not was_struck:
            time.sleep(STRUCK_S)
        return True


def run_stream(spark: SparkSession, cell: Cell) -> None:
    """To the end of what there is, batch by batch."""
    limit = {"maxOffsetsPerTrigger": str(PARTITIONS * PER_JOB), "startingOffsets": "earliest"}
    rows = spark.readStream.format("kwire").options(**source_options(cell), **limit).load()
    writer = handled(rows, cell).writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    places = {"path": str(table(cell)), "checkpointLocation": str(checkpoint(cell))}
    query = writer.options(**places).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def run_batches(spark: SparkSession, cell: Cell) -> None:
    """Job by job. Each has a folder, which it writes anew if it did not get to its end."""
    last = ends_of_log(cell)
    while (start := done(cell)) != last:
        end = {partition: min(offset + PER_JOB, last[partition]) for partition, offset in start.items()}
        limits = {"startingOffsets": _as_option(cell, start), "endingOffsets": _as_option(cell, end)}
        rows = spark.read.format("kwire").options(**source_options(cell), **limits).load()
        handled(rows, cell).write.mode("overwrite").parquet(str(table(cell) / f"job-{sum(start.values()):03}"))
        part = cell.path("done.part")
        part.write_text(json.dumps(end))
        part.rename(cell.path("done"))


def source_options(cell: Cell) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cell.servers, "subscribe": cell.topic, **loss_options(cell)}


def loss_options(cell: Cell) -> dict[str, str]:
    """What the user has written, and what an error has told to add."""
    lives_with_loss = cell.has("skip-loss") or Fault(cell.fault) is Fault.RETENTION_EARLIEST
    return {
        "failOnDataLoss": str(not lives_with_loss).lower(),
        "kwire.skipDamagedBatches": str(cell.has("skip-damage")).lower(),
    }


def handled(rows: DataFrame, cell: Cell) -> DataFrame:
    """The rows of the table. Values that do not fit fail the job, until an error has told the program to keep them."""
    options = {
        "mode": "PERMISSIVE" if cell.has("skip-failure") else "FAILFAST",
        "columnNameOfCorruptRecord": "bad",
    }
    parsed = sf.from_json(sf.col("value").cast("string"), SCHEMA, options)
    handle = sf.udf(HandleRow(Handle(cell, os.getpid())), "boolean")
    found = rows.select("partition", "offset", parsed.alias("parsed"), handle("partition", "offset").alias("is_done"))
    fits = sf.col("parsed.place").isNotNull() & sf.col("parsed.filling").isNotNull()
    return found.select("partition", "offset", (sf.col("is_done") & fits).alias("is_handled"))


def obey(cell: Cell, said: str) -> None:
    """Do what an error says. A handler that fails for now is not mended, but started again."""
    for words, step in ADVICE.items():
        if words in said and cell.fault != Fault.HANDLER_ONCE.value:
            cell.first(step)


# --- how far it is ------------------------------------------------------------------------------------------------


def table(cell: Cell) -> Path:
    return cell.path("table")


def checkpoint(cell: Cell) -> Path:
    return cell.path("checkpoint")


def done(cell: Cell) -> Ends:
    """What batch jobs have done: they begin at the offsets 0."""
    path = cell.path("done")
    found = json.loads(path.read_text()) if path.exists() else {}
    return {partition: found.get(str(partition), 0) for partition in range(PARTITIONS)}


def ends_of_log(cell: Cell) -> Ends:
    consumer: Consumer[bytes, bytes]
    with Consumer(bootstrap_servers=cell.servers) as consumer:
        ends = consumer.end_offsets([TopicPartition(cell.topic, partition) for partition in range(PARTITIONS)])
    return {tp.partition: offset for tp, offset in ends.items()}


def _as_option(cell: Cell, offsets: Ends) -> str:
    return json.dumps({cell.topic: {str(partition): offset for partition, offset in offsets.items()}})
