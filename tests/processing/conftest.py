"""A cluster in the process, and consumers of its topic `orders`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
import trio

from kwire import Consumer
from kwire.processing import Processor
from kwire.testing import Cluster
from kwire.testing.cluster.batches import NewRecord

DEADLINE_S = 30.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as made:
        yield made


@pytest.fixture
def new_consumer(cluster: Cluster) -> Iterator[Callable[..., Consumer[bytes, bytes]]]:
    """Of the group `billing`, and closed at the end."""
    opened: list[Consumer[bytes, bytes]] = []

    def make(**settings: object) -> Consumer[bytes, bytes]:
        defaults: dict[str, object] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "billing",
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
        }
        consumer: Consumer[bytes, bytes] = Consumer("orders", config={**defaults, **settings})
        opened.append(consumer)
        return consumer

    yield make
    for consumer in opened:
        consumer.close(timeout=5.0)


@pytest.fixture
def orders(cluster: Cluster) -> Callable[..., None]:
    """Numbered records, round robin over partitions and keys."""

    def fill(count: int, *, partitions: int = 1, keys: int = 0) -> None:
        cluster.create_topic("orders", partitions=partitions)
        for number in range(count):
            key = b"%d" % (number % keys) if keys else None
            cluster.produce("orders", NewRecord(b"%d" % number, key=key), partition=number % partitions)

    return fill


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    """Until something is so, or half a minute is over."""

    def wait(condition: Callable[[], bool]) -> None:
        until_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < until_s, "still not so"
            time.sleep(0.005)

    return wait


@pytest.fixture(autouse=True)
def facade(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--facade` whatever calls `Processor.run` awaits `run_async` on an event loop of its own. Not in simulated
    worlds, which have no such loop, and not where the handlers await another library."""
    chosen, run = request.config.getoption("--facade"), Processor.run

    def run_on_loop(processor: Processor[bytes, bytes]) -> None:
        options = processor._options
        if options.is_async and options.backend != chosen:
            run(processor)
        elif chosen == "asyncio":
            asyncio.run(processor.run_async())
        else:
            trio.run(processor.run_async)

    if chosen != "sync" and "cluster" in request.fixturenames:
        monkeypatch.setattr(Processor, "run", run_on_loop)
