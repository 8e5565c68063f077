"""BrokerClient asks one question at a time, over the handshake of the consumer."""

from __future__ import annotations

import errno
import socket
import threading

import pytest

from kwire.config import ConsumerConfig, Endpoint
from kwire.errors import BootstrapError, DisconnectError, IllegalStateError, UnsupportedVersionError
from kwire.network.broker_client import BrokerClient
from kwire.network.broker_connections import ConnectionAttempt, Stage
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing import Cluster

TIMEOUT_S = 5.0


def config_of(cluster: Cluster, **settings: object) -> ConsumerConfig:
    found = {name.replace(".", "_"): value for name, value in cluster.client_config().items()}
    return ConsumerConfig.of(found | settings)


def a_closed_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def test_it_asks_over_tls_and_a_login_and_leaves_no_thread() -> None:
    with Cluster(topics={"orders": 2}, security_protocol="SASL_SSL", tls=True, users={"alice": "secret"}) as cluster:
        config = config_of(cluster)
        with BrokerClient(config, TIMEOUT_S) as client:
            attempt = ConnectionAttempt()
            client.reach(config.bootstrap_servers[0], attempt)
            assert (attempt.stage, attempt.tls_version) == (Stage.LOGIN, "TLSv1.3")
            assert client.certificate(config.bootstrap_servers[0]) == attempt.certificate
            (topic,) = client.ask(MetadataRequest(topics=None)).topics
            assert len(topic.partitions) == 2
    assert [thread for thread in threading.enumerate() if thread.name == "kwire-broker-client"] == []


def test_a_server_that_is_gone_is_passed_by() -> None:
    with Cluster() as cluster:
        servers = f"127.0.0.1:{a_closed_port()},{cluster.bootstrap_servers}"
        with BrokerClient(config_of(cluster, bootstrap_servers=servers), TIMEOUT_S) as client:
            assert client.ask(MetadataRequest(topics=[])).brokers
            assert str(client.first_reachable()) == cluster.bootstrap_servers


def test_without_any_server_each_is_named_with_its_reason() -> None:
    servers = [f"127.0.0.1:{a_closed_port()}" for _ in range(2)]
    config = ConsumerConfig.of({"bootstrap_servers": servers})
    with BrokerClient(config, TIMEOUT_S) as client, pytest.raises(BootstrapError) as raised:
        client.ask(MetadataRequest(topics=[]))
    assert all(f"broker {server}: Connection refused" in str(raised.value) for server in servers)


def test_a_broker_that_hangs_up_on_a_new_greeting_is_greeted_in_an_older_one() -> None:
    """Azure Event Hubs does so."""
    asked: list[int] = []
    with Cluster() as cluster:
        cluster.control.on(ApiVersionsRequest).observe(lambda _request, context: asked.append(context.version))
        cluster.control.on(ApiVersionsRequest, times=1).cut()
        with BrokerClient(config_of(cluster), TIMEOUT_S) as client:
            assert client.ask(MetadataRequest(topics=[])).brokers
    assert asked[0] == ApiVersionsRequest.max_version
    assert asked[1] < asked[0]


def test_a_connection_that_is_lost_is_told_and_made_anew() -> None:
    with Cluster() as cluster, BrokerClient(config_of(cluster), TIMEOUT_S) as client:
        cluster.control.on(MetadataRequest, times=1).cut()
        with pytest.raises(DisconnectError, match="it hung up instead of answering Metadata; it answered no request"):
            client.ask(MetadataRequest(topics=[]))
        assert client.ask(MetadataRequest(topics=[])).brokers


def test_an_answer_that_does_not_come_is_waited_for_so_long() -> None:
    with Cluster() as cluster, BrokerClient(config_of(cluster), timeout_s=0.05) as client:
        client.first_reachable()
        cluster.control.on(MetadataRequest).drop()
        with pytest.raises(DisconnectError, match="no answer to Metadata in time"):
            client.ask(MetadataRequest(topics=[]))


def test_a_request_may_depend_on_the_version_that_both_speak() -> None:
    versions: list[int] = []

    def request(version: int) -> MetadataRequest:
        versions.append(version)
        return MetadataRequest(topics=[])

    with Cluster() as cluster, BrokerClient(config_of(cluster), TIMEOUT_S) as client:
        answer = client.ask(MetadataRequest(), max_version=9, for_version=request)
        assert isinstance(answer, MetadataResponse)
        with pytest.raises(UnsupportedVersionError, match="Metadata"):
            client.ask(MetadataRequest(), min_version=99)
    assert versions == [9]


def test_it_is_used_within_its_with() -> None:
    client = BrokerClient(ConsumerConfig.of({"bootstrap_servers": "localhost:1"}))
    with pytest.raises(IllegalStateError, match="within its `with`"):
        client.certificate(Endpoint("localhost", 1))


def test_without_an_event_loop_it_raises_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event loop takes file descriptors. When there were none left, a command waited for ever."""

    def run(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("trio.run", run)
    client = BrokerClient(ConsumerConfig.of(bootstrap_servers="127.0.0.1:1"), TIMEOUT_S)
    with pytest.raises(OSError, match="Too many open files"), client:
        pytest.fail("there is no loop to ask in")
