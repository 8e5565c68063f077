"""A Spark session of this process, on cores of this machine, for proofs, benchmarks and tests; with `kafka` it has
Spark's own Kafka source as well, beside kwire's."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from kwire.spark.pipeline.session import own_ctrl_c
from kwire.testing.kafka.jars import HOME
from tools.spark_jars import ensure_spark_jars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The tree whose kwire the workers import, in front of what is installed.
IMPORT_PATH = os.pathsep.join([str(HOME), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]).rstrip(os.pathsep)


# What `kwire-spark-python` is where kwire is installed, with the kwire of this tree.
LEAN_PYTHON = """#!/bin/sh
PYTHONPATH={home}:$PYTHONPATH exec {python} -m pyspark_kwire.python "$@"
"""
# Workers and JVM are on one machine: Spark offers them a way that is shorter than TCP.
LEAN_SETTINGS = {"spark.python.unix.domain.socket.enabled": "true"}


@contextmanager
def spark_session(
    name: str,
    *,
    cores: int = 2,
    attempts: int = 1,
    memory: str = "2g",
    kafka: bool = False,
    lean: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session that ends with the block. The first of a process starts the JVM; its memory and jars stay.

    Args:
        name: for Spark's own pages and logs.
        cores: how many tasks run at once.
        attempts: how often a task may fail until its job has.
        memory: the heap of the JVM, as Java writes it.
        kafka: whether to add the jars of Spark's own Kafka source.
        lean: whether Spark's Python processes start and talk as docs/spark.md advises.
        settings: further ones of Spark.

    Raises:
        MissingSoftwareError: there are no jars, and Maven cannot get them.
    """
    scratch = Path(tempfile.mkdtemp(prefix="kwire-spark-"))
    python = _lean_python(scratch) if lean else sys.executable
    # A source that Spark found by itself runs with the driver's Python, as far as its environment names one.
    os.environ["PYSPARK_DRIVER_PYTHON"] = os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYTHONPATH"] = IMPORT_PATH
    builder = SparkSession.builder.appName(name).master(f"local[{cores},{attempts}]")
    wanted = {**settings_of(scratch, cores, memory, kafka=kafka), **(LEAN_SETTINGS if lean else {}), **(settings or {})}
    for key, value in wanted.items():
        builder = builder.config(key, value)
    with own_ctrl_c():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def _lean_python(scratch: Path) -> str:
    script = scratch / "python"
    script.write_text(LEAN_PYTHON.format(python=sys.executable, home=HOME))
    script.chmod(0o755)
    return str(script)


def settings_of(scratch: Path, cores: int, memory: str, *, kafka: bool) -> dict[str, str]:
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    here = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    places = {"spark.local.dir": str(scratch / "local"), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    # Workers that Spark starts on a busy machine take longer to call back than the 15 s it gives them.
    patience = {"spark.python.authenticate.socketTimeout": "120s"}
    sizes = {"spark.driver.memory": memory, "spark.sql.shuffle.partitions": str(2 * cores)}
    jars = {"spark.jars": ",".join(map(str, ensure_spark_jars()))} if kafka else {}
    return {**quiet, **here, **places, **patience, **sizes, **jars, "spark.sql.session.timeZone": "UTC"}
