"""The faults of `scripts/prove losses`: what is wrong with the topic, and what strikes in the process that reads it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from kwire import RebalanceConsumer, RebalanceListener, TopicPartition
from proofs.losses.cell import TARGET, Cell, Place

if TYPE_CHECKING:
    from kwire import Record

DELETED = 40  # retention: the log begins here, the group has committed what lies in front
COMMITTED = 20
BAD = b"{this is no JSON"
MARKER = b"strike-me-"
ALARMS = 200
ALARM_EVERY_S = 0.004


class Fault(Enum):
    """The columns."""

    NONE = "none"
    BAD_VALUE = "bad-value"
    BAD_KEY = "bad-key"
    CORRUPT = "corrupt-batch"
    RETENTION_NONE = "retention-none"
    RETENTION_EARLIEST = "retention-earliest"
    LISTENER = "listener-raises"
    HANDLER_ONCE = "handler-once"
    HANDLER_ALWAYS = "handler-always"
    HANDLER_INTERRUPT = "handler-keyboard-interrupt"
    WORKER_KILLED = "worker-killed"
    JVM_KILLED = "jvm-killed"
    EXECUTOR_CLOSED = "executor-closed"
    DEAD_LETTERS_DOWN = "dead-letters-down"
    SIGINT_DESERIALIZER = "ctrl-c-in-deserializer"
    SIGINT_HANDLER = "ctrl-c-in-handler"
    ALARM = "alarm-in-deserializer"
    ALARMS = "alarms-anywhere"
    ALARMS_AT_FIRST = "alarms-from-first-poll"
    SIGTERM = "sigterm"
    FORK = "fork"

    @property
    def has_bad_record(self) -> bool:
        """Whether no handler can ever have the target."""
        return self in {Fault.BAD_VALUE, Fault.BAD_KEY, Fault.HANDLER_ALWAYS, Fault.DEAD_LETTERS_DOWN}

    @property
    def goes_on(self) -> bool:
        """Whether the same consumer can be used after it."""
        return self in {Fault.SIGINT_DESERIALIZER, Fault.ALARM, Fault.ALARMS, Fault.ALARMS_AT_FIRST}

    @property
    def has_retention(self) -> bool:
        return self in {Fault.RETENTION_NONE, Fault.RETENTION_EARLIEST}

    @property
    def reset(self) -> str:
        return "none" if self is Fault.RETENTION_NONE else "earliest"


class TimeLimitError(Exception):
    """Raised by the handler of SIGALRM: a time limit is over."""


class TroubleError(Exception):
    """What a handler raises."""


def value_of(place: Place, fault: Fault) -> bytes:
    """The value that is produced: JSON with its place, and a kilobyte, so that pipes fill up."""
    if place == TARGET and fault in {Fault.BAD_VALUE, Fault.DEAD_LETTERS_DOWN}:
        return BAD
    marker = MARKER.decode() if place == TARGET else ""
    return json.dumps({"place": place, "filling": marker + "x" * 1000}).encode()


def key_of(place: Place, fault: Fault) -> bytes:
    return BAD if place == TARGET and fault is Fault.BAD_KEY else json.dumps(f"key {place.offset % 10}").encode()


def signal_main_thread(number: signal.Signals) -> None:
    """The main thread runs Python's handler, and is woken if it sleeps."""
    if threading.current_thread() is threading.main_thread():
        signal.raise_signal(number)
    else:
        signal.pthread_kill(threading.main_thread().ident or 0, number)


class Alarms:
    """The handler of SIGALRM: raises where the deserializer says, or again and again while kwire has the thread."""

    def __init__(self, cell: Cell) -> None:
        self._is_everywhere = Fault(cell.fault) in {Fault.ALARMS, Fault.ALARMS_AT_FIRST}
        self._left = ALARMS
        self.in_call = False
        """Whether kwire has the thread; between its calls nothing is raised, for that is the program's own affair."""
        signal.signal(signal.SIGALRM, self._on_alarm)
        if cell.fault == Fault.ALARMS.value:
            import kwire.fetching.open_fetch  # noqa: F401  # else the first poll imports it, and numpy
        if self._is_everywhere and cell.first("struck"):
            signal.setitimer(signal.ITIMER_REAL, ALARM_EVERY_S, ALARM_EVERY_S)

    def _on_alarm(self, _number: int, _frame: object) -> None:
        if self._is_everywhere:
            if not self.in_call or not self._left:
                return
            self._left -= 1
        raise TimeLimitError("the time limit is over")


@dataclass(frozen=True, slots=True)
class ReadValue:
    """The value's deserializer."""

    cell: Cell

    def __call__(self, data: bytes) -> object:
        if MARKER in data:
            self._strike()
        return json.loads(data)

    def _strike(self) -> None:
        fault = Fault(self.cell.fault)
        if fault is Fault.SIGINT_DESERIALIZER and self.cell.first("struck"):
            signal_main_thread(signal.SIGINT)
        if fault is Fault.ALARM and self.cell.first("struck"):
            signal_main_thread(signal.SIGALRM)


@dataclass(frozen=True, slots=True)
class Handle:
    """What is done with a record; picklable, for pools of processes."""

    cell: Cell
    main_process: int

    def __call__(self, record: Record[object, object]) -> None:
        self.of_place(record.partition, record.offset)

    def of_place(self, partition: int, offset: int) -> None:
        if Place(partition, offset) == TARGET:
            self.strike()
        self.cell.handled(partition, offset)

    def strike(self) -> None:
        """What befalls the target."""
        fault = Fault(self.cell.fault)
        if fault is Fault.HANDLER_ALWAYS:
            raise TroubleError("this record cannot be handled")
        if not (fault in ONCE_IN_HANDLER and self.cell.first("struck")):
            return
        if fault is Fault.HANDLER_ONCE:
            raise TroubleError("this record cannot be handled for now")
        if fault is Fault.HANDLER_INTERRUPT:
            raise KeyboardInterrupt
        if fault is Fault.WORKER_KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault is Fault.JVM_KILLED:
            os.kill(int(self.cell.path("jvm").read_text()), signal.SIGKILL)
            return
        self._send(signal.SIGTERM if fault is Fault.SIGTERM else signal.SIGINT)

    def _send(self, number: signal.Signals) -> None:
        if os.getpid() == self.main_process:
            signal_main_thread(number)
        else:
            os.kill(self.main_process, number)


ONCE_IN_HANDLER = {
    Fault.HANDLER_ONCE,
    Fault.HANDLER_INTERRUPT,
    Fault.WORKER_KILLED,
    Fault.JVM_KILLED,
    Fault.SIGTERM,
    Fault.SIGINT_HANDLER,
}


@dataclass(frozen=True, slots=True)
class Listener(RebalanceListener):
    """Raises when partitions are assigned, once."""

    cell: Cell

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, _partitions: Collection[TopicPartition]) -> None:
        if self.cell.fault == Fault.LISTENER.value and self.cell.first("struck"):
            raise TroubleError("the listener failed")
