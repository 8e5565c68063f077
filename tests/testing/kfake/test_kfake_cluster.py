"""kfake as a broker of tests: kwire reads from it, librdkafka logs in by all it has, and it leaves nothing behind."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from kwire import Consumer
from kwire.testing.kafka.jars import ClusterError, MissingSoftwareError
from kwire.testing.kfake import Acl, KfakeCluster, TlsFiles, User
from kwire.testing.kfake.build import ensure_kfake

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.testing.kfake.options import Mechanism

pytestmark = pytest.mark.integration

TIMEOUT_S = 20.0
SECRET = "a password that must not be seen"


def topics_seen(
    cluster: KfakeCluster, settings: Mapping[str, str] | None = None, *, timeout_s: float = TIMEOUT_S
) -> set[str]:
    """The topics that a client with these settings may see."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **(settings or {})})
    return {name for name, topic in admin.list_topics(timeout=timeout_s).topics.items() if topic.error is None}


def login(user: str, password: str, mechanism: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def produce(cluster: KfakeCluster, topic: str, *values: bytes) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kwire_reads_in_a_group_and_commits(protocol: str) -> None:
    with KfakeCluster(2, topics={"orders": 1}, settings={"group.consumer.heartbeat.interval.ms": 100}) as cluster:
        for number in (b"1", b"2"):
            produce(cluster, "orders", number)
            consumer: Consumer[bytes, bytes] = Consumer(
                "orders",
                bootstrap_servers=cluster.bootstrap_servers,
                group_id="billing",
                group_protocol=protocol,
                auto_offset_reset="earliest",
            )
            with consumer:
                records = consumer.poll(TIMEOUT_S)
                assert [record.value for record in records] == [number], "the group goes on behind its commit"
                consumer.commit_sync()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_log_in_and_see_what_they_may(mechanism: Mechanism) -> None:
    acls = [Acl(resource="topic", name="open-", prefixed=True, operation="describe")]
    users = [User(name="ann", password=SECRET, mechanism=mechanism, acls=acls)]
    topics = {"open-1": 1, "closed": 1}
    with KfakeCluster(topics=topics, users=users, authorize=True) as cluster:
        assert topics_seen(cluster, login("ann", SECRET, mechanism)) == {"open-1"}
        with pytest.raises(confluent_kafka.KafkaException):
            topics_seen(cluster, login("ann", "wrong", mechanism), timeout_s=1.0)


def test_superusers_may_do_everything() -> None:
    users = [User(name="root", password=SECRET, superuser=True)]
    with KfakeCluster(topics={"closed": 1}, users=users, authorize=True) as cluster:
        assert topics_seen(cluster, login("root", SECRET, "PLAIN")) == {"closed"}


@pytest.fixture
def certificate(tmp_path: Path) -> TlsFiles:
    """Made by a program that comes with Go."""
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    program = f"{root}/src/crypto/tls/generate_cert.go"
    subprocess.run(
        ["go", "run", program, "--host", "127.0.0.1", "--ca", "--ecdsa-curve", "P256"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    return TlsFiles(certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem")


def test_tls_is_spoken_with_all_who_trust_the_certificate(certificate: TlsFiles) -> None:
    with KfakeCluster(topics={"orders": 1}, tls=certificate) as cluster:
        trusting = {"security.protocol": "SSL", "ssl.ca.location": str(certificate.certificate)}
        assert topics_seen(cluster, trusting) == {"orders"}


def test_who_has_no_certificate_is_sent_away_where_one_is_asked_for(certificate: TlsFiles) -> None:
    demanding = TlsFiles(certificate=certificate.certificate, key=certificate.key, client_ca=certificate.certificate)
    with KfakeCluster(topics={"orders": 1}, tls=demanding) as cluster:
        trusting = {"security.protocol": "SSL", "ssl.ca.location": str(certificate.certificate)}
        with pytest.raises(confluent_kafka.KafkaException):
            topics_seen(cluster, trusting, timeout_s=1.0)


def test_it_is_gone_when_it_is_stopped_and_begins_anew() -> None:
    cluster = KfakeCluster(topics={"orders": 1})
    with cluster:
        (host, port) = cluster.bootstrap_servers.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 1.0)
    with pytest.raises(ClusterError, match="not started"):
        _ = cluster.bootstrap_servers
    with cluster:
        assert topics_seen(cluster) == {"orders"}


def test_it_says_why_it_does_not_start(tmp_path: Path) -> None:
    files = TlsFiles(certificate=tmp_path / "none.pem", key=tmp_path / "none.key")
    with pytest.raises(ClusterError, match=r"kfake does not start: .*none\.pem"):
        KfakeCluster(tls=files).start()


def test_passwords_are_in_no_repr_and_no_command_line() -> None:
    users = [User(name="ann", password=SECRET)]
    assert SECRET not in repr(users)
    with KfakeCluster(users=users) as cluster:
        assert SECRET not in repr(cluster)
        assert cluster._process is not None
        assert SECRET not in str(cluster._process.args)


def test_without_go_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingSoftwareError, match="Go is needed to build kfake: install it"):
        ensure_kfake(tmp_path)
