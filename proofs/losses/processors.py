"""The ways with a `Processor` of `scripts/prove losses`: its arguments, and what its user does when it ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Literal, TypedDict

from confluent_kafka import Producer

from kwire import Consumer, Record
from kwire.errors import (
    CorruptRecordError,
    OffsetOutOfRangeError,
    ProcessingError,
    RecordDeserializationError,
    WorkerError,
)
from kwire.processing import DeadLetter, Processor, Retry, dead_letter_topic
from proofs.losses.cell import Cell
from proofs.losses.faults import Alarms, Fault, Handle, TimeLimitError, TroubleError
from proofs.losses.ways import Way, fork_and_poll, open_consumer

POLL_INTERVAL_S = 0.1
HANDLED_BEFORE_CLOSING = 40


class Arguments(TypedDict, total=False):
    """Those of a `Processor` in which the ways differ."""

    ordering: Literal["partition", "key", "none"]
    executor: Executor
    retry: Retry
    on_failure: Literal["stop", "skip"] | DeadLetter[object, object]
    on_data_loss: Literal["stop", "skip"]


class ProcessorLife:
    """One process of a way with a processor."""

    def __init__(self, cell: Cell, stack: ExitStack) -> None:
        self.cell = cell
        self.way, self.fault = Way(cell.way), Fault(cell.fault)
        self.handle = Handle(cell, os.getpid())
        self.pool = stack.enter_context(self._new_pool()) if self.way is Way.POOL else None
        self.consumer: Consumer[object, object] = stack.enter_context(open_consumer(cell))
        self.processor = self._new_processor()
        self.is_told_to_end = False
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self.alarms = Alarms(cell)
        threading.Thread(target=self._watch, daemon=True).start()

    def _on_sigterm(self, _number: int, _frame: object) -> None:
        self.is_told_to_end = True
        self.processor.stop()

    def run(self) -> None:
        """Processors on one consumer, until one has been told to stop, or its user has to make all anew."""
        while not self.is_told_to_end and not self.cell.has("stop"):
            try:
                self.alarms.in_call = True
                self.processor.run()
            except (KeyboardInterrupt, TimeLimitError) as error:
                self.alarms.in_call = False
                self.cell.told(error)  # somebody's Ctrl-C in a notebook, who runs the next line
            except (CorruptRecordError, OffsetOutOfRangeError):
                self.cell.first("skip-loss")
                raise
            except WorkerError:
                raise
            except ProcessingError:
                self.cell.first("skip-failure")
                raise
            finally:
                self.alarms.in_call = False
            self.processor = self._new_processor()

    def _watch(self) -> None:
        while not self.cell.has("stop"):
            time.sleep(POLL_INTERVAL_S)
            self._close_executor()
            if self.pool is not None:
                self._fork()
        self.is_told_to_end = True
        self.processor.stop()

    def _close_executor(self) -> None:
        if self.pool is None or self.fault is not Fault.EXECUTOR_CLOSED:
            return
        if len(self.cell.places("handled")) >= HANDLED_BEFORE_CLOSING and self.cell.first("struck"):
            self.pool.shutdown(wait=False)

    # --- how it is made -----------------------------------------------------------------------------------------

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def _new_processor(self) -> Processor[object, object]:
        handler = self._handle_async if self.way is Way.ASYNC else self._plain_handler()
        return Processor(
            self.consumer, handler, workers=4, commit_interval=0.2, key_order_within_ranges=True, **self._arguments()
        )

    def _plain_handler(self) -> Callable[[Record[object, object]], None]:
        return self.handle if self.way is Way.POOL else self._handle

    def _handle(self, record: Record[object, object]) -> None:
        time.sleep(0.002)
        self._fork()
        self.handle(record)

    def _fork(self) -> None:
        if self.fault is Fault.FORK and self.cell.places("handled") and self.cell.first("struck"):
            fork_and_poll(self.cell, self.consumer)

    async def _handle_async(self, record: Record[object, object]) -> None:
        self._handle(record)

    def _arguments(self) -> Arguments:
        """What the user has written, and what an error has told to add."""
        found: Arguments = {}
        if self.way is Way.BY_KEY:
            found["ordering"] = "key"
        if self.way is Way.BY_NONE:
            found["ordering"] = "none"
        if self.fault is Fault.HANDLER_ALWAYS:
            found["retry"] = Retry(max_attempts=2, backoff=0.01)
        if self.way is Way.RETRY:
            found["retry"] = Retry(max_attempts=3, backoff=0.01)
        if self.pool is not None:
            found["executor"] = self.pool
        if self.cell.has("skip-failure"):
            found["on_failure"] = "skip"
            found["retry"] = Retry(max_attempts=3, backoff=0.01)
        if self.cell.has("skip-loss"):
            found["on_data_loss"] = "skip"
        if self.way is Way.DEAD_LETTERS:
            producer = Producer({"bootstrap.servers": self.cell.servers, "linger.ms": 0})
            found["on_failure"] = partial(self._write_dead_letter, dead_letter_topic(producer, self.cell.dead_topic))
            found["retry"] = Retry(max_attempts=2, backoff=0.01)
        return found

    def _write_dead_letter(
        self, writer: DeadLetter[object, object], record: Record[object, object], error: Exception
    ) -> None:
        """The dead letters' broker may be down for the whole of the first life."""
        if self.fault is Fault.DEAD_LETTERS_DOWN and not self.cell.has("second-life"):
            raise TroubleError("the dead letters' broker is down")
        if not isinstance(error, RecordDeserializationError):  # of those the bytes of the log go along
            record = record._replace(key=json.dumps(record.key), value=json.dumps(record.value))
        writer(record, error)
        self.cell.note("buried", f"{record.partition} {record.offset}")


def run_processors(cell: Cell) -> None:
    """One life."""
    with ExitStack() as stack:
        ProcessorLife(cell, stack).run()
