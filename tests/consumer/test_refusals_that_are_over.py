"""Brokers that refused this client once, in an outage later: what they said then is no reason any more."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator

import pytest

from kwire import Consumer
from kwire.errors import AuthenticationError
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.testing import Cluster
from kwire.testing.certificates import CertificateAuthority

WAIT_S = 20.0
QUICK = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100, "auto_offset_reset": "earliest"}


@pytest.fixture
def named_by_address() -> Iterator[tuple[Cluster, dict[str, object]]]:
    """Two brokers whose certificate is for 127.0.0.1 alone, and settings of which the first bootstrap server is
    another name of the first broker."""
    authority = CertificateAuthority()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(str(authority.issue("127.0.0.1").path))
    with Cluster(2, topics={"orders": 2}, tls=tls, security_protocol="SSL") as cluster:
        first, second = cluster.bootstrap_servers.split(",")
        servers = f"{first.replace('127.0.0.1', 'localhost')},{second}"
        security = {"security_protocol": "SSL", "ssl_truststore_location": str(authority.path)}
        yield cluster, {**QUICK, **security, "bootstrap_servers": servers}


def read(consumer: Consumer[bytes, bytes], count: int) -> int:
    found, until_s = 0, time.monotonic() + WAIT_S
    while found < count and time.monotonic() < until_s:
        found += len(consumer.poll(0.2))
    return found


def poll_for(consumer: Consumer[bytes, bytes], seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        assert not len(consumer.poll(0.1))


def test_a_bootstrap_name_that_no_certificate_has_ends_nothing_in_an_outage(
    named_by_address: tuple[Cluster, dict[str, object]],
) -> None:
    """Polls raised its refusal, and a `Processor` ended by it, though the brokers came back."""
    cluster, settings = named_by_address
    cluster.produce("orders", b"before", partition=1)
    with Consumer("orders", config=settings, group_id="billing") as consumer:
        assert read(consumer, 1) == 1
        for node_id in (0, 1):
            cluster.kill_broker(node_id)
        poll_for(consumer, 1.0)
        for node_id in (0, 1):
            cluster.start_broker(node_id)
        cluster.produce("orders", b"behind", partition=1)
        assert read(consumer, 1) == 1


def test_nor_is_a_consumer_unhealthy_for_it_that_works(named_by_address: tuple[Cluster, dict[str, object]]) -> None:
    cluster, settings = named_by_address
    cluster.produce("orders", b"one", partition=1)
    with Consumer("orders", config=settings, group_id="billing") as consumer:
        assert read(consumer, 1) == 1
        assert consumer.healthy(), consumer.healthy()
        assert "localhost" not in str(consumer.describe())


def password_cluster() -> Cluster:
    return Cluster(2, topics={"orders": 2}, users={"alice": "old"})


def consumer_of(cluster: Cluster) -> Consumer[bytes, bytes]:
    return Consumer("orders", config={**cluster.client_config("alice"), **QUICK}, group_id="billing")


def test_a_password_that_is_right_again_is_not_said_to_be_wrong() -> None:
    with password_cluster() as cluster, consumer_of(cluster) as consumer:
        cluster.produce("orders", b"one")
        assert read(consumer, 1) == 1
        cluster.set_password("alice", "new")
        cluster.cut_connections()
        with pytest.raises(AuthenticationError, match="alice"):
            read(consumer, 1)
        cluster.set_password("alice", "old")
        cluster.produce("orders", b"two")
        assert read_again(consumer) == 1
        for node_id in (0, 1):
            cluster.kill_broker(node_id)
        poll_for(consumer, 1.0)
        consumer.close(0.0)


def read_again(consumer: Consumer[bytes, bytes]) -> int:
    """What was refused just now may be told once more."""
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        try:
            return read(consumer, 1)
        except AuthenticationError:
            continue
    return 0


def test_brokers_that_all_refuse_after_an_outage_are_believed() -> None:
    with password_cluster() as cluster, consumer_of(cluster) as consumer:
        cluster.produce("orders", b"one")
        assert read(consumer, 1) == 1
        for node_id in (0, 1):
            cluster.kill_broker(node_id)
        poll_for(consumer, 0.5)
        cluster.set_password("alice", "new")
        for node_id in (0, 1):
            cluster.start_broker(node_id)
        with pytest.raises(AuthenticationError, match="alice"):
            read(consumer, 1)


def test_a_refusal_counts_beside_a_connection_that_was_accepted_before_it() -> None:
    """The connection of fetches lives on with the old password. It was taken for a proof that the password is right:
    new topics were never found, and nothing was raised."""
    with password_cluster() as cluster, consumer_of(cluster) as consumer:
        cluster.produce("orders", b"one")
        assert read(consumer, 1) == 1
        cluster.set_password("alice", "new")
        cluster.control.on(MetadataRequest).cut()
        with pytest.raises(AuthenticationError, match="alice"):
            consumer.list_topics()
        assert not consumer.healthy()
        consumer.close(0.0)


def test_bootstrap_servers_that_refuse_are_believed_though_another_one_is_down() -> None:
    """As when all brokers have been replaced."""
    with password_cluster() as cluster, Cluster(users={"alice": "new"}) as replacement:
        config = {**cluster.client_config("alice"), **QUICK}
        config["bootstrap.servers"] = f"{cluster.bootstrap_servers},{replacement.bootstrap_servers}"
        with Consumer("orders", config=config, group_id="billing") as consumer:
            cluster.produce("orders", b"one")
            assert read(consumer, 1) == 1
            for node_id in (0, 1):
                cluster.kill_broker(node_id)
            with pytest.raises(AuthenticationError, match="alice"):
                read(consumer, 1)
            consumer.close(0.0)
