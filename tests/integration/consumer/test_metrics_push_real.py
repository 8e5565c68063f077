"""A real Kafka with a plug-in that takes clients' metrics (KIP-714): it inflates and hands on what kwire pushes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kwire import Consumer
from kwire.testing.kafka import KafkaCluster
from kwire.testing.kafka.jars import ensure_kafka

if TYPE_CHECKING:
    from tests.integration.kafkas import Side
else:
    from kafkas import Side

pytestmark = [pytest.mark.only(Side.KAFKA, reason="has a plug-in in Java"), pytest.mark.slow]

SOURCE = Path(__file__).with_name("MetricsSink.java")
PREFIX = "org.apache.kafka.consumer."
CONSUMED = f"{PREFIX}fetch.manager.records.consumed.total"


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    kafka, directory = ensure_kafka(), tmp_path / "classes"
    compiler = kafka.java.with_name("javac")
    command = [str(compiler), "-nowarn", "-cp", f"{kafka.libs}/*", "-d", str(directory), str(SOURCE)]
    subprocess.run(command, check=True, timeout=120)
    return directory


@pytest.fixture
def pushed(tmp_path: Path) -> Path:
    directory = tmp_path / "pushed"
    directory.mkdir()
    return directory


@pytest.fixture
def kafka(classes: Path, pushed: Path) -> Iterator[KafkaCluster]:
    settings = {"metric.reporters": "MetricsSink", "metrics.sink.directory": str(pushed)}
    with KafkaCluster(settings=settings, class_path=[classes]) as cluster:
        yield cluster


def want_metrics(kafka: KafkaCluster, classes: Path) -> None:
    found = ensure_kafka()
    command = [
        str(found.java),
        "-cp",
        f"{classes}:{found.libs}/*",
        "MetricsSink",
        kafka.bootstrap_servers,
        PREFIX,
        "1000",
    ]
    subprocess.run(command, check=True, timeout=120, capture_output=True)


def names_in(payload: bytes) -> set[str]:
    (found,) = MetricsData.FromString(payload).resource_metrics
    return {metric.name for metric in found.scope_metrics[0].metrics}


def test_kafka_takes_what_is_pushed_and_nothing_is_where_nothing_is_wanted(
    kafka: KafkaCluster, classes: Path, pushed: Path
) -> None:
    def opened() -> Consumer[bytes, bytes]:
        return Consumer("orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing")

    with opened() as consumer:
        consumer.poll(1.0)
    assert not list(pushed.iterdir()), "Kafka offers it, and nobody has asked for metrics"
    want_metrics(kafka, classes)
    with opened() as consumer:
        for _ in range(600):
            if len(list(pushed.iterdir())) >= 3:
                break
            consumer.poll(0.1)
    *others, last = sorted(path.name for path in pushed.iterdir() if path.name[0] != ".")
    assert last.endswith("last")
    assert all(name.endswith("push") for name in others)
    for path in pushed.iterdir():
        names = names_in(path.read_bytes())
        assert CONSUMED in names
        assert all(name.startswith(PREFIX) for name in names)
