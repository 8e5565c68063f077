"""Names with many addresses, IPv6, and listeners that are advertised elsewhere: on the loopback, over real sockets."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

import pytest
import trio
import trio.abc

from kwire import Consumer, TopicPartition
from kwire.config import ConsumerConfig, Endpoint
from kwire.model import Node
from kwire.network.addresses import MAX_FAILED, Address, Addresses, canonical_servers
from kwire.network.run import _with_canonical_servers
from kwire.network.tcp import TcpTransport
from kwire.network.thread import START_TIMEOUT_S
from kwire.testing import Cluster
from kwire.testing.kafka.addresses import free_ports

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from tests.network.conftest import InVirtualTime, MakeRig, Rig

NAME, DEADLINE_S = "broker.test", 20.0
FIRST, SECOND, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3"

Resolved = list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]]]


class Names(trio.abc.HostnameResolver):
    """What names stand for, and what addresses lead back to."""

    def __init__(self, forward: dict[str, Sequence[str]], backward: dict[str, str] | None = None) -> None:
        self.forward = forward
        self.backward = backward or {}

    async def getaddrinfo(  # type: ignore[override]  # typeshed has the families apart
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002
        proto: int = 0,
        flags: int = 0,
    ) -> Resolved:
        await trio.lowlevel.checkpoint()
        name = (host or b"").decode()
        if name not in self.forward:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [info for address in self.forward[name] for info in socket.getaddrinfo(address, port, type=type)]  # type: ignore[misc]

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        if sockaddr[0] not in self.backward:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.backward[sockaddr[0]], str(sockaddr[1])


def with_names(names: Names, test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        trio.socket.set_custom_hostname_resolver(names)
        with trio.fail_after(DEADLINE_S):
            await test()

    trio.run(bounded)


class Listener:
    """Listens at one address, and hangs up at once on all that come: a load balancer whose broker is gone."""

    def __init__(self, host: str, port: int) -> None:
        self._listening = socket.create_server((host, port))
        self.visitors = 0

    async def run(self) -> None:
        listening = trio.socket.from_stdlib_socket(self._listening)
        while True:
            connected, _ = await listening.accept()
            self.visitors += 1
            connected.close()

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def at_second(port: int) -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1}, host=SECOND, port=port) as cluster:
        cluster.produce("orders", b"here")
        yield cluster


@pytest.fixture
def dead(port: int) -> Iterator[Listener]:
    listener = Listener(FIRST, port)
    yield listener
    listener.close()


@pytest.fixture
def rig(make_rig: MakeRig, port: int) -> Rig:
    """Dials for real."""
    return make_rig(TcpTransport(-1, -1), f"{NAME}:{port}")  # type: ignore[arg-type]  # it is a transport


async def dialled(addresses: Addresses, port: int) -> str:
    connected, address = await addresses.dial(NAME, port)
    connected.close()
    return address.socket_address[0]


# --- many addresses ----------------------------------------------------------------------------------------------


def test_when_one_address_refuses_the_next_is_dialled_and_remembered(at_second: Cluster, port: int) -> None:
    async def scenario() -> None:
        addresses = Addresses()
        assert await dialled(addresses, port) == SECOND
        order = await addresses.of(NAME, port)
        assert [address.socket_address[0] for address in order] == [SECOND, THIRD, FIRST]

    with_names(Names({NAME: [FIRST, SECOND, THIRD]}), scenario)


def test_when_all_fail_each_is_named_with_its_reason(port: int) -> None:
    async def scenario() -> None:
        with pytest.raises(OSError, match="refused") as raised:
            await Addresses().dial(NAME, port)
        assert str(raised.value) == f"{FIRST}:{port}: Connection refused; {SECOND}:{port}: Connection refused"

    with_names(Names({NAME: [FIRST, SECOND]}), scenario)


@pytest.mark.slow
def test_an_address_that_says_nothing_does_not_hold_up_the_next(at_second: Cluster, port: int) -> None:
    """Its backlog is full, so that the system never answers."""
    with socket.socket() as deaf, socket.socket() as filling:
        deaf.bind((FIRST, port))
        deaf.listen(0)
        filling.connect((FIRST, port))

        async def scenario() -> None:
            assert await dialled(Addresses(), port) == SECOND

        with_names(Names({NAME: [FIRST, SECOND]}), scenario)


def test_an_address_that_connects_and_goes_no_further_is_left_for_the_next(
    rig: Rig, at_second: Cluster, dead: Listener
) -> None:
    """As in Java: what TCP takes for a success is none yet."""

    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dead.run)
            async with rig.running():
                while (await rig.send().wait()).error is not None:
                    pass
                assert dead.visitors == 1
                rig.client.close_connections()
                while (await rig.send().wait()).error is not None:
                    pass
                assert dead.visitors == 1, "the address that was of use comes first from then on"
            nursery.cancel_scope.cancel()

    with_names(Names({NAME: [FIRST, SECOND]}), scenario)


def test_an_address_that_has_failed_is_tried_again_when_the_other_one_has(port: int) -> None:
    addresses = Addresses()
    first, second = (Address(socket.AF_INET, (host, port)) for host in (FIRST, SECOND))

    async def scenario() -> None:
        for failed, expected in ((first, [second, first]), (second, [first, second]), (first, [second, first])):
            addresses.failed(failed)
            assert await addresses.of(NAME, port) == expected

    with_names(Names({NAME: [FIRST, SECOND]}), scenario)


def test_what_is_remembered_of_addresses_is_bounded(port: int) -> None:
    """Those of a load balancer change every few minutes."""
    addresses = Addresses()
    for number in range(2 * MAX_FAILED):
        addresses.failed(Address(socket.AF_INET, (f"10.0.{number // 250}.{number % 250}", port)))
    assert len(addresses._failed) == MAX_FAILED


@pytest.mark.parametrize("size_bytes", [20_000, -1])
def test_the_sizes_of_buffers_are_set_before_it_connects(
    at_second: Cluster, port: int, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    """Set afterwards, one of 4 KiB let through some 60 records a second, of 40,000: the broker sends in pieces that do
    not fit in, and waits each time."""
    before = list[list[int]]()

    async def scenario() -> None:
        with trio.socket.socket() as some:
            of_socket = type(some)
        connect = of_socket.connect

        async def noting_connect(dialled: trio.socket.SocketType, address: object) -> None:
            before.append(
                [dialled.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_RCVBUF, socket.SO_SNDBUF)]
            )
            await connect(dialled, address)

        monkeypatch.setattr(of_socket, "connect", noting_connect)
        stream = await TcpTransport(size_bytes, size_bytes).connect(SECOND, port)
        await stream.aclose()

    trio.run(scenario)
    with socket.socket() as fresh:
        default = [fresh.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_RCVBUF, socket.SO_SNDBUF)]
    # Linux doubles what it is told.
    assert before[0] in ([default] if size_bytes < 0 else [[size_bytes] * 2, [2 * size_bytes] * 2])


def test_names_are_looked_up_anew_with_each_dial(at_second: Cluster, port: int) -> None:
    names = Names({NAME: [FIRST]})

    async def scenario() -> None:
        addresses = Addresses()
        with pytest.raises(OSError, match="refused"):
            await addresses.dial(NAME, port)
        names.forward[NAME] = [SECOND]
        assert await dialled(addresses, port) == SECOND

    with_names(names, scenario)


def test_where_a_name_has_both_families_the_second_attempt_is_of_the_other(port: int) -> None:
    async def scenario() -> None:
        found = await Addresses().of(NAME, port)
        assert [str(address) for address in found] == [
            f"[::1]:{port}",
            f"{FIRST}:{port}",
            f"[::2]:{port}",
            f"{SECOND}:{port}",
        ]

    with_names(Names({NAME: ["::1", "::2", FIRST, SECOND]}), scenario)


@pytest.mark.parametrize("host", ["", "no/name", "x" * 300])
def test_what_is_no_name_is_told_as_such(host: str) -> None:
    async def scenario() -> None:
        with pytest.raises(OSError, match=r".+"):
            await Addresses().dial(host, 9092)

    trio.run(scenario)


# --- canonical names ---------------------------------------------------------------------------------------------


def test_the_name_of_many_brokers_becomes_the_name_of_each() -> None:
    """What Kerberos needs: its tickets are for the name of one broker."""
    names = Names({NAME: [FIRST, SECOND, THIRD]}, {FIRST: "one.test", SECOND: "two.test"})

    async def scenario() -> None:
        found = await canonical_servers([Endpoint(NAME, 9092), Endpoint(NAME, 9093)])
        assert list(map(str, found)) == [
            *("one.test:9092", "two.test:9092", "127.0.0.3:9092"),
            *("one.test:9093", "two.test:9093", "127.0.0.3:9093"),
        ]

    with_names(names, scenario)


@pytest.mark.parametrize(
    ("lookup", "expected"),
    [
        ("use_all_dns_ips", [NAME]),
        ("resolve_canonical_bootstrap_servers_only", ["one.test"]),
        ("RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY", ["one.test"]),
    ],
)
def test_it_does_so_if_the_setting_wants_it(lookup: str, expected: list[str]) -> None:
    config = ConsumerConfig.of({"bootstrap.servers": f"{NAME}:9092", "client.dns.lookup": lookup})

    async def scenario() -> None:
        resolved = await _with_canonical_servers(config)
        assert [server.host for server in resolved.bootstrap_servers] == expected

    with_names(Names({NAME: [FIRST]}, {FIRST: "one.test"}), scenario)


def test_names_that_cannot_be_resolved_yet_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    lookup = "resolve_canonical_bootstrap_servers_only"
    config = ConsumerConfig.of({"bootstrap.servers": f"{NAME}:9092", "client.dns.lookup": lookup})

    async def scenario() -> None:
        assert (await _with_canonical_servers(config)).bootstrap_servers == ((NAME, 9092),)

    with caplog.at_level(logging.WARNING):
        with_names(Names({}), scenario)
    assert "cannot be resolved to canonical names" in caplog.text


class SlowNames(Names):
    """Nobody answers who an address is."""

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        await trio.sleep(20)
        return await super().getnameinfo(sockaddr, flags)


def test_look_ups_that_take_too_long_do_not_keep_the_network_thread_from_starting(
    in_virtual_time: InVirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    """The constructor told of a process that lets no threads run, and what to set in uWSGI."""
    lookup = "resolve_canonical_bootstrap_servers_only"
    config = ConsumerConfig.of({"bootstrap.servers": f"{NAME}:9092", "client.dns.lookup": lookup})

    async def scenario() -> None:
        trio.socket.set_custom_hostname_resolver(SlowNames({NAME: [FIRST, SECOND, THIRD, "127.0.0.4"]}))
        assert (await _with_canonical_servers(config)).bootstrap_servers == ((NAME, 9092),)
        assert trio.current_time() < START_TIMEOUT_S

    with caplog.at_level(logging.WARNING):
        in_virtual_time(scenario)
    assert "used as they are: the look-ups take longer than 30 s" in caplog.text


def test_a_consumer_reads_by_canonical_names() -> None:
    with Cluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", b"here")
        read(cluster.bootstrap_servers, client_dns_lookup="resolve_canonical_bootstrap_servers_only")


# --- IPv6 and advertised listeners -------------------------------------------------------------------------------


def read(servers: str, **settings: object) -> None:
    given = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", **settings}
    consumer: Consumer[bytes, bytes] = Consumer(config=given)
    with consumer:
        consumer.assign([TopicPartition("orders", 0)])
        assert [record.value for record in consumer.poll(DEADLINE_S)] == [b"here"]


@pytest.mark.parametrize("advertised", ["::1", "[::1]", "0:0:0:0:0:0:0:1"])
def test_brokers_live_at_ipv6_addresses(port: int, advertised: str) -> None:
    """In bootstrap_servers, and in metadata however the broker writes it."""
    with Cluster(topics={"orders": 1}, host="::1", port=port, advertised=[(advertised, port)]) as cluster:
        cluster.produce("orders", b"here")
        read(f"[::1]:{port}")


def test_an_ipv6_address_is_named_with_its_brackets() -> None:
    assert str(Node(1, "::1", 9092)) == "[::1]:9092 (id 1)"
    assert str(Node(1, "[::1]", 9092)) == "[::1]:9092 (id 1)"
    with Cluster(host="::1") as cluster:
        assert cluster.bootstrap_servers.startswith("[::1]:")


def test_brokers_may_be_advertised_elsewhere_than_they_are_bootstrapped(port: int) -> None:
    """Behind a bootstrap address that is nobody's own, such as a load balancer's."""
    with Cluster(topics={"orders": 1}, host="0.0.0.0", port=port, advertised=[(SECOND, port)]) as cluster:
        cluster.produce("orders", b"here")
        read(f"{THIRD}:{port}")
