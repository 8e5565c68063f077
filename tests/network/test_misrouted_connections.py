"""A broker's address leads to another broker, or to another cluster (KIP-1242): the client sees it, and begins anew."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, TopicPartition
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.protocol.schema import Message
    from kwire.testing.cluster.request_context import RequestContext

TP = TopicPartition("orders", 0)
TIMEOUT_S = 20.0
CLIENT = "greeter"


@pytest.fixture
def clusters() -> Iterator[Callable[..., Cluster]]:
    """Starts clusters of two brokers with one record."""
    with ExitStack() as stack:

        def start(**settings: object) -> Cluster:
            cluster = stack.enter_context(Cluster(2, **settings))  # type: ignore[arg-type]
            cluster.create_topic(TP.topic, replication=1)  # the other broker would have the record as well
            cluster.produce(TP.topic, b"here")
            return cluster

        yield start


class Greetings:
    """What our client asked brokers of a cluster by ApiVersions: broker, cluster id and node id. Clients of other tests
    may still dial a port that the system has given to this cluster."""

    def __init__(self, *clusters: Cluster) -> None:
        self.seen: list[tuple[int, str | None, int]] = []
        for cluster in clusters:
            cluster.control.on(ApiVersionsRequest).observe(self._note)

    def _note(self, request: ApiVersionsRequest, context: RequestContext) -> None:
        if context.client_id == CLIENT:
            self.seen.append((context.broker.node_id, request.cluster_id, request.node_id))

    @property
    def misled(self) -> list[tuple[int, str | None, int]]:
        return [greeting for greeting in self.seen if greeting[2] not in (-1, greeting[0])]


def swap_addresses(answer: Message) -> None:
    """Each broker's address is the other's: what a load balancer's wrong table looks like."""
    assert isinstance(answer, MetadataResponse)
    first, second = answer.brokers
    first.port, second.port = second.port, first.port


def read_one(servers: str, **settings: object) -> bytes | None:
    given = {"bootstrap.servers": servers, "client.id": CLIENT, "auto.offset.reset": "earliest", **settings}
    consumer: Consumer[bytes, bytes] = Consumer(config=given)
    with consumer:
        consumer.assign([TP])
        for record in consumer.poll(TIMEOUT_S):
            return record.value
    return None


def test_bootstrap_servers_may_be_any_broker_and_the_others_are_checked(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters()
    greetings = Greetings(cluster)
    assert read_one(cluster.bootstrap_servers) == b"here"
    assert greetings.seen[0][1:] == (None, -1)
    assert greetings.seen[1:]
    assert {(cluster_id, broker == node) for broker, cluster_id, node in greetings.seen[1:]} == {
        (cluster.cluster_id, True)
    }


def test_an_address_that_leads_to_another_broker_is_left_before_anything_is_asked_there(
    clusters: Callable[..., Cluster],
) -> None:
    cluster = clusters()
    greetings = Greetings(cluster)
    wrong = cluster.control.on(MetadataRequest, times=1).edit(swap_addresses)
    fetches = cluster.control.on(FetchRequest, where=lambda _, context: context.broker.node_id != 0).observe()
    assert read_one(cluster.bootstrap_servers) == b"here"
    assert (wrong.fired, len(greetings.misled)) == (1, 1)
    assert cluster.leader(TP.topic, 0) == 0
    assert fetches.fired == 0


def test_an_address_that_leads_to_another_cluster_is_left(clusters: Callable[..., Cluster]) -> None:
    """Two clusters with the same topic: without the check the consumer reads what it was never meant to see."""
    cluster, other = clusters(seed=1), clusters(seed=2)
    assert cluster.cluster_id != other.cluster_id
    there = [int(server.rpartition(":")[2]) for server in other.bootstrap_servers.split(",")]

    def lead_astray(answer: Message) -> None:
        assert isinstance(answer, MetadataResponse)
        for broker, port in zip(answer.brokers, there, strict=True):
            broker.port = port

    cluster.control.on(MetadataRequest, times=1).edit(lead_astray)
    greetings, fetches = Greetings(other), other.control.on(FetchRequest).observe()
    assert read_one(cluster.bootstrap_servers) == b"here"
    assert {cluster_id for _, cluster_id, _ in greetings.seen} == {cluster.cluster_id}
    assert fetches.fired == 0


@pytest.mark.slow
def test_an_address_that_stays_wrong_is_not_dialled_without_pause(clusters: Callable[..., Cluster]) -> None:
    """As long as that lasts, the client is sent back to its bootstrap servers again and again."""
    cluster = clusters()
    greetings = Greetings(cluster)
    wrong = cluster.control.on(MetadataRequest).edit(swap_addresses)
    consumer: Consumer[bytes, bytes] = Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        client_id=CLIENT,
        reconnect_backoff_ms=400,
        reconnect_backoff_max_ms=400,
    )
    with consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert not consumer.poll(1.5)
        assert 1 <= len(greetings.misled) <= 5
        wrong.remove()
        assert [record.value for record in consumer.poll(TIMEOUT_S)] == [b"here"]


@pytest.mark.parametrize(
    "settings", [{"metadata_cluster_check_enable": False}, {"metadata_recovery_strategy": "none"}], ids=str
)
def test_the_check_can_be_switched_off(clusters: Callable[..., Cluster], settings: dict[str, object]) -> None:
    """As in Java also by taking away what a client could do about it."""
    cluster = clusters()
    greetings = Greetings(cluster)
    assert read_one(cluster.bootstrap_servers, **settings) == b"here"
    assert {greeting[1:] for greeting in greetings.seen} == {(None, -1)}


def test_older_brokers_are_not_asked_to_check(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(release="4.3")
    greetings = Greetings(cluster)
    assert read_one(cluster.bootstrap_servers) == b"here"
    assert {greeting[1:] for greeting in greetings.seen} == {(None, -1)}


def test_a_coordinator_is_checked_too(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters()
    greetings = Greetings(cluster)
    consumer: Consumer[bytes, bytes] = Consumer(
        TP.topic,
        bootstrap_servers=cluster.bootstrap_servers,
        client_id=CLIENT,
        group_id="g",
        auto_offset_reset="earliest",
    )
    with consumer:
        assert consumer.poll(TIMEOUT_S)
        coordinator = cluster.coordinator("g")
    checked = [greeting for greeting in greetings.seen if greeting == (coordinator, cluster.cluster_id, coordinator)]
    assert len(checked) >= 1
