"""`scripts/prove handlers`: a handler that takes its time does not cost the membership.

Two members, each a process of its own, share two partitions; the session timeout is 6 s unless told otherwise. One of
them, the stubborn one, gets a record whose handler sleeps, spins in Python, or sits in one C call that never lets go of
the interpreter (the GIL). Meanwhile the other polls on. Both report what their listeners hear and which generation they
are in; a proxy in front of the broker notes when heartbeats really pass.

Python code is made to let others run every 5 ms, so the network thread heartbeats on time. During a C call that holds
the interpreter no thread of the process can run, in any client. So this is what is promised: a call shorter than the
session timeout less the heartbeat interval goes unnoticed; a longer one costs a rebalance, after which the member is
back by itself, and nothing is lost.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, NamedTuple
from uuid import uuid4

import typer
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kwire import Consumer, RebalanceConsumer, RebalanceListener
from kwire.testing.kafka import KafkaCluster
from kwire.testing.kafka.addresses import HOST, free_ports
from proofs.group import TIMEOUT_S, Group, make_topic, wait_until
from proofs.proxy import HeartbeatProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Event

    from kwire import TopicPartition

SESSION_TIMEOUT_MS = 6_000
HEARTBEATS_PER_SESSION = 3
LATE_S = 1.0  # more than a busy machine explains
FORMING_S = 120.0  # two interpreters have to start, and one member to hear of the other with its next heartbeat
STUBBORN, PATIENT = "stubborn", "patient"
NUDGE = b"nudge"


class Handler(Enum):
    """The handler of the stubborn member."""

    SLEEP = "sleep"
    SPIN = "spin"
    HOLD_SHORT = "hold-short"
    HOLD_LONG = "hold-long"

    @property
    def seconds(self) -> int:
        return {Handler.SLEEP: 30, Handler.SPIN: 10, Handler.HOLD_SHORT: 3, Handler.HOLD_LONG: 10}[self]

    @property
    def holds_interpreter(self) -> bool:
        return self in (Handler.HOLD_SHORT, Handler.HOLD_LONG)

    def run(self) -> None:
        if self is Handler.SLEEP:
            time.sleep(self.seconds)
        elif self is Handler.SPIN:
            until_s = time.monotonic() + self.seconds
            while time.monotonic() < until_s:
                pass
        else:
            hold_interpreter(self.seconds)


def hold_interpreter(seconds: int) -> None:
    """One C call that keeps the GIL all along: what a long `pow`, `sum(range(...))` or regular expression does, but for
    so many seconds on any machine."""
    ctypes.PyDLL(None).sleep(seconds)  # PyDLL: called as part of the interpreter, which lets go for a CDLL only


# --- a member's process ------------------------------------------------------------------------------------------


class Report(NamedTuple):
    """What a member tells the proof."""

    at_s: float
    member: str
    what: str
    partitions: frozenset[int] = frozenset()


class Reporter(RebalanceListener):
    """Tells what the listener is told, and what else the member finds worth telling."""

    def __init__(self, member: str, reports: Queue[Report]) -> None:
        self._member = member
        self._reports = reports

    def tell(self, what: str, partitions: Collection[TopicPartition] = ()) -> None:
        self._reports.put(Report(time.monotonic(), self._member, what, frozenset(tp.partition for tp in partitions)))

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.tell("assigned", partitions)

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.tell("revoked", partitions)

    def on_partitions_lost(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.tell("lost", partitions)


def poll_until_stopped(
    member: str, topic: str, settings: dict[str, object], handler: Handler, reports: Queue[Report], stop: Event
) -> None:
    """What a member's process does. The handler is the stubborn one's alone."""
    reporter = Reporter(member, reports)
    generation_id = -1
    is_fresh = member == STUBBORN
    with Consumer[bytes, bytes](config={"client_id": member, **settings}) as consumer:
        consumer.subscribe([topic], listener=reporter)
        while not stop.is_set():
            for record in consumer.poll(0.1):
                if record.value == NUDGE and is_fresh:
                    is_fresh = False  # a member that is expelled meanwhile gets the record again
                    reporter.tell("began")
                    handler.run()
                    reporter.tell("ended")
                reporter.tell(f"saw {record.partition}/{record.offset}")
            if (found := consumer.group_metadata().generation_id) != generation_id:
                generation_id = found
                reporter.tell(f"generation {generation_id}")


class Timers(NamedTuple):
    """The session timeout, and the heartbeat interval."""

    session_timeout_s: float
    interval_s: float

    def allow(self, silence_s: float) -> bool:
        """Whether a member may be silent for so long, whenever that begins."""
        return silence_s + self.interval_s < self.session_timeout_s


# --- the proof ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """The effect of one handler on the group."""

    group: Group
    handler: Handler
    timers: Timers
    took_s: float = 0.0
    heartbeat_gap_s: float = 0.0
    changes: list[str] = field(default_factory=list)
    """What the listeners heard since, and new generations."""
    back_after_s: float | None = None
    broken: list[str] = field(default_factory=list)

    @property
    def keeps_membership(self) -> bool:
        return not self.handler.holds_interpreter or self.timers.allow(self.took_s)

    def __str__(self) -> str:
        back = "" if self.back_after_s is None else f", back {self.back_after_s:.2f} s after the handler"
        return (
            f"{self.group.value:8} {self.handler.value:10} took {self.took_s:4.1f} s, longest gap between heartbeats "
            f"{self.heartbeat_gap_s:4.1f} s, {len(self.changes)} changes in the group{back}"
        )


class Trial:
    """Two members, one of them busy."""

    def __init__(
        self, bootstrap_servers: str, proxy: HeartbeatProxy, group: Group, handler: Handler, timers: Timers
    ) -> None:
        self.outcome = Outcome(group, handler, timers)
        self._servers = bootstrap_servers
        self._proxy = proxy
        self._topic = f"handlers-{uuid4().hex[:8]}"
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all"})
        self._written: list[str] = []
        self._told: list[Report] = []
        # Not `fork`: the child would have the threads' locks, and not the threads.
        context = multiprocessing.get_context("spawn")
        self._reports: Queue[Report] = context.Queue()
        self._stop = context.Event()
        self._processes = [
            context.Process(
                target=poll_until_stopped,
                args=(member, self._topic, self._settings(), handler, self._reports, self._stop),
                daemon=True,
            )
            for member in (STUBBORN, PATIENT)
        ]

    def _settings(self) -> dict[str, object]:
        group = self.outcome.group
        session_timeout_s, interval_s = self.outcome.timers
        timers = {
            "session_timeout_ms": int(session_timeout_s * 1000),
            "heartbeat_interval_ms": int(interval_s * 1000),
        }
        return {
            "bootstrap_servers": self._servers,
            "group_id": self._topic,
            "auto_offset_reset": "earliest",
            **group.settings,
            **({} if group is Group.CONSUMER else timers),
        }

    def run(self) -> Outcome:
        make_topic(self._servers, self._topic, 2)
        with self._members():
            if not self._wait(lambda: len(self._owned(STUBBORN)) == len(self._owned(PATIENT)) == 1, FORMING_S):
                self.outcome.broken.append("the group did not form")
                return self.outcome
            time.sleep(self.outcome.timers.interval_s)  # so that nothing of the beginning is on its way any more
            self._judge(time.monotonic())
        return self.outcome

    @contextmanager
    def _members(self) -> Iterator[None]:
        for process in self._processes:
            process.start()
        try:
            yield
        finally:
            self._stop.set()
            for process in self._processes:
                process.join(TIMEOUT_S)
                process.kill()

    def _judge(self, since_s: float) -> None:
        outcome = self.outcome
        self._write(next(iter(self._owned(STUBBORN))), NUDGE)
        if not self._wait(lambda: "ended" in self._heard(since_s), outcome.handler.seconds * 2 + TIMEOUT_S):
            outcome.broken.append("the handler did not end")
            return
        began_s, ended_s = (self._time_of(what, since_s) for what in ("began", "ended"))
        outcome.took_s = ended_s - began_s
        if not outcome.keeps_membership:
            self._await_return(ended_s)
        self._await_records()
        outcome.heartbeat_gap_s = self._proxy.longest_gap_s(STUBBORN, began_s - outcome.timers.interval_s, ended_s)
        kinds = ("assigned", "revoked", "lost", "generation")
        outcome.changes = [what for what in self._heard(since_s) if what.startswith(kinds)]
        self._judge_timers()

    def _judge_timers(self) -> None:
        outcome = self.outcome
        if outcome.keeps_membership and outcome.changes:
            outcome.broken.append(f"the group changed: {outcome.changes}")
        if not outcome.handler.holds_interpreter and outcome.heartbeat_gap_s > outcome.timers.interval_s + LATE_S:
            outcome.broken.append(f"{outcome.heartbeat_gap_s:.1f} s without a heartbeat")

    def _await_return(self, ended_s: float) -> None:
        """The one that was given up for dead gets a share again."""
        self._wait(lambda: "assigned" in self._heard(ended_s, STUBBORN))
        if "assigned" in self._heard(ended_s, STUBBORN):
            self.outcome.back_after_s = self._time_of("assigned", ended_s) - ended_s
        else:
            self.outcome.broken.append(f"not back {TIMEOUT_S:.0f} s after the handler")

    def _await_records(self) -> None:
        """Whatever happened, both partitions are read on, and nothing is left out."""
        for partition in (0, 1):
            self._write(partition, b"afterwards")
        if not self._wait(lambda: not self._unseen()):
            self.outcome.broken.append(f"never seen: {self._unseen()}")

    # --- what is known --------------------------------------------------------------------------------------

    def _write(self, partition: int, value: bytes) -> None:
        self._producer.produce(self._topic, value, partition=partition, on_delivery=self._note)
        self._producer.flush(TIMEOUT_S)

    def _note(self, error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        if error is not None:
            raise KafkaException(error)
        self._written.append(f"saw {message.partition()}/{message.offset()}")

    def _unseen(self) -> set[str]:
        return set(self._written) - {report.what for report in self._told}

    def _hear(self) -> None:
        while not self._reports.empty():
            self._told.append(self._reports.get())

    def _wait(self, condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> bool:
        def holds() -> bool:
            self._hear()
            return condition()

        return wait_until(holds, timeout_s)

    def _heard(self, since_s: float, member: str | None = None) -> list[str]:
        return [told.what for told in self._told if told.at_s >= since_s and member in (None, told.member)]

    def _time_of(self, what: str, since_s: float) -> float:
        """When the stubborn one first told it since then."""
        return next(t.at_s for t in self._told if t.at_s >= since_s and (t.member, t.what) == (STUBBORN, what))

    def _owned(self, member: str) -> frozenset[int]:
        owned: frozenset[int] = frozenset()
        for report in self._told:
            if report.member != member:
                continue
            if report.what == "assigned":
                owned |= report.partitions
            else:
                owned -= report.partitions
        return owned


def handlers(
    group: Annotated[list[Group] | None, typer.Option(help="Only groups of this kind; may be repeated.")] = None,
    handler: Annotated[list[Handler] | None, typer.Option(help="Only this handler; may be repeated.")] = None,
    session_timeout_ms: Annotated[int, typer.Option(min=1_500, help="The group's.")] = SESSION_TIMEOUT_MS,
) -> list[str]:
    """Handlers that sleep, spin or hold the interpreter: no rebalance, and heartbeats on time."""
    broken: list[str] = []
    (port,) = free_ports(1)
    interval_ms = session_timeout_ms // HEARTBEATS_PER_SESSION
    timers = Timers(session_timeout_ms / 1000, interval_ms / 1000)
    settings = {
        "group.consumer.session.timeout.ms": str(session_timeout_ms),
        "group.consumer.heartbeat.interval.ms": str(interval_ms),
    }
    kafka = KafkaCluster(settings=settings, advertised=[(HOST, port)])
    with kafka as cluster, HeartbeatProxy(port, cluster.client_addresses[0][1]) as proxy:
        for kind in group or (Group.RANGE, Group.CONSUMER):
            for chosen in handler or Handler:
                outcome = Trial(cluster.bootstrap_servers, proxy, kind, chosen, timers).run()
                print(outcome, flush=True)
                broken += [f"{kind.value}, {chosen.value}: {line}" for line in outcome.broken]
    return broken
