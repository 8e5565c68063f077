"""Both proxies in front of each broker: kwire reads through them, faults strike, and healed is healed."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, TopicPartition
from kwire.errors import IllegalStateError, ProtocolError
from kwire.protocol.messages.fetch import FetchRequest
from kwire.testing import Cluster, NewRecord
from kwire.testing.faults.proxies.chain import BrokerProxy, ProxiedBrokers
from kwire.testing.faults.proxies.stream import Stream
from kwire.testing.faults.proxies.tampering import TamperingProxy
from kwire.testing.faults.proxies.tamperings import AnnounceLength, BitPlace, CutAnswer, FlipBit, HalfOpen, Refuse
from kwire.testing.faults.proxies.toxics import Latency, LimitData, Slicer, Timeout
from kwire.testing.kafka.jars import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.testing.faults.proxies.tamperings import Injector
    from kwire.testing.faults.proxies.toxiproxy_server import ToxiproxyServer
    from tests.testing.faults.proxies.kafka_like import FETCH, Client, FrameServer, answer, request
else:
    from kafka_like import FETCH, Client, FrameServer, answer, request

pytestmark = pytest.mark.integration

TIMEOUT_S = 20.0
PARTITIONS = 3
VALUES = [b"%05d" % n * 40 for n in range(500)]


@pytest.fixture
def server() -> Iterator[FrameServer]:
    """Echoes; one byte it takes for a number of megabytes."""
    with FrameServer(lambda _, body: bytes(body[0] << 20) if len(body) == 1 else body) as server:
        yield server


@pytest.fixture
def chain(toxiproxy_server: ToxiproxyServer, server: FrameServer) -> Iterator[BrokerProxy]:
    with TamperingProxy() as tampering:
        chain = BrokerProxy("broker-0", tampering, toxiproxy_server.client)
        chain.lead_to(*server.address)
        yield chain


@pytest.fixture(scope="module")
def proxied() -> Iterator[ProxiedBrokers]:
    with ProxiedBrokers(3, cache=cache_dir()) as proxied:
        yield proxied
        assert proxied.healed


@pytest.fixture(scope="module")
def cluster(proxied: ProxiedBrokers) -> Iterator[Cluster]:
    """Three brokers behind proxies, with records in a topic's partitions, one led by each."""
    with Cluster(brokers=3, advertised=proxied.addresses) as cluster:
        proxied.lead_to(cluster.client_addresses)
        cluster.create_topic("orders", partitions=PARTITIONS)
        for n, value in enumerate(VALUES):
            cluster.produce("orders", NewRecord(value), partition=n % PARTITIONS)
        yield cluster


def test_a_fault_of_either_proxy_is_none_when_healed(chain: BrokerProxy) -> None:
    seen = [chain.healed]
    chain.toxics(Latency(latency_ms=1), Timeout(stream=Stream.UPSTREAM))
    seen.append(chain.healed)
    chain.heal()
    seen.append(chain.healed)
    chain.tamper(HalfOpen(), Refuse())
    seen.append(chain.healed)
    chain.heal()
    seen.append(chain.healed)
    assert seen == [True, False, True, False, True]
    with Client(chain.address) as client:
        assert client.ask() == answer(1, b"body")


def test_one_toxic_and_one_tampering_are_ended(chain: BrokerProxy) -> None:
    names = chain.toxics(LimitData(limit_bytes=3))
    with pytest.raises(IllegalStateError, match="has the toxic limit_data-downstream already"):
        chain.toxics(LimitData(limit_bytes=4))
    with Client(chain.address) as client:
        client.sendall(request(FETCH, 1))
        assert client.recv(100) == b"\0\0\0"
        assert client.has_ended()
    chain.untoxic(names[0])
    chain.tamper(Refuse())
    with pytest.raises(ConnectionRefusedError):
        Client(chain.address)
    chain.lift(Refuse())
    with Client(chain.address) as client:
        assert client.ask() == answer(1, b"body")
        assert chain.hang_up() == 1
        assert client.has_ended()


def test_a_broker_that_is_cut_off_goes_on_where_it_stood(chain: BrokerProxy) -> None:
    with Client(chain.address) as client:
        client.ask()
        chain.cut_off()
        client.sendall(request(FETCH, 2, b"body"))
        assert client.hears_nothing()
        with pytest.raises(TimeoutError):
            Client(chain.address, timeout_s=0.1)
        chain.heal()
        assert client.recv(100) == answer(2, b"body")


