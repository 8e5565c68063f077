"""Runs a pipeline: starts the query, tells of each batch, and stops it when it is asked to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TextIO

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kwire.errors import ConfigError, KafkaError
from kwire.spark.pipeline import session as sessions
from kwire.spark.pipeline import targets
from kwire.spark.pipeline.columns import with_columns
from kwire.spark.pipeline.plan import PipelinePlan
from kwire.spark.pipeline.progress import Figures, StreamBatch, StreamProgress, batch_from, metrics_line

# How soon a batch that is done is told, and a signal is noticed.
LOOK_SECONDS = 1
QUERY_NAME = "kwire pipeline"
# Spark's prefix of the error that has ended a query: its ids mean something in Spark's log only.
_STREAM_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
# How a Python source's error ends in Spark's: the last line of its traceback. If a reader cannot be made, Spark stops
# it nevertheless, and an UnboundLocalError of its own follows.
_RAISED = re.compile(r"^(?:[\w.]+\.)?(?!UnboundLocalError)(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)


class PipelineError(KafkaError):
    """The query failed; the message says why, and Spark's own has everything."""


class Watch(Protocol):
    """What is told of each batch."""

    def __call__(self, figures: Figures, /) -> None: ...


def run(plan: PipelinePlan, watch: Watch, is_stopped: Callable[[], bool]) -> Figures | None:
    """Run until the end, if the plan has one, or until told to stop; the last figures, if there was any batch.

    A session that is there already is used, and stays.

    Raises:
        ConfigError: The plan cannot be carried out.
        PipelineError: The query failed. Started again, it goes on from its checkpoint.
    """
    is_ours = SparkSession.getActiveSession() is None
    with told_of_lost_jvm():
        with told_of_refusal():
            session = sessions.open_session(plan)
        try:
            with _metrics(plan) as metrics:
                with told_of_refusal():
                    query = _start(session, plan)
                return _follow(query, watch, metrics, is_stopped)
        finally:
            if is_ours:
                session.stop()


def _start(session: SparkSession, plan: PipelinePlan) -> StreamingQuery:
    return targets.start(with_columns(sessions.read_topics(session, plan), plan), plan, QUERY_NAME)


def _follow(
    query: StreamingQuery, watch: Watch, metrics: TextIO | None, is_stopped: Callable[[], bool]
) -> Figures | None:
    progress, told, figures = StreamProgress(), -1, None
    try:
        while not is_stopped():
            is_over = query.awaitTermination(LOOK_SECONDS)
            for batch in batches_after(query, told):
                told, figures = batch.number, progress.add(batch)
                watch(figures)
                if metrics is not None:
                    print(metrics_line(batch, figures), file=metrics, flush=True)
            if is_over:
                break
    except StreamingQueryException as error:
        raise PipelineError(said_by(str(error))) from error
    finally:
        query.stop()
    return figures


def batches_after(query: StreamingQuery, told: int) -> Iterator[StreamBatch]:
    """Batches that are done and were not told yet. Spark keeps the last hundred, and repeats the last while idle."""
    last = query.lastProgress
    if last is None or last.batchId <= told:
        return
    for each in query.recentProgress:
        if each.batchId > told:
            told = each.batchId
            yield batch_from(json.loads(each.json))


@contextmanager
def told_of_lost_jvm() -> Iterator[None]:
    """Raises: PipelineError, if the JVM is gone: every call of it fails then, those that clean up as well."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        if isinstance(error, Py4JJavaError):
            raise  # it is there, and says what is wrong
        raise PipelineError(f"Spark's JVM is gone ({type(error).__name__}); was it killed?") from error


@contextmanager
def told_of_refusal() -> Iterator[None]:
    """Raises: ConfigError, if Spark or its JVM refuses what the plan says: a path, a master, a setting of its own."""
    try:
        yield
    except Py4JJavaError as error:
        raise ConfigError(f"Spark says: {said_by(error.java_exception.toString())}") from None
    except PySparkException as error:
        reason: BaseException = error
        while (cause := getattr(reason, "_cause", None)) is not None:  # what it was converted from has no other name
            reason = cause
        raise ConfigError(said_by(str(reason))) from None


@contextmanager
def _metrics(plan: PipelinePlan) -> Iterator[TextIO | None]:
    if plan.metrics is None:
        yield None
        return
    try:
        file = Path(plan.metrics).open("a", encoding="utf-8")  # noqa: SIM115 - closed by the `with` below
    except OSError as error:
        raise ConfigError(f"metrics: cannot write {plan.metrics}: {error.strerror}") from None
    with file:
        yield file


def said_by(message: str) -> str:
    """What went wrong, of the pages that Spark says about it: what was raised last, or else the first line."""
    raised = _RAISED.findall(message)
    return f"{raised[-1][0]}: {raised[-1][1]}" if raised else _STREAM_FAILED.sub("", message.strip()).splitlines()[0]
