"""How a cluster is laid out, before anything is started. What a running one does: `test_kafka_cluster_real`."""

from __future__ import annotations

import socket

import pytest

from kwire.testing.kafka import ClusterError, KafkaCluster
from kwire.testing.kafka.addresses import PORTS, Address, ProxiedListener, choose_addresses, free_ports
from kwire.testing.kafka.node import new_id, node_settings, render_properties

THREE = tuple(Address(broker_port=20000 + i, controller_port=21000 + i) for i in range(3))


@pytest.mark.parametrize(("brokers", "controllers"), [(1, 1), (2, 1), (3, 3), (5, 3)])
def test_controllers_are_one_or_three(brokers: int, controllers: int) -> None:
    addresses = choose_addresses(brokers)
    assert len(addresses) == brokers
    assert [at.controller_port is not None for at in addresses] == [i < controllers for i in range(brokers)]


def test_no_port_is_given_twice() -> None:
    ports = free_ports(100)
    assert len(set(ports)) == 100
    assert set(ports) <= set(PORTS)


def test_a_taken_port_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = free_ports(2)
    monkeypatch.setattr("kwire.testing.kafka.addresses.random.sample", lambda ports, count: [taken, free])
    with socket.create_server(("127.0.0.1", taken)):
        assert free_ports(1) == [free]


def test_too_few_free_ports_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.testing.kafka.addresses.random.sample", lambda ports, count: [])
    with pytest.raises(ClusterError, match="no 1 free ports"):
        free_ports(1)


def test_a_single_node_is_broker_and_controller() -> None:
    settings = node_settings(0, choose_addresses(1), {})
    assert settings["process.roles"] == "broker,controller"
    assert settings["offsets.topic.replication.factor"] == "1"


def test_every_node_knows_all_voters() -> None:
    addresses = [*THREE, Address(broker_port=20003, controller_port=None)]
    nodes = [node_settings(i, addresses, {}) for i in range(4)]
    voters = "0@127.0.0.1:21000,1@127.0.0.1:21001,2@127.0.0.1:21002"
    assert {settings["controller.quorum.voters"] for settings in nodes} == {voters}
    assert {settings["offsets.topic.replication.factor"] for settings in nodes} == {"3"}
    assert nodes[3]["process.roles"] == "broker"
    assert nodes[3]["listeners"] == "BROKER://127.0.0.1:20003"


def test_clients_of_proxies_have_a_listener_of_their_own() -> None:
    at = Address(broker_port=20000, controller_port=21000, proxied=ProxiedListener(22000, "proxy:23000"))
    settings = node_settings(0, [at], {})
    assert settings["listeners"] == "BROKER://127.0.0.1:20000,CLIENT://127.0.0.1:22000,CONTROLLER://127.0.0.1:21000"
    assert settings["advertised.listeners"] == "BROKER://127.0.0.1:20000,CLIENT://proxy:23000"
    assert settings["inter.broker.listener.name"] == "BROKER"
    assert (str(at), at.advertised, at.client_port) == ("127.0.0.1:20000", "proxy:23000", 22000)


def test_without_proxies_clients_come_in_where_brokers_do() -> None:
    at = Address(broker_port=20000, controller_port=None)
    settings = node_settings(0, [at], {})
    assert settings["listeners"] == settings["advertised.listeners"] == "BROKER://127.0.0.1:20000"
    assert (at.advertised, at.client_port) == ("127.0.0.1:20000", 20000)


def test_each_broker_gets_the_proxy_of_its_place() -> None:
    addresses = choose_addresses(2, [("127.0.0.1", 30000), ("proxy", 30001)])
    assert [at.advertised for at in addresses] == ["127.0.0.1:30000", "proxy:30001"]
    assert len({port for at in addresses for port in (at.broker_port, at.client_port)}) == 4


def test_no_broker_takes_the_port_of_a_proxy_that_is_yet_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    promised, *others = free_ports(4)
    monkeypatch.setattr("kwire.testing.kafka.addresses.random.sample", lambda ports, count: [promised, *others])
    (at,) = choose_addresses(1, [("127.0.0.1", promised)])
    assert {at.broker_port, at.controller_port, at.client_port} == set(others)


def test_as_many_proxies_as_brokers() -> None:
    with pytest.raises(ClusterError, match="each broker is advertised: 3 addresses, not 2"):
        KafkaCluster(3, advertised=[("127.0.0.1", 30000), ("127.0.0.1", 30001)])


def test_settings_of_the_caller_win() -> None:
    settings = node_settings(0, THREE, {"num.partitions": "7", "offsets.topic.num.partitions": "1"})
    assert settings["num.partitions"] == "7"
    assert settings["offsets.topic.num.partitions"] == "1"


def test_properties_escape_what_java_would_read_otherwise() -> None:
    assert render_properties({"a": "1", "b": "c\\d"}) == "a=1\nb=c\\\\d\n"
    with pytest.raises(ClusterError, match="line break: a"):
        render_properties({"a": "1\nb=2"})


def test_ids_are_22_characters_and_no_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    random_bytes = iter([b"\xf8" + bytes(15), bytes(16)])
    monkeypatch.setattr("kwire.testing.kafka.node.secrets.token_bytes", lambda count: next(random_bytes))
    assert new_id() == "A" * 22


def test_a_cluster_has_a_broker() -> None:
    with pytest.raises(ClusterError, match="at least one broker, not 0"):
        KafkaCluster(0)


def test_stopping_what_never_started_does_nothing() -> None:
    KafkaCluster().stop()
