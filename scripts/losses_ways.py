"""The ways to read of `scripts/prove losses`: the consumer of each, and which faults make no sense for it."""

from __future__ import annotations

import json
import os
import signal
import time
from enum import Enum
from typing import NoReturn

from losses_cell import PER_BATCH, Cell
from losses_faults import Fault, Listener, ReadValue

from kwire import Consumer

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


# --- what makes no sense ------------------------------------------------------------------------------------------

ONLY_FOR = {
    Fault.WORKER_KILLED: ({Way.POOL}, "no process of its own handles a record"),
    Fault.EXECUTOR_CLOSED: ({Way.POOL}, "it has no executor"),
    Fault.DEAD_LETTERS_DOWN: ({Way.DEAD_LETTERS}, "it has no dead letters"),
}
NOT_FOR_COMMANDS = {
    Fault.BAD_VALUE: "it prints bytes as they are",
    Fault.BAD_KEY: "it prints bytes as they are",
    Fault.LISTENER: "it takes no listener",
    Fault.HANDLER_ONCE: "it takes no handler",
    Fault.HANDLER_ALWAYS: "it takes no handler",
    Fault.HANDLER_INTERRUPT: "it takes no handler",
    Fault.SIGINT_DESERIALIZER: "it deserializes nothing",
    Fault.ALARM: "it sets no alarm",
    Fault.ALARMS: "it sets no alarm",
    Fault.ALARMS_AT_FIRST: "it sets no alarm",
    Fault.FORK: "it does not fork",
}


def why_not(way: Way, fault: Fault) -> str | None:
    """Why this cell makes no sense; None if it does."""
    if fault in ONLY_FOR:
        ways, reason = ONLY_FOR[fault]
        return None if way in ways else reason
    if way is Way.COMMAND:
        return NOT_FOR_COMMANDS.get(fault)
    if fault is Fault.HANDLER_ALWAYS and not way.is_processor:
        return "the program's own code handles the record, and decides"
    return None
