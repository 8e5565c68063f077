"""A line to the broker that is too slow for a large answer: records come all the same."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kwire import Consumer
from kwire.testing.faults.proxies.chain import ProxiedBrokers
from kwire.testing.faults.proxies.toxics import Bandwidth
from kwire.testing.kafka import KafkaCluster
from kwire.testing.kafka.jars import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.only("kafka", reason="a proxy stands in front of it"),
]

TIMEOUT_S = 60.0
TOPIC = "orders"
RECORDS, RECORD_BYTES = 10_000, 1_000
RATE_KB_PER_S = 400
REQUEST_TIMEOUT_MS = 6_000
"""2.4 MB come in it: the topic has four times as much, and an answer may bring all of it at once."""
ENOUGH = 3_000


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with ProxiedBrokers(1, cache=cache_dir()) as proxied, KafkaCluster(1, advertised=proxied.addresses) as kafka:
        proxied.lead_to(kafka.client_addresses)
        producer = Producer({"bootstrap.servers": kafka.direct_servers, "linger.ms": 20})
        for _ in range(RECORDS):
            producer.produce(TOPIC, os.urandom(RECORD_BYTES))
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0
        proxied[0].toxics(Bandwidth(rate_kb_per_s=RATE_KB_PER_S))
        yield proxied.bootstrap_servers


def test_records_come_however_slow_the_line(servers: str) -> None:
    """Each answer of 10 MB was given up before it was there, and asked for again: no record ever came."""
    offsets: list[int] = []
    until_s = time.monotonic() + TIMEOUT_S
    with Consumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id="slow",
        auto_offset_reset="earliest",
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    ) as consumer:
        while len(offsets) < ENOUGH and time.monotonic() < until_s:
            offsets += [record.offset for record in consumer.poll(1.0)]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) >= ENOUGH
