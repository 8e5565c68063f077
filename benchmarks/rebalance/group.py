"""A group of members of one library for `scripts/bench rebalance`: its processes, and the three events that are timed.

Used by `measure.py`. Three members stay: two of them for good, one to be killed. A fourth joins and leaves. Every
process has been a member of a group of its own before, so nobody's first connection or first class is timed. Who left
takes the place of the one that was killed, and a new process waits to join next.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from benchmarks.rebalance.java import compile_java
from benchmarks.rebalance.ledger import Ledger, Line
from benchmarks.rebalance.member import LOG_VARIABLE
from kwire.testing.kafka.jars import ensure_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HERE = Path(__file__).resolve().parent
PARTITIONS = 12
EVENT_TIMEOUT_S = 60.0
WARM_UP_TIMEOUT_S = 45.0
WARM_UP_ATTEMPTS = 4
RESIDENTS = ("first", "second")
VICTIM = "victim"
JOINER = "joiner"
# Whose heartbeats decide how long an event takes: those who have to hear of it; of a death, the last of the dead.
DECIDING = {"join": (*RESIDENTS, VICTIM), "leave": (*RESIDENTS, VICTIM), "kill": (VICTIM,)}
# A member hears at its next record that it is to close, and closes at the moment it is told.
CLOSE_LEAD_NS = 60_000_000


class StuckError(Exception):
    """An event was not over in time; says how the group stood."""


def python_member(library: str) -> list[str]:
    return [sys.executable, str(HERE / "member.py"), library]


def java_member(classes: Path) -> list[str]:
    """Compiles the member into `classes`."""
    kafka = ensure_kafka()
    compile_java("rebalance_member.java", classes)
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    return [str(kafka.java), *options, "-cp", f"{classes}:{kafka.libs}/*", "RebalanceMember"]


class Member:
    """A process. What it says goes to `sink`, on a thread of its own."""

    def __init__(self, command: Sequence[str], client: str, sink: Callable[[Line], None], log: TextIO | int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
        if not isinstance(log, int):
            environment[LOG_VARIABLE] = "1"
        self.client = client
        self.sink = sink
        self._process = subprocess.Popen(
            [*command, f"client.id={client}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
            env=environment,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self.sink(Line.parse(text))

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        if self._process.poll() is not None:
            raise StuckError(f"a member ended by itself, with exit code {self._process.returncode}")
        self._process.stdin.write(command + "\n")

    def kill(self) -> None:
        """As `kill -9`; waits for the end."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


