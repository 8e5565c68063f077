"""A process with a Spark session that runs lives of cells of `scripts/prove losses`, one after the other.

`python -m proofs.losses.spark_host` takes a cell from each line of its input, and prints `over` when a life has ended.
Faults that end the process are those of a program of its own: the judge starts the next one.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING

from kwire.spark.pipeline.run import said_by
from proofs.losses.cell import Cell
from proofs.losses.pipeline import run_here
from proofs.losses.spark import JVM_OPTIONS, QUICK_START, obey, run_batches, run_stream
from proofs.losses.ways import Way
from tools.spark_sessions import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OVER = "over"
JAVA = ": org.apache.spark"


def live(spark: SparkSession, cell: Cell) -> None:
    """One life; what ends it is noted."""
    way = Way(cell.way)
    try:
        if way.is_pipeline:
            run_here(cell)
        elif way is Way.SPARK_BATCH:
            run_batches(spark, cell)
        else:
            run_stream(spark, cell)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # what ends a program is noted
        traceback.print_exc()
        cell.note("told", f"{type(error).__name__}: {line_of(error)}")
        obey(cell, str(error))


def line_of(error: BaseException) -> str:
    """What went wrong, of the pages that Spark says about it. Py4J says first which of its calls failed."""
    text = str(error).split(f"{JAVA}.", 1)[-1]
    return said_by(text) if text else ""


def is_alive(spark: SparkSession) -> bool:
    """Whether the session's JVM is there: it may just have been killed."""
    try:
        return bool(spark.range(1).schema)
    except Exception:  # noqa: BLE001  # whatever a broken connection is told as
        return False


def main() -> None:
    settings = {JVM_OPTIONS: QUICK_START}
    with spark_session("losses", memory="1g", lean=True, settings=settings) as spark:
        jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # started by this process
        for line in sys.stdin:
            cell = Cell.from_json(line)
            cell.path("jvm").write_text(str(jvm))
            live(spark, cell)
            if not is_alive(spark):
                os._exit(1)  # there is nothing left to end
            print(OVER, flush=True)


if __name__ == "__main__":
    main()
