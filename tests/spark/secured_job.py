"""A job of Spark over SASL_SSL, which writes down all that Spark shows of it; run by `test_spark_secrets.py`.

    python -m tests.spark.secured_job FOLDER PASSWORD JAAS_PASSWORD WRONG_PASSWORD

In FOLDER are plans in each form then, pages of the UI, progress, checkpoint, event log, errors. Its own output is the
log of the driver and the executor, at DEBUG.
"""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kwire.spark.pipeline.session import REDACTED_OPTIONS
from kwire.testing import Cluster
from tools.spark_sessions import spark_session

PAGES = ("environment", "SQL", "StreamingQuery", "jobs", "stages", "executors")
ANSWERS = ("environment", "sql?details=true&planDescription=true", "jobs", "stages?details=true")


def run(folder: Path, password: str, jaas_password: str, wrong_password: str) -> None:
    users = {"alice": password, "bob": jaas_password}
    (folder / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "true",
        "spark.sql.redaction.options.regex": REDACTED_OPTIONS,
    }
    with Cluster(security_protocol="SASL_SSL", users=users, tls=True) as cluster:
        cluster.create_topic("orders", partitions=2)
        for number in range(10):
            cluster.produce("orders", b"%d" % number, partition=number % 2)
        with spark_session("secrets", memory="1g", settings=settings) as spark:
            spark.sparkContext.setLogLevel("DEBUG")
            by_password = options_of(cluster.client_config("alice"))
            by_jaas = options_of(cluster.client_config("bob"))
            del by_jaas["kafka.sasl.username"], by_jaas["kafka.sasl.password"]
            by_jaas["kafka.sasl.jaas.config"] = (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'username="bob" password="{jaas_password}";'
            )
            read_batch(spark, by_password, folder)
            read_stream(spark, by_jaas, folder)
            read_in_vain(spark, {**by_password, "kafka.sasl.password": wrong_password}, folder)
            save_pages(spark, folder)


def options_of(config: Mapping[str, str]) -> dict[str, str]:
    options = {"subscribe": "orders", "startingOffsets": "earliest", "fetchOffset.numRetries": "1"}
    return options | {f"kafka.{name}": value for name, value in config.items()}


def read_batch(spark: SparkSession, options: Mapping[str, str], folder: Path) -> None:
    frame = spark.read.format("kwire").options(**options).load()
    frame.createOrReplaceTempView("orders")
    (folder / "batch.count").write_text(str(spark.sql("SELECT value FROM orders").count()))
    save_plans(frame, folder / "batch.plans")


def read_stream(spark: SparkSession, options: Mapping[str, str], folder: Path) -> None:
    frame = spark.readStream.format("kwire").options(**options).load()
    save_plans(frame, folder / "stream.plans")
    writer = frame.writeStream.format("parquet").option("path", str(folder / "table"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    (folder / "progress.json").write_text("\n".join(each.json for each in query.recentProgress))
    with (folder / "query.plans").open("w") as file, redirect_stdout(file):
        query.explain(True)
    (folder / "stream.count").write_text(str(spark.read.parquet(str(folder / "table")).count()))


def read_in_vain(spark: SparkSession, options: Mapping[str, str], folder: Path) -> None:
    try:
        spark.read.format("kwire").options(**options).load().count()
    except PySparkException as error:
        (folder / "batch.error").write_text(str(error))
    try:
        frame = spark.readStream.format("kwire").options(**options).load()
        frame.writeStream.format("noop").option("checkpointLocation", str(folder / "second")).start().awaitTermination()
    except StreamingQueryException as error:
        (folder / "stream.error").write_text(str(error))


def save_plans(frame: DataFrame, path: Path) -> None:
    with path.open("w") as file, redirect_stdout(file):
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            frame.explain(mode=mode)
        file.write(frame._jdf.queryExecution().toString())


def save_pages(spark: SparkSession, folder: Path) -> None:
    top, application = spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId
    addresses = [f"{top}/{page}/" for page in PAGES] + [f"{top}/SQL/execution/?id={number}" for number in range(4)]
    addresses += [f"{top}/api/v1/applications/{application}/{answer}" for answer in ANSWERS]
    for number, address in enumerate(addresses):
        with urllib.request.urlopen(address) as answer:
            (folder / f"page-{number}.html").write_bytes(answer.read())


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:5])
