"""Where the suites that read real topics read: a broker of their own, and topics with what each suite needs in them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire.testing.kafka import ClusterError, KafkaCluster
from tools.topic_filling import Entry, fill

ADMIN_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.1
# Thousands of logs: an index reserves 10 MiB of address space by default.
BROKER_SETTINGS = {"log.index.size.max.bytes": "1048576"}
# These replace the options of test brokers, which switch off Java's optimizing compiler.
BROKER_JVM = ("-Xmx2g",)


class Place:
    """A running broker."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})

    def make(self, topic: str, partitions: int) -> None:
        """A topic, once each of its partitions is led by somebody."""
        wanted = NewTopic(topic, partitions, 1)
        made = self._admin.create_topics(
            [wanted], operation_timeout=ADMIN_TIMEOUT_S, request_timeout=2 * ADMIN_TIMEOUT_S
        )
        made[topic].result(2 * ADMIN_TIMEOUT_S)
        deadline_s = time.monotonic() + ADMIN_TIMEOUT_S
        while not self._is_led(topic, partitions):
            if time.monotonic() > deadline_s:
                raise ClusterError(f"{topic}: not all partitions have a leader after {ADMIN_TIMEOUT_S:.0f} s")
            time.sleep(POLL_INTERVAL_S)

    def _is_led(self, topic: str, partitions: int) -> bool:
        known = self._admin.list_topics(topic, timeout=ADMIN_TIMEOUT_S).topics[topic].partitions.values()
        return len(known) == partitions and all(partition.leader >= 0 for partition in known)

    def fill(self, topic: str, *, partitions: int, records: int, value_bytes: int) -> None:
        """So many records into each of the first `partitions` partitions."""
        value = bytes(value_bytes)
        fill(self.servers, topic, (Entry(number % partitions, value) for number in range(partitions * records)))


@contextmanager
def place() -> Iterator[Place]:
    """A broker for one suite."""
    with KafkaCluster(settings=BROKER_SETTINGS, jvm_options=BROKER_JVM) as kafka:
        yield Place(kafka.bootstrap_servers)
