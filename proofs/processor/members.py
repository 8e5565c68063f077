"""Parts of `prove.py`: members as processes, the records that they get, and their reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from proofs.group import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSION_TIMEOUT_MS = 6_000
INTERVAL_S = 0.02
RECORDS_EACH = 6


class Sent(NamedTuple):
    """An acknowledged record."""

    partition: int
    offset: int
    key: str


class Told(NamedTuple):
    """That a member has begun with a record, or is through with it ("record_begun", "record_handled"); or any other of
    its lines, without a value."""

    at_ms: int
    nth: int
    member: str
    what: str
    value: str = ""


class Story:
    """All that was sent and told. Any thread may write; questions are for when something is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: list[Told] = []
        self._handled: set[str] = set()
        self.sent: dict[str, Sent] = {}
        self.closed: set[str] = set()
        """Members that have given everything up in order."""
        self.losers: set[str] = set()
        """Members that have lost partitions: who lost them may work on."""

    def tell(self, member: str, line: str) -> None:
        fields = json.loads(line)
        name = fields["name"]
        with self._lock:
            self._told.append(Told(fields["timestamp"], len(self._told), member, name, fields.get("value", "")))
            if name == "record_handled":
                self._handled.add(fields["value"])
            elif name == "partitions_lost" and fields["partitions"]:
                self.losers.add(member)

    def acknowledge(self, value: str, sent: Sent) -> None:
        with self._lock:
            self.sent[value] = sent

    def missing(self) -> set[str]:
        """What nobody has handled (yet)."""
        with self._lock:
            return self.sent.keys() - self._handled

    def values(self, member: str, what: str) -> set[str]:
        with self._lock:
            return {told.value for told in self._told if (told.member, told.what) == (member, what)}

    def in_order(self) -> list[Told]:
        """By the machine's clock, which all share."""
        with self._lock:
            return sorted(self._told)

    def count(self, what: str) -> int:
        with self._lock:
            return sum(told.what == what for told in self._told)


class ProcessorMember:
    """A verifiable consumer that works with a `Processor`, in a process of its own, and below it those of its pool."""

    def __init__(self, story: Story, name: str, flags: list[str], log: Path) -> None:
        self.name = name
        self._story = story
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kwire.verifiable_consumer", *flags],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name=name)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # the last one may have been cut off
                    self._story.tell(self.name, line)

    def kill(self) -> None:
        """SIGKILL, its pool too. Returns when all it has said is known."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._wait()

    def close(self) -> None:
        """In order."""
        self._process.terminate()
        self._wait()
        self._story.closed.add(self.name)

    def _wait(self) -> None:
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise
        self._reader.join(TIMEOUT_S)


class KeyedTraffic(threading.Thread):
    """Sends records with keys, every now and then some, until it is stopped."""

    def __init__(self, servers: str, topic: str, partitions: int, keys: int, story: Story) -> None:
        super().__init__(name="traffic")
        settings: dict[str, str | int | float | bool] = {"bootstrap.servers": servers, "log_level": 0}
        self._producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 0})
        self._topic, self._partitions, self._keys, self._story = topic, partitions, keys, story
        self._number = 0
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            self.send(RECORDS_EACH)

    def send(self, count: int) -> None:
        for number in range(self._number, self._number + count):
            key = f"key{number % self._keys}"
            value, partition = f"value{number}", number % self._keys % self._partitions

            def note(error: KafkaError | None, message: Message[bytes, bytes], value: str = value) -> None:
                if error is not None:
                    raise KafkaException(error)
                offset, at = message.offset(), message.partition()
                assert offset is not None
                assert at is not None
                self._story.acknowledge(value, Sent(at, offset, f"key{int(value[5:]) % self._keys}"))

            self._producer.produce(self._topic, value, key, partition=partition, on_delivery=note)
            self._producer.poll(0)
        self._number += count

    def flush(self) -> None:
        if left := self._producer.flush(TIMEOUT_S):
            raise TimeoutError(f"{left} records not acknowledged within {TIMEOUT_S} s")

    def stop(self) -> None:
        """Returns when all that was sent is acknowledged."""
        self._stopped.set()
        self.join()
        self.flush()


@dataclass(slots=True)
class Verdict:
    """The verdict on order and on records that ran again."""

    out_of_order: list[str] = field(default_factory=list)
    overlapping: list[str] = field(default_factory=list)
    unfinished: int = 0
    """Ran again, for the member that had begun it was killed before it was through."""
    uncommitted: int = 0
    """Ran again, for the member that was through with it was killed before a commit said so."""
    unexplained: list[str] = field(default_factory=list)
    """Ran again though nobody was killed over it."""


def judge(story: Story, *, by_key: bool) -> Verdict:
    """Each record is begun when all in front of it in its queue are done, and by one member at a time."""
    queues: defaultdict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
    for value, sent in story.sent.items():
        queues[sent.partition, sent.key if by_key else ""].append((sent.offset, value))
    for queue in queues.values():
        queue.sort()
    waiting = {name: iter(queue) for name, queue in queues.items()}
    first = {name: next(rest) for name, rest in waiting.items()}
    verdict, done, begun = Verdict(), set[str](), dict[str, str]()
    in_work: dict[tuple[int, str], str] = {}
    for told in story.in_order():
        if told.value not in story.sent:
            continue
        sent = story.sent[told.value]
        name = sent.partition, sent.key if by_key else ""
        if told.what == "record_handled":
            done.add(told.value)
            in_work.pop(name, None)
            while first[name][1] in done and (following := next(waiting[name], None)) is not None:
                first[name] = following
        elif told.what == "record_begun":
            _judge_beginning(verdict, story, told, first[name], in_work.get(name), begun, done)
            begun[told.value], in_work[name] = told.member, told.member
    return verdict


def _judge_beginning(
    verdict: Verdict,
    story: Story,
    told: Told,
    first: tuple[int, str],
    holder: str | None,
    begun: dict[str, str],
    done: set[str],
) -> None:
    if first[0] < story.sent[told.value].offset and first[1] not in done:
        verdict.out_of_order.append(f"{told.member} began {told.value} before {first[1]}")
    if holder not in (None, told.member) and holder in story.closed:
        verdict.overlapping.append(f"{told.member} began {told.value} while {holder} had one of its queue")
    before = begun.get(told.value)
    if before is None:
        return
    if before in story.closed or before == told.member:
        verdict.unexplained.append(f"{told.member} began {told.value} again, which {before} had had")
    elif told.value in done:
        verdict.uncommitted += 1
    else:
        verdict.unfinished += 1


def flags_of(servers: str, topic: str, group: str, orders: Path, *more: str) -> Iterator[str]:
    """A member's command line."""
    yield from ("--bootstrap-server", servers, "--topic", topic, "--group-id", group, "--orders", str(orders))
    yield from ("--session-timeout", str(SESSION_TIMEOUT_MS), "--assignment-strategy", "cooperative-sticky")
    yield from more
