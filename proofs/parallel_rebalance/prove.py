"""`scripts/prove parallel-rebalance`: members are killed again and again while they catch up, and nothing is skipped.

For each group protocol a topic that grows all the time, and one member after the other, each ended by kill -9 at a
moment of chance: before it has got its partitions, in the middle of its lag, between its commits. The last one is left
alone. Each record has to be processed; none may come again that a commit had said is done; and `committed()` is never
ahead of what is processed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, cast
from uuid import uuid4

import typer
from confluent_kafka import Message, Producer

from kwire.testing.kafka import KafkaCluster
from proofs.group import TIMEOUT_S, make_topic, wait_until

MEMBER = Path(__file__).with_name("member.py")
PARTITIONS = 2
RECORDS_PER_S = 400
DRAIN_S = 120.0
COMES_S = 90.0
# After the first records of a life, at most; a third of them are killed on the way there.
LIVES_S = 1.5
EARLY_S = 1.0
BROKER_SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
}

At = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True)
class Judge:
    """What all members of one group have told, in order."""

    processed: set[At] = field(default_factory=set)
    delivered: set[At] = field(default_factory=set)
    durable: set[At] = field(default_factory=set)
    life: set[At] = field(default_factory=set)
    """Given to the one that lives, in its present assignment."""
    from_children: int = 0
    duplicates: int = 0
    uncommitted: int = 0
    """What was given to those that were killed, and no commit had said to be done; each time anew."""
    broken: list[str] = field(default_factory=list)

    def hear(self, line: str) -> None:
        told = json.loads(line)
        match told["what"]:
            case "polled":
                for partition, first, stop, is_childs in told["parts"]:
                    self._polled(partition, range(first, stop), is_childs=is_childs)
            case "processed":
                self.processed |= {(part, at) for part, first, stop, _ in told["parts"] for at in range(first, stop)}
            case "committed":
                self.durable |= self.life
            case "given up":
                self.life = {at for at in self.life if at[0] not in told["partitions"]}
            case "low":
                for partition, low in told["offsets"]:
                    self._told_low(partition, low)
            case _:
                pass  # an assignment, or a commit that was refused

    def _polled(self, partition: int, offsets: range, *, is_childs: bool) -> None:
        new = {(partition, offset) for offset in offsets}
        if twice := new & self.life:
            self.broken.append(f"{len(twice)} offsets came twice to one member, such as {min(twice)}")
        if needless := new & self.durable:
            self.broken.append(f"{len(needless)} offsets came again that were committed, such as {min(needless)}")
        self.duplicates += len(new & self.delivered)
        self.from_children += len(new) if is_childs else 0
        self.life |= new
        self.delivered |= new

    def _told_low(self, partition: int, low: int) -> None:
        ahead = [offset for offset in range(low) if (partition, offset) not in self.processed]
        if ahead:
            self.broken.append(f"committed() was {low} in partition {partition}, and {ahead[0]} was not processed")

    def killed(self) -> None:
        self.uncommitted += len(self.life - self.durable)
        self.life = set()


class Member:
    """A process, and what it tells."""

    def __init__(self, judge: Judge, arguments: Sequence[str], errors: Path) -> None:
        self.has_records = threading.Event()
        self._judge = judge
        with errors.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(MEMBER), *arguments], stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # the last one may have been cut off
                    self._judge.hear(line)
                    if '"polled"' in line:
                        self.has_records.set()

    def kill(self) -> None:
        """SIGKILL. Returns when all it has told is known."""
        self._process.kill()
        self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        self._judge.killed()


class Traffic(threading.Thread):
    """Records to all partitions in turn, until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(name="traffic")
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        self._topic = topic
        self._over = threading.Event()
        self.sent: set[At] = set()

    def run(self) -> None:
        number = 0
        while not self._over.wait(0.05):
            for _ in range(RECORDS_PER_S // 20):
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._note
                )
                number += 1
            self._producer.poll(0)

    def _note(self, error: object, message: Message[bytes, bytes]) -> None:
        assert error is None, error
        self.sent.add((cast(int, message.partition()), cast(int, message.offset())))

    def stop(self) -> None:
        self._over.set()
        self.join()
        if left := self._producer.flush(TIMEOUT_S):
            raise TimeoutError(f"{left} records were not acknowledged")


def prove(servers: str, protocol: str, kills: int, seed: int, errors: Path) -> list[str]:
    """One group, whose members are killed so often."""
    name, rng, judge = f"lag-{protocol}-{uuid4().hex[:8]}", random.Random(f"{protocol} {seed}"), Judge()
    make_topic(servers, name, PARTITIONS)
    traffic = Traffic(servers, name)
    traffic.start()
    try:
        for number in range(kills):
            member = Member(judge, [servers, name, name, protocol, f"{seed} {number}"], errors)
            if number % 3 == 2:
                time.sleep(rng.uniform(0.0, EARLY_S))
                member.has_records.wait(rng.uniform(0.0, 5.0))
            else:
                member.has_records.wait(COMES_S)
                time.sleep(rng.uniform(0.0, LIVES_S))
            member.kill()
    finally:
        traffic.stop()
    last = Member(judge, [servers, name, name, protocol, f"{seed} last"], errors)
    is_drained = wait_until(lambda: traffic.sent <= judge.processed, DRAIN_S)
    last.kill()
    print(
        f"{protocol:8} {kills} kills: {len(traffic.sent)} records, {len(judge.processed)} processed, lost "
        f"{len(traffic.sent - judge.processed)}; {judge.from_children} given by children; came again "
        f"{judge.duplicates}, of {judge.uncommitted} uncommitted",
        flush=True,
    )
    broken = judge.broken[:3]
    if not is_drained:
        broken.append(f"{len(traffic.sent - judge.processed)} records were not processed within {DRAIN_S:.0f} s")
    if judge.duplicates > judge.uncommitted:
        broken.append(f"{judge.duplicates} came again, and only {judge.uncommitted} were uncommitted")
    if not judge.from_children:
        broken.append("no child had anything to do")
    return [f"{protocol}: {line}" for line in broken]


def parallel_rebalance(
    kills: Annotated[int, typer.Option(min=1, help="Members that are killed, of each protocol.")] = 25,
    seed: Annotated[int, typer.Option(help="Of the moments of chance.")] = 1,
) -> Sequence[str]:
    """A member that is killed while catching up skips nothing, and repeats only what was not committed."""
    broken: list[str] = []
    with KafkaCluster(settings=BROKER_SETTINGS) as cluster, tempfile.TemporaryDirectory(prefix="kwire-prove-") as name:
        errors = Path(name, "errors.txt")
        for protocol in ("classic", "consumer"):
            broken += prove(cluster.bootstrap_servers, protocol, kills, seed, errors)
        if text := errors.read_text().strip():
            print(text[-2_000:])
    return broken
