"""Logins and certificates are renewed while a group reads: nothing is lost, nothing comes twice, nothing rebalances."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from confluent_kafka import Producer

from kwire import Consumer, RebalanceConsumer, RebalanceListener, Records, TopicPartition
from kwire.testing.kafka import KafkaCluster
from proofs.group import make_topic
from proofs.security.clients import GROUP_PROTOCOLS, SASL, Way, java_settings

PER_SECOND = 200
PARTITIONS = 6
MEMBERS = 3
CHANGE_EVERY_S = 20.0
DRAIN_S = 15.0


class Seen(RebalanceListener):
    """What came, how often, and how often the members were given partitions."""

    def __init__(self) -> None:
        self.values: Counter[bytes] = Counter()
        self.assignments = 0
        self._lock = threading.Lock()

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        with self._lock:
            self.assignments += bool(partitions)

    def note(self, values: Sequence[bytes]) -> None:
        with self._lock:
            self.values.update(values)


class Member:
    """A consumer in a thread of its own."""

    def __init__(self, topic: str, config: Mapping[str, object], seen: Seen) -> None:
        self._topic, self._config, self._seen = topic, config, seen
        self._ends = threading.Event()
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            consumer: Consumer[bytes, bytes]
            with Consumer(config=self._config) as consumer:
                consumer.subscribe([self._topic], listener=self._seen)
                while not self._ends.is_set():
                    records: Records[bytes, bytes] = consumer.poll(0.2)
                    self._seen.note([record.value for record in records if record.value is not None])
                consumer.commit_sync()
        except Exception as error:  # noqa: BLE001  told at the end: nothing may end a member here
            self.error = error

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(60)


class Connections(logging.Handler):
    """Counts what the client says of lost connections, by the reason."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lost: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if said.startswith("broker "):
            self.lost[said.partition("): ")[2]] += 1


@contextmanager
def counted_connections() -> Iterator[Connections]:
    handler, log = Connections(), logging.getLogger("kwire.network.client")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield handler
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


class Writer:
    """Writes numbered records at an even pace."""

    def __init__(self, kafka: KafkaCluster, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "linger.ms": 5})
        self._topic = topic
        self.sent = 0

    def write_until(self, until_s: float) -> None:
        while time.monotonic() < until_s:
            self._producer.produce(self._topic, b"%d" % self.sent, partition=self.sent % PARTITIONS)
            self._producer.poll(0)
            self.sent += 1
            time.sleep(1 / PER_SECOND)
        self._producer.flush(30)


def renewals(kafka: KafkaCluster, duration_s: float) -> Sequence[str]:
    """All mechanisms at the same time, each with a topic and a group of its own."""
    print("| login | records | lost | twice | assignments, changes of members |\n|---|---:|---:|---:|---:|")
    with counted_connections() as connections, ThreadPoolExecutor(len(SASL)) as pool:
        runs = [
            pool.submit(_renew, kafka, Way("SASL_SSL", mechanism), GROUP_PROTOCOLS[number % 2], duration_s)
            for number, mechanism in enumerate(SASL)
        ]
        broken = [line for run in runs for line in run.result()]
    print(f"\nconnections lost, of all: {connections.lost.total()}")
    return broken + [f"{count} connections were lost: {reason}" for reason, count in connections.lost.items()]


def _renew(kafka: KafkaCluster, way: Way, protocol: str, duration_s: float) -> Sequence[str]:
    """A group of three; every now and then a member leaves and another comes, which is all that may rebalance it."""
    topic = f"renewals-{uuid4().hex[:8]}"
    make_topic(kafka.bootstrap_servers, topic, PARTITIONS)
    config = _config(kafka, way, topic, protocol)
    seen, writer = Seen(), Writer(kafka, topic)
    until_s, changes = time.monotonic() + duration_s, 0
    members, ended = [Member(topic, config, seen) for _ in range(MEMBERS)], list[Member]()
    while time.monotonic() < until_s:
        writer.write_until(min(until_s, time.monotonic() + CHANGE_EVERY_S))
        if time.monotonic() + CHANGE_EVERY_S < until_s:
            ended.append(members.pop(0))
            ended[-1].stop()
            members.append(Member(topic, config, seen))
            changes += 2
    _drain(seen, writer.sent)
    for member in members:
        member.stop()
    return _judge(f"{way}, {protocol}", seen, writer.sent, [*ended, *members], f"{seen.assignments}, {changes}")


def certificates(kafka: KafkaCluster, _duration_s: float) -> Sequence[str]:
    """Three members with a certificate in a file, which is replaced; connections that are made after that show it."""
    topic = f"certificates-{uuid4().hex[:8]}"
    make_topic(kafka.bootstrap_servers, topic, PARTITIONS)
    seen, writer = Seen(), Writer(kafka, topic)
    print("| what | records | lost | twice | assignments before, in all |\n|---|---:|---:|---:|---:|")
    with TemporaryDirectory() as folder:
        store = Path(folder, "client.pem")
        _replace(store, kafka.certificates.issue(common_name="first").path.read_text())
        config = {
            **_config(kafka, Way("SSL"), topic, "classic"),
            "ssl.keystore.location": str(store),
            "connections.max.idle.ms": "3000",
        }
        members = [Member(topic, config, seen) for _ in range(MEMBERS)]
        writer.write_until(time.monotonic() + 8)
        before = seen.assignments
        _replace(store, kafka.certificates.issue(common_name="second").path.read_text())
        writer.write_until(time.monotonic() + 8)
        kafka.restart_broker(0)
        writer.write_until(time.monotonic() + 8)
        _drain(seen, writer.sent)
        for member in members:
            member.stop()
    return _judge("certificate replaced, broker restarted", seen, writer.sent, members, f"{before}, {seen.assignments}")


def _config(kafka: KafkaCluster, way: Way, group: str, protocol: str) -> dict[str, object]:
    return {
        "bootstrap.servers": kafka.bootstrap(way.listener),
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        **java_settings(way, kafka.certificates.path),
    }


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def _drain(seen: Seen, sent: int) -> None:
    until_s = time.monotonic() + DRAIN_S
    while len(seen.values) < sent and time.monotonic() < until_s:
        time.sleep(0.1)


def _judge(what: str, seen: Seen, sent: int, members: Sequence[Member], assignments: str) -> Sequence[str]:
    lost = sent - len(seen.values)
    twice = sum(count - 1 for count in seen.values.values())
    print(f"| {what} | {sent} | {lost} | {twice} | {assignments} |", flush=True)
    broken = [f"{what}: a member ended with {member.error!r}" for member in members if member.error is not None]
    if lost or twice:
        broken.append(f"{what}: {lost} of {sent} records lost, {twice} came twice")
    return broken