@pytest.mark.slow
def test_a_client_that_reads_nothing_does_not_hold_up_healing(chain: BrokerProxy) -> None:
    """Toxiproxy takes a toxic away only between two writes, and waited for ever for a client that had stopped."""
    with Client(chain.address) as client:
        client.ask()
        chain.toxics(Latency(latency_ms=1))
        for _ in range(40):
            client.sendall(request(FETCH, 2, b"\1"))
        wait_until_stuck(chain)
        chain.heal()
        assert chain.healed
    with Client(chain.address) as client:
        assert client.ask() == answer(1, b"body")


def test_a_broker_that_moved_is_found(chain: BrokerProxy) -> None:
    with FrameServer(lambda *_: b"moved") as moved:
        chain.lead_to(*moved.address)
        with Client(chain.address) as client:
            assert client.ask() == answer(1, b"moved")


def test_a_chain_that_leads_nowhere_refuses(toxiproxy_server: ToxiproxyServer) -> None:
    with TamperingProxy() as tampering:
        chain = BrokerProxy("nowhere", tampering, toxiproxy_server.client)
        with pytest.raises(ConnectionRefusedError):
            Client(chain.address)
        with pytest.raises(IllegalStateError, match="nowhere has no toxics"):
            chain.toxics(Timeout())
        chain.heal()
        assert chain.healed


@pytest.mark.slow
def test_kwire_reads_all_through_the_proxies(cluster: Cluster, proxied: ProxiedBrokers) -> None:
    before = [proxy.counts.downstream_bytes for proxy in proxied]
    assert read_all(proxied) == sorted(VALUES)
    assert cluster.bootstrap_servers == proxied.bootstrap_servers
    for proxy, bytes_before in zip(proxied, before, strict=True):
        assert proxy.counts.downstream_bytes - bytes_before > 200 * len(VALUES) // PARTITIONS


@pytest.mark.slow
def test_kwire_reads_all_in_slices(cluster: Cluster, proxied: ProxiedBrokers) -> None:
    for proxy in proxied:
        proxy.toxics(Slicer(average_size_bytes=500, size_variation_bytes=100))
    try:
        assert read_all(proxied) == sorted(VALUES)
    finally:
        proxied.heal()


@pytest.mark.slow
@pytest.mark.parametrize(
    "strike",
    [
        FlipBit(api_key=FetchRequest.api_key, place=BitPlace.HEADER),
        AnnounceLength(api_key=FetchRequest.api_key, length_bytes=2**31 - 1),
        AnnounceLength(api_key=FetchRequest.api_key, length_bytes=0),
        CutAnswer(api_key=FetchRequest.api_key, after_bytes=1000),
    ],
    ids=lambda strike: type(strike).__name__,
)
def test_kwire_reads_all_when_an_answer_is_tampered_with(
    cluster: Cluster, proxied: ProxiedBrokers, strike: Injector
) -> None:
    for proxy in proxied:
        proxy.tamper(strike)
    assert read_all(proxied) == sorted(VALUES)
    assert proxied.healed  # all have struck


@pytest.mark.slow
def test_kwire_goes_on_when_all_brokers_were_cut_off(cluster: Cluster, proxied: ProxiedBrokers) -> None:
    with opened(proxied) as consumer:
        values = poll_until(consumer, lambda values: len(values) > 0)
        proxied.cut_off()
        assert not proxied.healed
        proxied.heal()
        values += poll_until(consumer, lambda more: len(values) + len(more) >= len(VALUES))
    assert sorted(values) == sorted(VALUES)


def wait_until_stuck(chain: BrokerProxy) -> None:
    """Until all memory between a server that writes and a client that does not read is full."""
    passed_bytes, quiet_since_s = -1, time.monotonic()
    while time.monotonic() < quiet_since_s + 0.3:
        if chain.counts.downstream_bytes != passed_bytes:
            passed_bytes, quiet_since_s = chain.counts.downstream_bytes, time.monotonic()
        time.sleep(0.01)


def opened(proxied: ProxiedBrokers) -> Consumer[bytes, bytes]:
    consumer: Consumer[bytes, bytes] = Consumer(
        bootstrap_servers=proxied.bootstrap_servers, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition("orders", partition) for partition in range(PARTITIONS)])
    return consumer


def read_all(proxied: ProxiedBrokers) -> list[bytes]:
    with opened(proxied) as consumer:
        return sorted(poll_until(consumer, lambda values: len(values) >= len(VALUES)))


def poll_until(consumer: Consumer[bytes, bytes], is_enough: Callable[[list[bytes]], bool]) -> list[bytes]:
    values: list[bytes] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_enough(values):
        assert time.monotonic() < deadline_s, f"{len(values)} records"
        with suppress(ProtocolError):  # a tampered answer is told once, and asked for again
            values += [record.value for record in consumer.poll(0.1) if record.value is not None]
    return values
