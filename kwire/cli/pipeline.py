"""`kwire pipeline`: write a topic to Parquet files, to the console or to a function, on Spark.

    kwire pipeline orders -b localhost:9092 --path /data/orders --partition-by date
    kwire pipeline orders -b localhost:9092 --to function --function billing:store --checkpoint /data/billing
    kwire pipeline --config orders.toml --exit-at-end

`kwire.spark.pipeline` does the work; this module has flags and exit codes. 0: the end was reached; 1: the query failed,
and continues from its checkpoint when it is started again; 2: the command or a setting was wrong; 128 + n: stopped by
signal n.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kwire.cli.exits import WRONG_USAGE, StopSignals, clean_exits
from kwire.cli.pipeline_settings import (
    kafka_environment,
    kafka_flags,
    kafka_properties,
    merged,
    pairs,
    read_file,
    schema_text,
    start_text,
    with_kafka,
)

if TYPE_CHECKING:
    from kwire.spark.pipeline.plan import PipelinePlan

# What `kwire[spark]` brings: without one of them the command says so.
_OF_THE_EXTRA = ("pyspark", "py4j", "pyarrow", "fastavro", "pandas")

Topic = Annotated[
    str | None, typer.Argument(metavar="TOPIC", help="The topic to read, or several: a,b.", show_default=False)
]
Servers = Annotated[
    str | None, typer.Option("--bootstrap", "-b", metavar="SERVERS", help="Brokers to begin with, host:port,host:port.")
]
To = Annotated[str | None, typer.Option("--to", metavar="TARGET", help="parquet (default), console or function.")]
TablePath = Annotated[
    str | None, typer.Option("--path", metavar="FOLDER", help="With parquet: the folder of the table.")
]
Function = Annotated[
    str | None,
    typer.Option("--function", metavar="MODULE:NAME", help="With function: called with each DataFrame and its number."),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint", metavar="FOLDER", help="The folder for its progress. Default: _checkpoint in the table."
    ),
]
ValueFormat = Annotated[
    str | None,
    typer.Option("--value-format", metavar="FORMAT", help="bytes (default), text, json, avro or avro-framed."),
]
ValueSchema = Annotated[
    str | None,
    typer.Option("--value-schema", metavar="SCHEMA", help="'id BIGINT, item STRING', JSON of Avro, or @FILE."),
]
OnBad = Annotated[
    str | None, typer.Option("--on-bad", metavar="WHAT", help="Values that do not fit: fail (default) or keep.")
]
PartitionBy = Annotated[
    str | None, typer.Option("--partition-by", metavar="COLUMNS", help="Folders of the table, such as date,hour.")
]
FileMib = Annotated[
    int | None, typer.Option("--file-mib", metavar="N", min=1, help="How large files should be, in MiB. Default: 128.")
]
Every = Annotated[
    float | None,
    typer.Option("--every", metavar="SECONDS", help="Seconds for which records are collected into one batch."),
]
From = Annotated[
    str | None,
    typer.Option("--from", "-o", metavar="START", help="Where to begin: earliest (default), latest, a time."),
]
ExitAtEnd = Annotated[bool, typer.Option("--exit-at-end", "-e", help="Stop where the topic ends now.")]
FreshFirst = Annotated[
    bool, typer.Option("--fresh-first", help="After an outage, read the newest records first and the rest in slices.")
]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="The Spark to run on. Default: local[*].")]
Metrics = Annotated[
    str | None, typer.Option("--metrics", metavar="FILE", help="Write a line of JSON for each batch to this file.")
]
Kafka = Annotated[
    list[str] | None, typer.Option("--kafka", metavar="NAME=VALUE", help="A setting of Kafka; may be repeated.")
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option("--kafka-config", metavar="FILE", help="Settings of Kafka from a client's properties file."),
]
Source = Annotated[
    list[str] | None,
    typer.Option("--source", "-X", metavar="NAME=VALUE", help="An option of the source; may be repeated."),
]
Spark = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings from a TOML file.")]


def run_pipeline(
    topic: Topic = None,
    bootstrap: Servers = None,
    to: To = None,
    path: TablePath = None,
    function: Function = None,
    checkpoint: Checkpoint = None,
    value_format: ValueFormat = None,
    value_schema: ValueSchema = None,
    on_bad: OnBad = None,
    partition_by: PartitionBy = None,
    file_mib: FileMib = None,
    every: Every = None,
    start: From = None,
    exit_at_end: ExitAtEnd = False,
    fresh_first: FreshFirst = False,
    master: Master = None,
    metrics: Metrics = None,
    kafka: Kafka = None,
    kafka_config: KafkaConfig = None,
    source: Source = None,
    spark: Spark = None,
    config: ConfigFile = None,
) -> None:
    """Write a topic into Parquet files, on Spark.

    It can also print the records, or call a function with them. Each record is in the table once, also after a crash:
    started again, the pipeline continues where it stopped. Settings are flags, or names in a TOML file, with
    underscores; flags win. Settings of Kafka may also be in the environment (KWIRE_BOOTSTRAP_SERVERS,
    KWIRE_SASL_PASSWORD, ...), over which flags win, or in the properties file of a Kafka client. Needs Java 17 and
    pip install 'kwire[spark]'.
    """
    with clean_exits():
        flags: dict[str, object] = {
            "topic": topic,
            "bootstrap": bootstrap,
            "to": to,
            "path": path,
            "function": function,
            "checkpoint": checkpoint,
            "value_format": value_format,
            "value_schema": value_schema,
            "on_bad": on_bad,
            "partition_by": partition_by,
            "file_mib": file_mib,
            "every_s": every,
            "from": start,
            "exit_at_end": exit_at_end or None,
            "fresh_first": fresh_first or None,
            "master": master,
            "metrics": metrics,
            "kafka": kafka_flags(kafka),
            "source": pairs("--source", source),
            "spark": pairs("--conf", spark),
        }
        _run(_plan(config, kafka_config, flags))


def _plan(config: Path | None, kafka_config: Path | None, flags: dict[str, object]) -> PipelinePlan:
    _check_extra()
    from kwire.spark.pipeline.plan import plan_from

    layers = (kafka_properties(kafka_config), kafka_environment(os.environ))
    settings = merged(with_kafka(read_file(config) if config else {}, *layers), flags)
    for name, read in (("value_schema", schema_text), ("from", start_text)):
        if isinstance(given := settings.get(name), str):
            settings[name] = read(given)
    return plan_from(settings)


def _run(plan: PipelinePlan) -> None:
    from kwire.cli.pipeline_output import watcher
    from kwire.spark.pipeline.run import run

    with StopSignals() as signals, watcher(",".join(plan.topics)) as watch:
        run(plan, watch, lambda: signals.received is not None)
    signals.exit_if_received()


def _check_extra() -> None:
    """Raises: typer.Exit, if packages that Spark needs are missing."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_EXTRA:
            raise
        print(f"kwire: {error.name} is missing: pip install 'kwire[spark]'", file=sys.stderr)
        raise typer.Exit(WRONG_USAGE) from None