class Group:
    """A context manager: its members end with it.

    Args:
        name: The group's.
        command: Starts a member; topic and settings are added.
        settings: Under Kafka's names.
        logs: Where members write what they log; by default they log nothing.
    """

    def __init__(
        self, name: str, command: Sequence[str], topic: str, settings: Mapping[str, str], logs: Path | None = None
    ) -> None:
        self.topic = topic
        self.name = name
        self._command = [*command, topic, *(f"{key}={value}" for key, value in settings.items())]
        self._logs = logs
        self._members: dict[str, Member] = {}
        self._processes = itertools.count()
        self._making_ns = 0
        self._ledger = Ledger(PARTITIONS)
        self._changed = threading.Condition()
        self._files = ExitStack()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill them all."""
        for member in self._members.values():
            member.kill()
        self._members.clear()
        self._files.close()

    # --- the events -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bring three members to their partitions, and a fourth process to wait.

        Raises:
            StuckError: They do not get there.
        """
        for name in (*RESIDENTS, VICTIM, JOINER):
            self._spawn(name)
        for name in (*RESIDENTS, VICTIM):
            self._enter(name)

    def join(self, at_ns: int = 0) -> int:
        """Nanoseconds from its subscribing until all partitions flow again, as in the others.

        Making the client comes before that moment: it takes what it took the last time.
        """
        sleep_until(at_ns - self._making_ns)
        return self._enter(JOINER)

    def leave(self, at_ns: int) -> int:
        """From the call of close."""
        with self._changed:
            self._ledger.leave(JOINER)
            self._ledger.begin_with(JOINER, "closing")
        self._members[JOINER].tell(f"close {at_ns}")
        return self._await()

    def kill(self, at_ns: int = 0) -> int:
        """From the kill."""
        sleep_until(at_ns)
        with self._changed:
            self._ledger.leave(VICTIM)
            self._ledger.begin_at(time.monotonic_ns())
        self._members.pop(VICTIM).kill()
        return self._await()

    def replace(self) -> None:
        """After a kill: three members again, and a fourth process to wait."""
        self._members[VICTIM] = self._members.pop(JOINER)
        self._members[VICTIM].sink = lambda line: self._hear(VICTIM, line)
        self._open(VICTIM)
        self._spawn(JOINER)
        self._await()

    def catch_up(self, event: str) -> None:
        """From the start to where a group stands after that event."""
        if event == "join":
            self.join()
        elif event == "kill":
            self.kill()

    def lead_ns(self, event: str) -> int:
        """How long before its moment an event has to be begun."""
        return {"join": self._making_ns, "leave": CLOSE_LEAD_NS, "kill": 0}[event]

    def deciding(self, event: str) -> tuple[str, ...]:
        """Client ids of those whose heartbeats decide."""
        return tuple(self._members[name].client for name in DECIDING[event])

    def began_ns(self) -> int:
        """When the last event did."""
        with self._changed:
            began_ns = self._ledger.began_ns
        assert began_ns is not None
        return began_ns

    def last_assigned_ns(self) -> int:
        """Heartbeats are counted from here: during a rebalance they are sent off the beat, or not at all."""
        with self._changed:
            return self._ledger.last_assigned_ns()

    # --- members --------------------------------------------------------------------------------------------

    def _spawn(self, name: str) -> None:
        """Start a process and warm it up; on a busy machine that may need another attempt."""
        for attempt in range(WARM_UP_ATTEMPTS):
            try:
                self._warm_up(name, attempt)
            except StuckError:
                self._members.pop(name).kill()
                if attempt == WARM_UP_ATTEMPTS - 1:
                    raise
            else:
                return

    def _warm_up(self, name: str, attempt: int) -> None:
        heard: queue.SimpleQueue[Line] = queue.SimpleQueue()
        log: TextIO | int = subprocess.DEVNULL
        if self._logs is not None:
            log = self._files.enter_context((self._logs / f"{self.name}-{name}.log").open("a"))
        client = f"{self.name}-{next(self._processes)}"
        member = self._members[name] = Member(self._command, client, heard.put, log)
        member.tell(f"open {self.name}-warm-up-{name}-{attempt}-{time.monotonic_ns()}")
        _await_line(heard, "progress", f"{self.name}-{name}")
        member.tell("close 0")
        _await_line(heard, "closed", f"{self.name}-{name}")
        member.sink = lambda line: self._hear(name, line)

    def _enter(self, name: str) -> int:
        told_ns = time.monotonic_ns()
        self._open(name)
        took_ns = self._await()
        self._making_ns = self.began_ns() - told_ns
        return took_ns

    def _open(self, name: str) -> None:
        with self._changed:
            self._ledger.enter(name)
            self._ledger.begin_with(name, "subscribing")
        self._members[name].tell(f"open {self.name}")

    def _hear(self, name: str, line: Line) -> None:
        with self._changed:
            self._ledger.hear(name, line)
            self._changed.notify_all()

    def _await(self) -> int:
        with self._changed:
            if not self._changed.wait_for(lambda: self._ledger.took_ns() is not None, EVENT_TIMEOUT_S):
                raise StuckError(f"not over after {EVENT_TIMEOUT_S:.0f} s: {self._ledger.describe()}")
            took_ns = self._ledger.took_ns()
            assert took_ns is not None
            return took_ns


def _await_line(heard: queue.SimpleQueue[Line], kind: str, name: str) -> None:
    """Read what a new member says up to a line of this kind."""
    deadline_s = time.monotonic() + WARM_UP_TIMEOUT_S
    said: list[str] = []
    while kind not in said:
        try:
            said.append(heard.get(timeout=max(0.0, deadline_s - time.monotonic())).kind)
        except queue.Empty:
            problem = f"{name} did not come to {kind!r} within {WARM_UP_TIMEOUT_S:.0f} s; it said {said}"
            raise StuckError(problem) from None


def sleep_until(at_ns: int) -> None:
    time.sleep(max(0, at_ns - time.monotonic_ns()) / 1e9)
