"""`scripts/prove slow-handler`: a record whose handler takes ten minutes holds up nobody but the records of its key.

A member with a `Processor`, in a process of its own, has two partitions with a thousand records a second. A client that
does not poll for `MAX_POLL_INTERVAL_MS` is given up. The first record of one partition takes all the time there is.
Meanwhile the group must not rebalance, the member's memory must not grow, the other partition's commits must advance,
and so must what the slow one's commits say of other keys. In the end each record has been handled, those of the slow
key in order.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, NamedTuple
from uuid import uuid4

import typer
from confluent_kafka import Producer

from kwire import Consumer, OffsetAndMetadata, RebalanceConsumer, RebalanceListener, Record, TopicPartition
from kwire.processing import Processor, decode
from kwire.testing.kafka import KafkaCluster
from proofs.group import TIMEOUT_S, Group, make_topic, wait_until

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Event

    from kwire.config import Settings

MAX_POLL_INTERVAL_MS = 15_000
COMMIT_INTERVAL_S = 1.0
SAMPLES = 60  # over the whole time, but no more than one in two commit intervals
PER_SECOND = 1_000
SLOW_KEY_RECORDS = 10  # further ones, spread over the time
KEYS = 50
VALUE_BYTES = 100
GROWTH_BYTES = 8 * 1024 * 1024  # what an allocator may keep of a moment in which more was in work
SLOW = b"slow"
SLOW_PARTITION, OTHER_PARTITION = 0, 1
PAGE_BYTES = 4096


# --- the member's process ---------------------------------------------------------------------------------------------


class Look(NamedTuple):
    """A status that the member reports at intervals."""

    resident_bytes: int
    handled: int
    slow_done: bool
    changes: tuple[str, ...]
    """What its listener has heard."""


class Farewell(NamedTuple):
    """And at its end."""

    handled: int
    slow_offsets: tuple[int, ...]
    generations: tuple[int, int]
    """In the beginning, and now."""


class Hearing(RebalanceListener):
    def __init__(self) -> None:
        self.changes: list[str] = []

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.changes.append(f"assigned {len(partitions)}")

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.changes.append(f"revoked {len(partitions)}")

    def on_partitions_lost(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.changes.append(f"lost {len(partitions)}")


def work(
    topic: str, settings: Settings, seconds: float, looks: Queue[Look | Farewell], every_s: float, stop: Event
) -> None:
    """What the process does."""
    hearing, slow_offsets, is_slow_done = Hearing(), list[int](), threading.Event()

    def handle(record: Record[bytes, bytes]) -> None:
        if record.key != SLOW:
            return
        if not slow_offsets:
            slow_offsets.append(record.offset)
            time.sleep(seconds)
            is_slow_done.set()
        else:
            slow_offsets.append(record.offset)

    consumer: Consumer[bytes, bytes] = Consumer(config=settings)
    consumer.subscribe([topic], listener=hearing)
    with consumer:
        while not consumer.assignment():
            consumer.poll(0.1)
            consumer.seek_to_beginning(list(consumer.assignment()))  # what came already is the processor's
        before = consumer.group_metadata().generation_id
        with Processor(consumer, handle, ordering="key", workers=4, commit_interval=COMMIT_INTERVAL_S) as processor:
            while not stop.wait(every_s):
                handled = processor.status().handled
                looks.put(Look(resident_bytes(), handled, is_slow_done.is_set(), tuple(hearing.changes)))
        after = consumer.group_metadata().generation_id
        looks.put(Farewell(processor.status().handled, tuple(slow_offsets), (before, after)))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


# --- the proof --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    group: Group
    seconds: float
    resident: list[int] = field(default_factory=list)
    other_commits: list[int] = field(default_factory=list)
    slow_commits: list[int] = field(default_factory=list)
    slow_told: list[int] = field(default_factory=list)
    """How many records behind the slow one its commits say are done."""
    changes: tuple[str, ...] = ()
    written: int = 0
    farewell: Farewell | None = None

    @property
    def growth_bytes(self) -> float:
        """From the second fifth, when all is loaded, to the last."""
        fifth = max(1, len(self.resident) // 5)
        return median(self.resident[-fifth:]) - median(self.resident[fifth : 2 * fifth])

    def __str__(self) -> str:
        grown_mb, now_mb = self.growth_bytes / 1e6, self.resident[-1] / 1e6
        told, commits = self.slow_told, self.other_commits
        return (
            f"{self.group.value:8} one record of {self.written:,} took {self.seconds:.0f} s; in {len(commits)} looks: "
            f"memory {now_mb:.0f} MB, grown by {grown_mb:.1f}; commits of the other partition {commits[0]:,} to "
            f"{commits[-1]:,}; done behind the slow one, as its commits say, {told[0]:,} to {told[-1]:,}; "
            f"the group: {', '.join(self.changes)}"
        )

    def broken(self) -> Iterator[str]:
        if len(self.other_commits) < 3 or self.farewell is None:
            yield "it was over before there was anything to see"
            return
        if self.changes != ("assigned 2",) or self.farewell.generations[0] != self.farewell.generations[1]:
            yield f"the group changed: {self.changes}, generations {self.farewell.generations}"
        if self.growth_bytes > GROWTH_BYTES:
            yield f"memory grew by {self.growth_bytes / 1e6:.1f} MB"
        if not advances(self.other_commits):
            yield f"commits of the other partition do not advance: {self.other_commits}"
        # As a rule it is the first of all, but a batch that a producer had to send again may come behind the next one.
        slow = self.farewell.slow_offsets[0]
        if set(self.slow_commits) != {slow}:
            yield f"commits of the slow partition do not stay at the slow record, {slow}: {self.slow_commits}"
        if not advances(self.slow_told):
            yield f"what is known as done behind the slow record does not advance: {self.slow_told}"
        if self.farewell.handled != self.written:
            yield f"{self.farewell.handled} records were handled, of {self.written}"
        if list(self.farewell.slow_offsets) != sorted(self.farewell.slow_offsets):
            yield f"records of the slow key were handled out of order: {self.farewell.slow_offsets}"


def advances(figures: list[int]) -> bool:
    return all(one < two for one, two in pairwise(figures))


class Trial:
    """One group."""

    def __init__(self, bootstrap_servers: str, group: Group, seconds: float) -> None:
        self.outcome = Outcome(group, seconds)
        self._servers = bootstrap_servers
        self._topic = f"slow-handler-{uuid4().hex[:8]}"
        self._every_s = max(2 * COMMIT_INTERVAL_S, seconds / SAMPLES)
        context = multiprocessing.get_context("spawn")  # not `fork`: the child would have the locks, not the threads
        self._looks: Queue[Look | Farewell] = context.Queue()
        self._stop = context.Event()
        self._enough = threading.Event()
        settings = {
            "bootstrap_servers": bootstrap_servers,
            "group_id": self._topic,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
            **group.settings,
        }
        arguments = (self._topic, settings, seconds, self._looks, self._every_s, self._stop)
        self._process = context.Process(target=work, args=arguments, daemon=True)

    def run(self) -> Outcome:
        make_topic(self._servers, self._topic, 2)
        with self._running():
            self._watch()
            self._enough.set()
            self._traffic.join()
            self._last_look()
            self._stop.set()
            last = self._looks.get(timeout=TIMEOUT_S)
            self.outcome.farewell = last if isinstance(last, Farewell) else None
        return self.outcome

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._traffic = threading.Thread(target=self._write, name="traffic")
        self._traffic.start()
        self._process.start()
        try:
            yield
        finally:
            self._enough.set()
            self._traffic.join()
            self._stop.set()
            self._process.join(TIMEOUT_S)
            self._process.kill()

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 20, "acks": "all"})
        value, begin_s, slow_every = bytes(VALUE_BYTES), time.monotonic(), int(self.outcome.seconds * PER_SECOND)
        slow_every = max(1, slow_every // SLOW_KEY_RECORDS // 2 * 2)
        while not self._enough.is_set():
            while self.outcome.written < (time.monotonic() - begin_s) * PER_SECOND:
                number = self.outcome.written
                key = SLOW if number % slow_every == 0 else b"key-%d" % (number // 2 % KEYS)
                producer.produce(self._topic, value, key=key, partition=number % 2)
                self.outcome.written += 1
            producer.poll(0)
            time.sleep(0.01)
        producer.flush(TIMEOUT_S)

    def _watch(self) -> None:
        """Until the slow record is done."""
        until_s = time.monotonic() + self.outcome.seconds + 2 * TIMEOUT_S
        with Consumer[bytes, bytes](bootstrap_servers=self._servers, group_id=self._topic) as watcher:
            while time.monotonic() < until_s:
                look = self._looks.get(timeout=self._every_s + TIMEOUT_S)
                assert isinstance(look, Look)
                self.outcome.changes = look.changes
                if look.slow_done:
                    return
                if look.handled:
                    self.outcome.resident.append(look.resident_bytes)
                    self._note_commits(watcher)

    def _note_commits(self, watcher: Consumer[bytes, bytes]) -> None:
        slow, other = (TopicPartition(self._topic, number) for number in (SLOW_PARTITION, OTHER_PARTITION))
        committed = watcher.committed([slow, other])
        nothing = OffsetAndMetadata(0)
        at = committed[slow] or nothing
        found = decode(at.offset, at.metadata)
        self.outcome.slow_commits.append(at.offset)
        self.outcome.slow_told.append(sum(map(len, found.finished)) if found is not None else 0)
        self.outcome.other_commits.append((committed[other] or nothing).offset)

    def _last_look(self) -> None:
        """Until all that was written is handled."""

        def is_done() -> bool:
            look = self._looks.get(timeout=self._every_s + TIMEOUT_S)
            return isinstance(look, Look) and look.handled >= self.outcome.written

        wait_until(is_done)


def slow_handler(
    minutes: Annotated[float, typer.Option(min=0.2, help="How long the slow record takes.")] = 10.0,
    group: Annotated[list[Group] | None, typer.Option(help="Only groups of this kind; may be repeated.")] = None,
) -> list[str]:
    """A record that takes ten minutes: no rebalance, no memory, and everybody else goes on."""
    kinds = group or [Group.RANGE, Group.CONSUMER]
    with KafkaCluster() as kafka:
        trials = [Trial(kafka.bootstrap_servers, kind, 60.0 * minutes) for kind in kinds]
        threads = [threading.Thread(target=trial.run) for trial in trials]  # side by side: they only wait
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    broken: list[str] = []
    for trial in trials:
        broken += [f"{trial.outcome.group.value}: {line}" for line in trial.outcome.broken()]
        if trial.outcome.other_commits:
            print(trial.outcome, flush=True)
    return broken
