"""`scripts/prove dashboard`: a run with a fault, seen through the panels of docs/grafana.json.

A real Kafka of three brokers, two consumers that export their metrics, and a Prometheus that scrapes them each second.
A broker is stopped for a while, and later a third consumer joins the group. Then each query of the dashboard is asked
of Prometheus, with its variables filled in as Grafana does; a panel that shows nothing is told. The picture that comes
of it is drawn here: Grafana itself is in no package registry.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry, start_http_server

from kwire import Consumer
from kwire.exporters.prometheus import ConsumerCollector
from kwire.testing.kafka import KafkaCluster
from proofs.dashboard.drawing import Box, Span, draw
from proofs.dashboard.panels import panels, program, prometheus
from proofs.group import make_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BROKERS, PARTITIONS = 3, 6
RECORD_PAUSE_S = 0.002
# A consumer of two keeps up, and is a while behind an outage.
HANDLING_S = 0.003
MAX_POLL_RECORDS = 50
# Shares of the run: when the broker stops and goes on, when the third consumer joins and leaves.
STOPPED, RESUMED, JOINS, LEAVES = 0.3, 0.45, 0.65, 0.85


def dashboard(
    seconds: Annotated[int, typer.Option(min=60, help="How long the run takes.")] = 100,
    write: Annotated[Path | None, typer.Option(help="Draw the panels, as SVG, into this file.")] = None,
) -> list[str]:
    """The dashboard's panels over a run with a fault; each has to show something."""
    program()  # before anything is started
    with ExitStack() as running:
        kafka = running.enter_context(KafkaCluster(BROKERS))
        topic = f"orders-{uuid4().hex[:4]}"
        make_topic(kafka.bootstrap_servers, topic, PARTITIONS, BROKERS)
        registry, collector = CollectorRegistry(), ConsumerCollector()
        registry.register(collector)
        server, _ = start_http_server(0, "127.0.0.1", registry)
        running.callback(server.shutdown)
        watching = running.enter_context(prometheus(server.server_address[1]))
        running.enter_context(in_a_thread(lambda until: produce(kafka.bootstrap_servers, topic, until)))
        for client in ("desk-1", "desk-2"):
            running.enter_context(reading(kafka.bootstrap_servers, topic, client, collector))
        start_s = time.time()
        wait_until(start_s + STOPPED * seconds)
        kafka.pause_broker(1)
        wait_until(start_s + RESUMED * seconds)
        kafka.resume_broker(1)
        wait_until(start_s + JOINS * seconds)
        with reading(kafka.bootstrap_servers, topic, "desk-3", collector):
            wait_until(start_s + LEAVES * seconds)
        end_s = start_s + seconds
        wait_until(end_s)
        boxes = [
            Box(each.title, each.unit, [line for query in each.queries for line in watching.ask(query, start_s, end_s)])
            for each in panels()
        ]
    spans = [Span("a broker is stopped", start_s + STOPPED * seconds, start_s + RESUMED * seconds)]
    for box in boxes:
        print(f"{len(box.lines):3} series  {box.title}")
    if write is not None:
        write.write_text(draw(TITLE.format(seconds=seconds), boxes, spans, start_s, end_s))
    return [f"the panel {box.title!r} shows nothing" for box in boxes if not box.lines]


TITLE = "{seconds} s of the dashboard's own queries: a broker is stopped (shaded), then a third member comes and goes"


def wait_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.time()))


def produce(bootstrap_servers: str, topic: str, until: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 20, "log_level": 0})
    number = 0
    while not until.wait(RECORD_PAUSE_S):
        number += 1
        producer.produce(topic, b"%0100d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(10.0)


@contextmanager
def reading(bootstrap_servers: str, topic: str, client: str, collector: ConsumerCollector) -> Iterator[None]:
    """A consumer that reads until the block ends, and exports its metrics."""
    consumer: Consumer[bytes, bytes] = Consumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        client_id=client,
        request_timeout_ms=5_000,
        max_poll_records=MAX_POLL_RECORDS,
    )
    collector.add(consumer)

    def read(until: threading.Event) -> None:
        with consumer:
            while not until.is_set():
                time.sleep(len(consumer.poll(0.2)) * HANDLING_S)
        collector.remove(consumer)

    with in_a_thread(read):
        yield


@contextmanager
def in_a_thread(main: Callable[[threading.Event], None]) -> Iterator[None]:
    """This runs beside the block, and is told when that ends."""
    until = threading.Event()
    thread = threading.Thread(target=main, args=(until,))
    thread.start()
    try:
        yield
    finally:
        until.set()
        thread.join()
