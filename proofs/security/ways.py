"""Each listener by each mechanism, in both kinds of groups, by each client."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from kwire.testing.kafka import KafkaCluster
from proofs.group import make_topic
from proofs.security.clients import CLIENTS, GROUP_PROTOCOLS, WAYS, java_settings
from tools.topic_filling import Entry, fill

PARTITIONS = 4
RECORDS = 2_000


def ways(kafka: KafkaCluster, _duration_s: float) -> Sequence[str]:
    topic = f"ways-{uuid4().hex[:8]}"
    make_topic(kafka.bootstrap_servers, topic, PARTITIONS)
    fill(kafka.bootstrap_servers, topic, (Entry(number % PARTITIONS, b"%d" % number) for number in range(RECORDS)))
    print(f"| way in | group | {' | '.join(CLIENTS)} |")
    print(f"|---|---|{'---|' * len(CLIENTS)}")
    broken = []
    for way in WAYS:
        for protocol in GROUP_PROTOCOLS:
            outcomes = {
                name: read(
                    kafka.bootstrap(way.listener),
                    topic,
                    f"{name}-{way}-{protocol}".replace(" ", "-"),
                    protocol,
                    java_settings(way, kafka.certificates.path),
                    RECORDS,
                )
                for name, read in CLIENTS.items()
            }
            print(f"| {way} | {protocol} | {' | '.join(map(str, outcomes.values()))} |", flush=True)
            if outcomes["kwire"].records != RECORDS:
                broken.append(f"{way}, {protocol}: kwire read {outcomes['kwire']}, of {RECORDS} records")
    return broken
