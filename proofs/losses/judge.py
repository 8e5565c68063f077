"""Runs a cell of `scripts/prove losses`, life by life, and says what became of its records."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as AdminTopicPartition
from confluent_kafka.admin import AdminClient

from kwire.testing.kafka import ClusterError
from proofs.group import TIMEOUT_S, make_topic
from proofs.losses.cell import ALL, PARTITIONS, PER_BATCH, PER_PARTITION, TARGET, Cell, Place
from proofs.losses.faults import COMMITTED, DELETED, MARKER, Fault, key_of, value_of
from proofs.losses.ways import Way
from tools.environment import TOP

PATIENCE_S = 20.0
ENDING_S = 10.0
POLL_INTERVAL_S = 0.1
NEW_FROM = 80  # with parallel rebalance: what lies in front is a lag, these are written later


@dataclass(slots=True)
class Outcome:
    """The outcome of the records of a cell."""

    way: Way
    fault: Fault
    reason: str | None = None
    """Why the cell makes no sense."""
    delivered: int = 0
    handled: int = 0
    committed: int = 0
    lost: list[Place] = field(default_factory=list)
    twice: int = 0
    lives: int = 0
    is_stuck: bool = False
    took_s: float = 0.0
    told: list[str] = field(default_factory=list)

    @property
    def problem(self) -> str | None:
        """What is wrong, in a line."""
        if self.lost:
            return f"{len(self.lost)} lost: {', '.join(f'{p}/{o}' for p, o in self.lost[:5])}"
        if self.is_stuck:
            return f"stuck at {self.committed} committed"
        return f"consumer unusable: {self.told[-1]}" if self.fault.goes_on and self.lives > 1 else None

    def __str__(self) -> str:
        name = f"{self.way.value:30} {self.fault.value:26}"
        if self.reason is not None:
            return f"{name} - {self.reason}"
        told = f" | {self.told[0][:150]}" if self.told else ""
        return (
            f"{name} {self.problem or 'kept':12} delivered {self.delivered}, handled {self.handled}, committed "
            f"{self.committed}, twice {self.twice}, lives {self.lives}, {self.took_s:.1f} s{told}"
        )


class Judge:
    """Runs cells against one Kafka.

    Args:
        bootstrap_servers: Its brokers.
        kafka_directory: Where the brokers keep their data.
        directory: For the notes of the cells.
    """

    patience_s = PATIENCE_S

    def __init__(self, bootstrap_servers: str, kafka_directory: Path, directory: Path) -> None:
        self._servers = bootstrap_servers
        self._kafka_directory = kafka_directory
        self._directory = directory
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def run(self, way: Way, fault: Fault) -> Outcome:
        cell = self._prepare(way, fault)
        outcome = Outcome(way, fault)
        began_s = time.monotonic()
        outcome.is_stuck = not self._live_on(cell, outcome, began_s + self.patience_s)
        outcome.took_s = time.monotonic() - began_s
        self._count(cell, outcome)
        return outcome

    # --- before -------------------------------------------------------------------------------------------------

    def _prepare(self, way: Way, fault: Fault) -> Cell:
        topic = f"losses-{uuid4().hex[:8]}"
        directory = self._directory / topic
        directory.mkdir()
        cell = Cell(way.value, fault.value, self._servers, topic, str(directory))
        make_topic(self._servers, topic, PARTITIONS)
        make_topic(self._servers, cell.dead_topic, 1)
        first = self._begin(cell, COMMITTED if fault.has_retention else 0)
        self._produce(topic, fault, range(first, NEW_FROM if way.is_parallel else PER_PARTITION))
        if fault.has_retention:
            gap = AdminTopicPartition(topic, TARGET.partition, DELETED)
            for deleted in self._admin.delete_records([gap]).values():
                deleted.result(TIMEOUT_S)
        if fault is Fault.CORRUPT:
            self._damage(topic)
        return cell

    def _produce(self, topic: str, fault: Fault, offsets: range) -> None:
        producer = Producer(
            {"bootstrap.servers": self._servers, "linger.ms": 1000, "batch.num.messages": PER_BATCH, "log_level": 0}
        )
        for first in offsets[::PER_BATCH]:
            for place in sorted(ALL):
                if first <= place.offset < first + PER_BATCH:
                    producer.produce(topic, value_of(place, fault), key_of(place, fault), partition=place.partition)
            if left := producer.flush(TIMEOUT_S):
                raise ClusterError(f"{topic}: {left} records were not acknowledged within {TIMEOUT_S:.0f} s")

    def _begin(self, cell: Cell, offset: int) -> int:
        """The group has been there: a lag is one only then, and a position can be lost. The first offset to produce."""
        at = [AdminTopicPartition(cell.topic, TARGET.partition, offset), AdminTopicPartition(cell.topic, 1, 0)]
        request = ConsumerGroupTopicPartitions(cell.group, at)
        for done in self._admin.alter_consumer_group_offsets([request]).values():
            done.result(TIMEOUT_S)
        return 0

    def _damage(self, topic: str) -> None:
        """Writes into the file of the log: the broker sends it as it is, and looks at no checksum."""
        (path,) = self._kafka_directory.rglob(f"{topic}-{TARGET.partition}/{0:020}.log")
        with path.open("r+b") as file:
            at = file.read().index(MARKER)
            file.seek(at)
            file.write(MARKER.upper())

    # --- meanwhile ----------------------------------------------------------------------------------------------

    def _live_on(self, cell: Cell, outcome: Outcome, deadline_s: float) -> bool:
        """One life after the other. Whether all is committed in time."""
        is_done = False
        while not is_done and time.monotonic() < deadline_s:
            outcome.lives += 1
            if outcome.lives > 1:
                cell.first("second-life")
            with cell.path("stderr").open("a") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", "proofs.losses.lives", cell.to_json()], cwd=TOP, stderr=errors
                )
            while process.poll() is None and not is_done and time.monotonic() < deadline_s:
                time.sleep(POLL_INTERVAL_S)
                self._produce_new(cell)
                is_done = self._has_committed_all(cell)
            is_done = is_done or self._has_committed_all(cell)
            if is_done or time.monotonic() >= deadline_s:
                cell.first("stop")
            self._end(cell, process)
        return is_done

    def _produce_new(self, cell: Cell) -> None:
        """What is new for a consumer that has begun with the lag: the other cursor has something to do, too."""
        if Way(cell.way).is_parallel and cell.places("handled") and cell.first("has-new"):
            self._produce(cell.topic, Fault(cell.fault), range(NEW_FROM, PER_PARTITION))

    def _end(self, cell: Cell, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            return
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            cell.note("told", "(the process did not end, and was killed)")
            process.kill()
            process.wait()

    def _committed(self, cell: Cell) -> dict[int, int]:
        request = ConsumerGroupTopicPartitions(cell.group)
        (answer,) = self._admin.list_consumer_group_offsets([request]).values()
        found = answer.result(TIMEOUT_S).topic_partitions or []
        return {at.partition: at.offset for at in found if at.topic == cell.topic}

    def _has_committed_all(self, cell: Cell) -> bool:
        committed = self._committed(cell)
        return all(committed.get(partition, 0) >= PER_PARTITION for partition in range(PARTITIONS))

    # --- afterwards ---------------------------------------------------------------------------------------------

    def _count(self, cell: Cell, outcome: Outcome) -> None:
        handled, buried = cell.places("handled"), cell.places("buried")
        committed = self._committed(cell)
        outcome.delivered = len(cell.places("delivered") or handled)
        outcome.handled = len(handled)
        outcome.committed = sum(committed.values())
        outcome.twice = sum(times > 1 for times in handled.values())
        outcome.told = cell.lines("told")
        outcome.lost = lost_records(outcome.way, outcome.fault, handled.keys() | buried.keys(), committed)


def lost_records(way: Way, fault: Fault, handled: Set[Place], committed: Mapping[int, int]) -> list[Place]:
    """Good records that no handler has had, though the committed offset is behind them: nobody gets them again."""
    missing = good_records(way, fault) - handled
    return sorted(place for place in missing if place.offset < committed.get(place.partition, 0))


def good_records(way: Way, fault: Fault) -> frozenset[Place]:
    """Records that have to be handled or, in a way with dead letters, written as dead letters."""
    if fault.has_retention:
        return frozenset(p for p in ALL if p.partition != TARGET.partition or p.offset >= DELETED)
    if fault is Fault.CORRUPT:
        first = TARGET.offset - TARGET.offset % PER_BATCH
        return frozenset(p for p in ALL if p.partition != TARGET.partition or not first <= p.offset < first + PER_BATCH)
    return ALL - {TARGET} if fault.has_bad_record and not way.keeps_bad else ALL
