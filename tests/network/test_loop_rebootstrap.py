"""The whole network thread in virtual time, against brokers that are there and of no use (KIP-1102)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.assignors import resolve
from kwire.config import ConsumerConfig
from kwire.events import Assign, ErrorRaised, Reply, Seek
from kwire.fetching.buffer import FetchBuffer
from kwire.mailbox import Mailbox
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.network.loop import Waker
from kwire.network.run import make_loop
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kwire.protocol.schema import Message, Request, Response
    from tests.network.conftest import InVirtualTime, MemoryNetwork, ScriptedBroker

BOOTSTRAP, OLD, NEW = ("first", 9092), ("old", 9092), ("new", 9092)
TP = TopicPartition("orders", 0)
TRIGGER_S = 300


class Cluster:
    """Three addresses: a bootstrap server that names the one broker there is, where that was, and where it moves to."""

    def __init__(self, network: MemoryNetwork, scripted_broker: type[ScriptedBroker]) -> None:
        self.network = network
        self.leader = OLD
        self.bootstrap = scripted_broker(self._answer)
        self.old = scripted_broker(self._answer_of_old)
        self.new = scripted_broker(self._answer)
        self.abandoned_answer: Response | None = None
        network.hosts.update({BOOTSTRAP: self.bootstrap, OLD: self.old, NEW: self.new})

    def move(self, abandoned_answer: Response | None) -> None:
        """From now on the old address says nothing but this to Metadata."""
        self.leader = NEW
        self.abandoned_answer = abandoned_answer

    def _answer(self, request: Request[Message], version: int) -> Response | None:
        if not isinstance(request, MetadataRequest):
            return None  # fetches are long polls without an end
        host, port = self.leader
        partition = MetadataResponsePartition(leader_id=7, leader_epoch=1, replica_nodes=[7], isr_nodes=[7])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=7, host=host, port=port)],
            topics=[MetadataResponseTopic(name=TP.topic, partitions=[partition])],
        )

    def _answer_of_old(self, request: Request[Message], version: int) -> Response | None:
        if isinstance(request, MetadataRequest) and self.leader is NEW:
            return self.abandoned_answer
        return self._answer(request, version)


@pytest.fixture
def cluster(network: MemoryNetwork, scripted_broker: type[ScriptedBroker], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr("kwire.network.run.monotonic_ms", lambda: trio.current_time() * 1000)
    return Cluster(network, scripted_broker)


@asynccontextmanager
async def reading(cluster: Cluster, **settings: object) -> AsyncIterator[Mailbox]:
    """A network thread without its thread, which fetches the partition."""
    config = ConsumerConfig.of({"bootstrap.servers": "first:9092", "metadata_max_age_ms": 10_000, **settings})
    mailbox = Mailbox()
    assignors = resolve(config.partition_assignment_strategy)
    mailbox.post(Assign(frozenset({TP}), Reply()))
    mailbox.post(Seek(TP, OffsetAndMetadata(0), Reply()))
    loop = make_loop(config, assignors, mailbox, FetchBuffer(), Waker(), client_id="me", transport=cluster.network)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop.run)
        await trio.sleep(1)
        assert cluster.old.times_of(FetchRequest)
        yield mailbox
        nursery.cancel_scope.cancel()


def test_brokers_that_tell_nothing_of_the_cluster_are_left_after_the_trigger(
    in_virtual_time: InVirtualTime, cluster: Cluster
) -> None:
    async def scenario() -> None:
        async with reading(cluster) as mailbox:
            cluster.move(MetadataResponse())
            await trio.sleep(TRIGGER_S)
            assert not cluster.new.connections
            await trio.sleep(12)  # the metadata had to grow old first
            assert cluster.new.times_of(FetchRequest)
            assert cluster.bootstrap.connections == 2, "its name may lead elsewhere by now"
            assert mailbox.find(lambda _: True) is None

    in_virtual_time(scenario)


def test_brokers_that_answer_nothing_are_as_good_as_unreachable(
    in_virtual_time: InVirtualTime, cluster: Cluster
) -> None:
    """Half-open, or stopped: the trigger need not be waited for."""

    async def scenario() -> None:
        async with reading(cluster) as mailbox:
            cluster.move(None)
            await trio.sleep(10 + 30 + 2)  # until the metadata is old, and then until the request has timed out
            assert cluster.new.times_of(FetchRequest)
            assert mailbox.find(lambda _: True) is None

    in_virtual_time(scenario)


def test_without_the_strategy_they_are_asked_for_ever(in_virtual_time: InVirtualTime, cluster: Cluster) -> None:
    async def scenario() -> None:
        async with reading(cluster, metadata_recovery_strategy="none"):
            cluster.move(None)
            await trio.sleep(TRIGGER_S * 2)
            assert not cluster.new.connections
            assert cluster.bootstrap.connections == 1

    in_virtual_time(scenario)


def test_a_broker_that_asks_for_it_is_left_at_once(in_virtual_time: InVirtualTime, cluster: Cluster) -> None:
    async def scenario() -> None:
        async with reading(cluster) as mailbox:
            cluster.move(MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
            await trio.sleep(11)  # until the metadata is old
            assert cluster.new.times_of(FetchRequest)
            while (event := mailbox.find(lambda _: True)) is not None:
                mailbox.remove(event)
                assert not isinstance(event, ErrorRaised)

    in_virtual_time(scenario)
