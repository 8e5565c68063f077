"""One life of a cell of `scripts/prove losses`: a process that reads until the judge has it stop.

`python -m proofs.losses.lives CELL` is such a life. It does what an error's message says and goes on with the same
consumer where that can be; otherwise it ends, and the judge starts the next one.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable

from kwire import Consumer, TopicPartition
from kwire.errors import (
    CorruptRecordError,
    OffsetOutOfRangeError,
    RebalanceListenerError,
    RecordDeserializationError,
    WakeupError,
)
from proofs.losses.cell import Cell
from proofs.losses.command import run_command
from proofs.losses.faults import Alarms, Fault, Handle, TimeLimitError
from proofs.losses.processors import run_processors
from proofs.losses.ways import POLL_S, Way, fork_and_poll, open_consumer


class Life:
    """One process of a plain way."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.way = Way(cell.way)
        self.handle = Handle(cell, os.getpid())
        self.is_told_to_end = False
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self.alarms = Alarms(cell)

    def _on_sigterm(self, _number: int, _frame: object) -> None:
        self.is_told_to_end = True

    @property
    def is_over(self) -> bool:
        return self.is_told_to_end or self.cell.has("stop")

    def run(self) -> None:
        read = self._loop if self.way is Way.LOOP_AUTO else self._poll
        with open_consumer(self.cell) as consumer:
            threading.Thread(target=self._wake_at_end, args=(consumer,), daemon=True).start()
            while not self.is_over:
                self._guarded(consumer, read)
                self._fork(consumer)

    def _wake_at_end(self, consumer: Consumer[object, object]) -> None:
        """A loop that waits for the next record sees no flag."""
        while not self.is_over:
            time.sleep(POLL_S / 2)
        consumer.wakeup()

    def _guarded(self, consumer: Consumer[object, object], read: Callable[[Consumer[object, object]], None]) -> None:
        """A turn of the program: what a call of the consumer raises is dealt with, and what the body raises ends it."""
        try:
            read(consumer)
        except RecordDeserializationError as error:
            self.cell.told(error)
            consumer.seek(error.partition, error.offset + 1)
        except CorruptRecordError as error:
            self.cell.told(error)
            step_over(consumer, error)
        except OffsetOutOfRangeError as error:
            self.cell.told(error)
            consumer.seek_to_beginning(list(error.offsets))
        except RebalanceListenerError as error:
            self.cell.told(error)
        except WakeupError:
            pass  # the judge has it stop
        except (KeyboardInterrupt, TimeLimitError) as error:
            self.alarms.in_call = False
            self.cell.told(error)
            if not Fault(self.cell.fault).goes_on:
                raise  # the body was interrupted, not a call of the consumer
        finally:
            self.alarms.in_call = False

    def _poll(self, consumer: Consumer[object, object]) -> None:
        self.alarms.in_call = True
        records = consumer.poll(POLL_S)
        self.alarms.in_call = False
        for record in records:
            self.cell.delivered(record.partition, record.offset)
        for record in records:
            self.handle(record)
        if not self.way.commits_by_itself and records:
            consumer.commit_sync()

    def _loop(self, consumer: Consumer[object, object]) -> None:
        self.alarms.in_call = True
        for record in consumer:
            self.alarms.in_call = False
            self.cell.delivered(record.partition, record.offset)
            self.handle(record)
            if self.is_over:
                break
            self._fork(consumer)
            self.alarms.in_call = True

    def _fork(self, consumer: Consumer[object, object]) -> None:
        if self.cell.fault == Fault.FORK.value and self.cell.places("handled") and self.cell.first("struck"):
            fork_and_poll(self.cell, consumer)


def step_over(consumer: Consumer[object, object], error: CorruptRecordError) -> None:
    """To where the error says that the next sound batch begins."""
    if error.topic is None or error.partition is None or error.offset is None:
        raise error  # it names no place
    consumer.seek(TopicPartition(error.topic, error.partition), error.next_offset or error.offset + 1)


def main() -> None:
    cell = Cell.from_json(sys.argv[1])
    try:
        way = Way(cell.way)
        if way is Way.COMMAND:
            run_command(cell)
        elif way.is_processor:
            run_processors(cell)
        else:
            Life(cell).run()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # what ends a program is noted
        cell.told(error)
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
