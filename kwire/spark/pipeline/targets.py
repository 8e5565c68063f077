"""Where a pipeline's rows go: a table of Parquet files, the console, or a function of the user's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kwire.errors import ConfigError
from kwire.spark.callbacks import CallbackError, answering_the_jvm
from kwire.spark.pipeline.plan import PipelinePlan, Target
from kwire.unfinished import is_coroutine, is_generator, unfinished

BatchFunction: TypeAlias = Callable[[DataFrame, int], None]


def start(rows: DataFrame, plan: PipelinePlan, name: str) -> StreamingQuery:
    """The running query.

    Raises:
        ConfigError: The function cannot be found.
    """
    writer = _writer(rows, plan)
    if plan.checkpoint is not None:
        writer = writer.option("checkpointLocation", plan.checkpoint)
    if plan.exit_at_end:
        writer = writer.trigger(availableNow=True)
    elif plan.every_s is not None:
        writer = writer.trigger(processingTime=f"{round(plan.every_s * 1000)} milliseconds")
    return writer.queryName(name).start()


def _writer(rows: DataFrame, plan: PipelinePlan) -> DataStreamWriter:
    match plan.to:
        case Target.PARQUET:
            return _table(rows, plan)
        case Target.CONSOLE:
            return rows.writeStream.format("console")
        case Target.FUNCTION:
            assert plan.function is not None
            return rows.writeStream.foreachBatch(function_of(plan.function))


def _table(rows: DataFrame, plan: PipelinePlan) -> DataStreamWriter:
    """Spark's file sink: its log in the table says which files of a batch count, so each row is there once.

    Tasks of the source would each write a file into each folder. Rebalanced, a folder gets one file from each batch, or
    several of the wanted size.
    """
    rows = rows.hint("rebalance", *plan.partition_by)
    writer = rows.writeStream.format("parquet").outputMode("append").option("path", plan.path)
    return writer.partitionBy(*plan.partition_by) if plan.partition_by else writer


def function_of(name: str) -> BatchFunction:
    """What "module:function" names, with modules of the working directory.

    Raises:
        ConfigError: There is no such module, or no such function in it; or calling it only makes what is to be awaited
            or iterated.
    """
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise ConfigError(f"function is module:function, not {name!r}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"function {name}: there is no module {error.name}") from None
    found = getattr(module, function_name, None)
    if not callable(found):
        raise ConfigError(f"function {name}: {module_name} has no function {function_name}")
    if is_coroutine(found) or is_generator(found):
        raise ConfigError(
            f"function {name}: when it returns nothing is done: make it a function without async and yield"
        )
    return _called(found, name)


def _called(function: Callable[..., object], name: str) -> BatchFunction:
    def call(rows: DataFrame, batch: int) -> None:
        with answering_the_jvm(name):
            if problem := unfinished(function(rows, batch)):
                raise CallbackError(f"{name}: {problem}")

    return call
