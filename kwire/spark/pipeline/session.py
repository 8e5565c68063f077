"""The Spark session of a pipeline, with kwire's source in it."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from kwire.errors import ConfigError
from kwire.spark.pipeline.plan import MIB, PipelinePlan

APPLICATION = "kwire pipeline"
# Spark's own default is url; by another setting it hides secret, password and token, wherever they stand.
REDACTED_OPTIONS = "(?i)url|sasl[.]jaas[.]config|ssl[.]keystore[.]key|passphrase"


def open_session(plan: PipelinePlan) -> SparkSession:
    """A session on the plan's master.

    Raises:
        ConfigError: Spark does not start here.
    """
    os.environ.setdefault("PYSPARK_PYTHON", python_of_workers(plan.master))
    builder = SparkSession.builder.appName(APPLICATION).master(plan.master)
    for name, value in settings_of(plan).items():
        builder = builder.config(name, value)
    try:
        with own_ctrl_c():
            session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise ConfigError(
            f"Spark does not start: {error}; what it printed may say why. It needs Java 17, by JAVA_HOME or on the PATH"
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    return session


def python_of_workers(master: str) -> str:
    """The Python that Spark starts its processes with, where PYSPARK_PYTHON names none (a cluster's administrator may).

    It is this process's, which has kwire and pyarrow. On this machine `kwire-spark-python` takes its place, if it is
    installed, because its processes start sooner. They import the PySpark that is installed, instead of the one in
    Spark's archive. So Spark has to be the one that came with this PySpark.
    """
    home = Path(pyspark.__file__).resolve().parent
    spark = Path(os.environ.get("SPARK_HOME", home)).resolve()
    lean = Path(sysconfig.get_path("scripts"), "kwire-spark-python")
    is_own_spark = spark == home and (home / "jars").is_dir()
    if master.startswith("local") and is_own_spark and os.access(lean, os.X_OK):
        return str(lean)
    return sys.executable


@contextmanager
def own_ctrl_c() -> Iterator[None]:
    """Keeps the handler of SIGINT. PySpark's, which a new session installs, cancels the batch under way, and breaks the
    call to the JVM that it interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no session installs one there
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:  # what C has installed cannot be put back
            signal.signal(signal.SIGINT, before)


def settings_of(plan: PipelinePlan) -> dict[str, str]:
    """Settings of the session: those that make files of the wanted size, and whatever the user says on top."""
    own = {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(plan.file_mib * MIB),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.ui.showConsoleProgress": "false",  # it would write over ours
        "spark.sql.redaction.options.regex": REDACTED_OPTIONS,
        # Faster by a tenth to a third than the loopback device, where there are such sockets.
        "spark.python.unix.domain.socket.enabled": str(sys.platform != "win32").lower(),
    }
    return own | dict(plan.spark)


def read_topics(session: SparkSession, plan: PipelinePlan) -> DataFrame:
    """The source's rows. Spark finds the source by itself."""
    return session.readStream.format("kwire").options(**source_options(plan)).load()


def source_options(plan: PipelinePlan) -> dict[str, str]:
    """What the source is told: what the plan says, and whatever the user says on top."""
    options = {"kafka.bootstrap.servers": plan.bootstrap, "subscribe": ",".join(plan.topics)}
    if plan.from_.startswith("@"):
        options |= {"startingTimestamp": plan.from_[1:], "startingOffsetsByTimestampStrategy": "latest"}
    else:
        options["startingOffsets"] = plan.from_
    if plan.fresh_first:
        options["kwire.freshFirst"] = "stateless"  # as it is: no target keeps state from batch to batch
    if plan.checkpoint is not None:
        options["kwire.checkpointLocation"] = plan.checkpoint
    return options | dict(plan.source)
