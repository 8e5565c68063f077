"""The ways to read of `scripts/prove losses`: the consumer of each, and which faults make no sense for it."""

from __future__ import annotations

import json
import os
import signal
import time
from enum import Enum
from typing import NoReturn

from kwire import Consumer
from proofs.losses.cell import PER_BATCH, Cell
from proofs.losses.faults import Fault, Listener, ReadValue

POLL_S = 0.2
CHILD_S = 3.0


class Way(Enum):
    """The rows."""

    POLL_COMMIT = "poll-commit"
    POLL_AUTO = "poll-auto-commit"
    LOOP_AUTO = "for-auto-commit"
    BY_PARTITION = "processor-partition"
    BY_KEY = "processor-key"
    BY_NONE = "processor-none"
    RETRY = "processor-retry"
    DEAD_LETTERS = "processor-dead-letters"
    POOL = "processor-process-pool"
    ASYNC = "processor-async"
    PARALLEL = "parallel-rebalance"
    PARALLEL_AUTO = "parallel-rebalance-auto-commit"
    PARALLEL_PROCESSOR = "parallel-rebalance-processor"
    COMMAND = "command-line"
    SPARK_BATCH = "spark-batch"
    SPARK_STREAM = "spark-stream"
    PIPELINE = "pipeline"
    PIPELINE_FUNCTION = "pipeline-function"

    @property
    def is_spark(self) -> bool:
        """Whether its processes are Spark's; how far it is stands in a checkpoint, and in no group."""
        return self in {Way.SPARK_BATCH, Way.SPARK_STREAM} or self.is_pipeline

    @property
    def is_pipeline(self) -> bool:
        return self in {Way.PIPELINE, Way.PIPELINE_FUNCTION}

    @property
    def keeps_bad(self) -> bool:
        """Whether a record that nobody can handle has to be kept somewhere."""
        return self is Way.DEAD_LETTERS or self.is_spark

    @property
    def is_processor(self) -> bool:
        return "processor" in self.value

    @property
    def is_parallel(self) -> bool:
        return self.value.startswith("parallel")

    @property
    def commits_by_itself(self) -> bool:
        return self in {Way.POLL_AUTO, Way.LOOP_AUTO, Way.PARALLEL_AUTO}


def open_consumer(cell: Cell) -> Consumer[object, object]:
    way = Way(cell.way)
    consumer: Consumer[object, object] = Consumer(
        bootstrap_servers=cell.servers,
        group_id=cell.group,
        auto_offset_reset=Fault(cell.fault).reset,
        enable_auto_commit=way.commits_by_itself,
        auto_commit_interval_ms=200,
        session_timeout_ms=6_000,
        max_poll_records=PER_BATCH + 10,  # a poll ends in the middle of a batch
        key_deserializer=json.loads,
        value_deserializer=ReadValue(cell),
        enable_parallel_rebalance=way.is_parallel,
        parallel_rebalance_min_lag_records=10,
    )
    consumer.subscribe([cell.topic], listener=Listener(cell))
    return consumer


def fork_and_poll(cell: Cell, consumer: Consumer[object, object]) -> None:
    """A child polls the consumer of its parent, closes it and ends. It is not waited for without an end."""
    child = os.fork()
    if not child:
        _use_and_end(cell, consumer)
    deadline_s = time.monotonic() + CHILD_S
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline_s:
            cell.note("told", f"(the forked child had not closed the consumer after {CHILD_S:.0f} s)")
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(0.01)


def _use_and_end(cell: Cell, consumer: Consumer[object, object]) -> NoReturn:
    try:
        records = consumer.poll(POLL_S)
        cell.note("told", f"(a poll of the forked child returned {len(records)} records)")
        consumer.close()
    except BaseException as error:  # noqa: BLE001  # whatever it is: nothing of the parent's program may run here
        cell.told(error)
    finally:
        os._exit(0)
