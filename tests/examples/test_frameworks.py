"""The examples with FastAPI and FastStream run in the frameworks that they are for, on a Kafka in the process."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import fastapi_service
import faststream_app
import httpx
import pytest
import uvicorn
from arguments import Wanted

import kwire
from kwire.clock import Deadline
from kwire.testing import Cluster
from kwire.testing.cluster.batches import NewRecord

pytestmark = pytest.mark.slow

PATIENCE_MS = 30_000.0


@pytest.fixture
def orders(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders", partitions=1)
    return kafka_cluster


def wanted(cluster: Cluster) -> Wanted:
    servers = cluster.bootstrap_servers
    return Wanted(bootstrap_servers=servers, topic="orders", group_id="billing", idle_seconds=1.0)


@contextmanager
def service(orders: Cluster) -> Iterator[httpx.Client]:
    """A client of the service, which uvicorn serves in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(fastapi_service.make_app(wanted(orders)), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        host, port = listener.getsockname()
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=30.0) as client:
            yield client
        server.should_exit = True
        thread.join(30.0)
        assert not thread.is_alive()


def answer_that(client: httpx.Client, path: str, is_so: Callable[[httpx.Response], bool]) -> httpx.Response:
    deadline = Deadline.after(PATIENCE_MS)
    while not is_so(answer := client.get(path)):
        assert not deadline.expired, answer.text
    return answer


def test_a_service_answers_with_what_it_has_read_and_a_probe_sees_that_it_reads(orders: Cluster) -> None:
    with service(orders) as client:
        assert client.get("/orders/a").status_code == 404
        orders.produce("orders", NewRecord(b"first", key=b"a"), NewRecord(b"second", key=b"a"))
        found = answer_that(client, "/orders/a", lambda answer: answer.json().get("value") == "second")
        assert found.json() == {"key": "a", "value": "second"}
        probe = answer_that(client, "/healthz", lambda answer: answer.status_code == 200)
        assert probe.json()["task"] == "reads"


def test_a_service_that_is_started_again_has_the_orders_of_before(orders: Cluster) -> None:
    """It keeps them in memory alone: a group would go on behind them."""
    orders.produce("orders", NewRecord(b"first", key=b"a"), NewRecord(b"second", key=b"b"))
    for _ in range(2):
        with service(orders) as client:
            answer_that(client, "/orders/b", lambda answer: answer.status_code == 200)


def test_faststreams_application_publishes_what_kwire_reads(orders: Cluster) -> None:
    orders.create_topic("invoices", partitions=1)
    orders.produce("orders", *(json.dumps({"number": number, "cents": 100}).encode() for number in range(3)))
    asyncio.run(faststream_app.make_app(wanted(orders)).run())
    invoices = [
        json.loads(record.value or b"") for record in kwire.read("invoices", bootstrap_servers=orders.bootstrap_servers)
    ]
    assert invoices == [{"number": number, "cents_with_tax": 119} for number in range(3)]
    assert orders.committed("billing")[kwire.TopicPartition("orders", 0)].offset == 3
