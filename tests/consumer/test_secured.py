"""A consumer over TLS and SASL, against the cluster in the process: what a user sees of it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from kwire import Consumer
from kwire.config import OAuthToken
from kwire.errors import (
    AuthenticationError,
    BootstrapError,
    ConfigError,
    KafkaError,
    KafkaTimeoutError,
    NoTokenError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kwire.testing import Cluster

USER, PASSWORD = "alice", "correct horse"
RECORDS = 300
WAIT_S = 20.0
UNSIGNED = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'unsecuredLoginStringClaim_sub="{USER}" unsecuredLoginLifetimeSeconds="60";'
)
LOGIN: dict[str, object] = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": USER, "sasl_password": PASSWORD}
MECHANISMS: dict[str, dict[str, object]] = {
    "PLAIN": {**LOGIN, "sasl_mechanism": "PLAIN"},
    "SCRAM-SHA-256": LOGIN,
    "SCRAM-SHA-512": {**LOGIN, "sasl_mechanism": "SCRAM-SHA-512"},
    "OAUTHBEARER": {"sasl_mechanism": "OAUTHBEARER", "sasl_jaas_config": UNSIGNED},
}

BytesConsumer = Consumer[bytes, bytes]


def cluster_of(protocol: str, **options: object) -> Cluster:
    """One of three brokers with records, whose sessions last two seconds."""
    if "SASL" in protocol:
        options["users"] = {USER: PASSWORD}
    if "SSL" in protocol:
        options.setdefault("tls", True)
    settings = {"connections.max.reauth.ms": 2_000, "group.initial.rebalance.delay.ms": 0}
    return Cluster(3, topics={"orders": 3}, security_protocol=protocol, settings=settings, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def secured(request: pytest.FixtureRequest) -> Iterator[tuple[str, Cluster]]:
    with cluster_of(request.param) as cluster:
        for partition in range(3):
            cluster.produce("orders", *[b"%d" % n for n in range(RECORDS // 3)], partition=partition)
        yield request.param, cluster


def consumer_of(
    cluster: Cluster, protocol: str, given: Mapping[str, object] | None = None, *, group: str = "billing"
) -> BytesConsumer:
    settings = {"auto_offset_reset": "earliest", "security_protocol": protocol, **(given or {})}
    if "SSL" in protocol and "ssl_context" not in settings:
        settings.setdefault("ssl_truststore_location", cluster.certificates.path)
    return Consumer("orders", config={"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, **settings})


def read(consumer: BytesConsumer, count: int = RECORDS) -> int:
    """How many records come, up to `count`."""
    until, found = time.monotonic() + WAIT_S, 0
    while found < count and time.monotonic() < until:
        found += len(consumer.poll(1.0))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_member_of_a_group_reads_and_commits_with_each_login(
    secured: tuple[str, Cluster], mechanism: str, group_protocol: str
) -> None:
    protocol, cluster = secured
    login = MECHANISMS[mechanism] if "SASL" in protocol else {}
    group = f"{protocol}-{mechanism}-{group_protocol}"

    with consumer_of(cluster, protocol, {**login, "group_protocol": group_protocol}, group=group) as consumer:
        found = read(consumer)
        consumer.commit_sync()

    assert found == RECORDS
    assert sum(position.offset for position in cluster.committed(group).values()) == RECORDS


@pytest.mark.parametrize(
    ("settings", "error_class", "said"),
    [
        (
            {**LOGIN, "sasl_password": "battery staple"},
            SaslAuthenticationError,
            f"refuses the login of {USER} by SCRAM-SHA-256",
        ),
        ({**LOGIN, "sasl_username": "bob"}, SaslAuthenticationError, "refuses the login of bob by SCRAM-SHA-256"),
        (
            {**MECHANISMS["PLAIN"], "sasl_password": "battery staple"},
            SaslAuthenticationError,
            "Invalid username or password",
        ),
        ({"sasl_oauth_token_provider": lambda: "aaa.bbb.ccc"}, SaslAuthenticationError, "invalid_token"),
        (
            {"sasl_oauth_token_provider": lambda: OAuthToken("aaa.bbb.ccc", expires_at_ms=1_000)},
            NoTokenError,
            "expired",
        ),
    ],
)
def test_a_login_that_is_refused_is_raised_by_the_first_poll_and_by_calls(
    settings: dict[str, object], error_class: type[KafkaError], said: str
) -> None:
    with (
        cluster_of("SASL_SSL") as cluster,
        consumer_of(cluster, "SASL_SSL", {**settings, "sasl_login_retry_backoff_max_ms": 200}) as consumer,
    ):
        with pytest.raises(error_class, match=said) as caught:
            consumer.poll(5.0)
        with pytest.raises((error_class, KafkaTimeoutError), match=said):
            consumer.partitions_for("orders", timeout=1.0)

    assert isinstance(caught.value, AuthenticationError)
    assert "staple" not in repr(caught.value)


def test_a_mechanism_that_the_brokers_do_not_have_is_told_with_those_they_have() -> None:
    with (
        cluster_of("SASL_PLAINTEXT", sasl_mechanisms=("SCRAM-SHA-512",)) as cluster,
        consumer_of(cluster, "SASL_PLAINTEXT", LOGIN) as consumer,
        pytest.raises(UnsupportedSaslMechanismError, match="it offers: SCRAM-SHA-512"),
    ):
        consumer.poll(5.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listener", "spoken", "error_class", "said"),
    [
        ("SSL", "PLAINTEXT", BootstrapError, "is this a listener for PLAINTEXT\\? One with TLS"),
        ("PLAINTEXT", "SSL", BootstrapError, "is this a listener for SSL\\? One without TLS"),
        ("SASL_PLAINTEXT", "PLAINTEXT", BootstrapError, "does it expect a login"),
        ("SASL_SSL", "SASL_PLAINTEXT", BootstrapError, "is this a listener for SASL_PLAINTEXT\\? One with TLS"),
        ("PLAINTEXT", "SASL_PLAINTEXT", AuthenticationError, "takes no SASL"),
        ("SSL", "SASL_SSL", AuthenticationError, "takes no SASL"),
        ("SASL_SSL", "SSL", BootstrapError, "does it expect a login"),
    ],
)
def test_a_listener_of_another_protocol_is_told(
    listener: str, spoken: str, error_class: type[KafkaError], said: str
) -> None:
    with cluster_of(listener) as cluster:
        trust = {"ssl_truststore_location": cluster.certificates.path} if "SSL" in listener and "SSL" in spoken else {}
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing", "security.protocol": spoken}
        login = LOGIN if "SASL" in spoken else {}
        consumer: BytesConsumer = Consumer("orders", config={**settings, **trust, **login})
        with consumer, pytest.raises(error_class, match=said):
            consumer.poll(1.5)


def test_a_client_certificate_is_asked_for_and_taken() -> None:
    with cluster_of("SSL", tls_client_auth="required") as cluster:
        own = cluster.certificates.issue(common_name="billing", key_password="hush")
        cluster.produce("orders", b"1")
        with consumer_of(cluster, "SSL", {"ssl_keystore_location": own.path, "ssl_key_password": "hush"}) as consumer:
            assert read(consumer, 1) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl_truststore_location": "/no/such/file.pem"},
        {"ssl_keystore_location": "/no/such/file.pem"},
        {"ssl_truststore_type": "JKS"},
    ],
)
def test_files_that_cannot_be_used_are_an_error_of_the_constructor(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Consumer("orders", config={"bootstrap.servers": "localhost:1", "security.protocol": "SSL", **settings})


class Group:
    """Three members in threads, and what they have got. They poll until the block is left."""

    def __init__(self, cluster: Cluster, protocol: str, settings: Mapping[str, object]) -> None:
        self.values: list[bytes] = []
        self.sent = 0
        self._cluster = cluster
        self._ends = threading.Event()
        self._members = [threading.Thread(target=self._run, args=(protocol, settings)) for _ in range(3)]

    def __enter__(self) -> Group:
        for member in self._members:
            member.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for member in self._members:
            member.join()

    def _run(self, protocol: str, settings: Mapping[str, object]) -> None:
        with consumer_of(self._cluster, protocol, settings) as consumer:
            while not self._ends.is_set():
                records = consumer.poll(0.1)
                self.values += [record.value for record in records if record.value is not None]

    def write_for(self, duration_s: float) -> None:
        until = time.monotonic() + duration_s
        while time.monotonic() < until:
            self._cluster.produce("orders", b"%d" % self.sent, partition=self.sent % 3)
            self.sent += 1
            time.sleep(0.01)

    def wait_for_all(self) -> None:
        until = time.monotonic() + WAIT_S
        while len(self.values) < self.sent and time.monotonic() < until:
            time.sleep(0.01)

    def has_each_once(self) -> bool:
        return sorted(self.values, key=int) == [b"%d" % number for number in range(self.sent)]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])  # all: scripts/prove security
def test_logins_are_renewed_every_two_seconds_and_no_record_is_lost_or_comes_twice(mechanism: str) -> None:
    with cluster_of("SASL_SSL") as cluster, Group(cluster, "SASL_SSL", MECHANISMS[mechanism]) as group:
        group.write_for(5.0)
        group.wait_for_all()

    assert group.has_each_once()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_password_that_changes_is_asked_for_at_each_login(mechanism: str) -> None:
    """Brokers end sessions after two seconds, so there are logins on connections of before, too (KIP-368). One may come
    between the two changes, and is refused. Brokers that come back have new connections alone."""
    passwords, asked = [PASSWORD], list[str]()

    def credentials() -> tuple[str, str]:
        asked.append(passwords[-1])
        return USER, passwords[-1]

    given = {"sasl_mechanism": mechanism, "sasl_credentials_provider": credentials}
    with cluster_of("SASL_PLAINTEXT") as cluster, consumer_of(cluster, "SASL_PLAINTEXT", given) as consumer:
        cluster.produce("orders", b"0")
        assert read(consumer, 1) == 1
        passwords.append("battery staple")
        cluster.set_password(USER, passwords[-1])
        for broker in range(3):
            cluster.kill_broker(broker)
            cluster.start_broker(broker)
        cluster.produce("orders", b"1")
        until, found = time.monotonic() + WAIT_S, 0
        while not found and time.monotonic() < until:
            with suppress(SaslAuthenticationError):
                found += len(consumer.poll(0.1))
    assert found == 1
    assert set(asked) == set(passwords)


def test_a_provider_of_credentials_that_fails_is_raised_by_poll_and_asked_again() -> None:
    is_sealed = True

    def credentials() -> tuple[str, str]:
        if is_sealed:
            raise LookupError("the vault is sealed")
        return USER, PASSWORD

    given = {
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_credentials_provider": credentials,
        "sasl_login_retry_backoff_ms": 500,  # the next login is far from the raising of the first one's error
    }
    with cluster_of("SASL_PLAINTEXT") as cluster, consumer_of(cluster, "SASL_PLAINTEXT", given) as consumer:
        cluster.produce("orders", b"0")
        with pytest.raises(SaslAuthenticationError, match="sasl_credentials_provider failed: LookupError: the vault"):
            read(consumer, 1)
        is_sealed = False
        assert read(consumer, 1) == 1


@pytest.mark.slow
def test_a_client_certificate_is_replaced_while_three_members_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its file is replaced, connections are cut, and the new ones show the new certificate; nothing is lost."""
    store = tmp_path / "client.pem"

    def put(text: str) -> None:
        new = tmp_path / "client.new"
        new.write_text(text)
        os.replace(new, store)

    caplog.set_level(logging.INFO)
    with cluster_of("SSL", tls_client_auth="required") as cluster:
        put(cluster.certificates.issue(common_name="first").path.read_text())
        with Group(cluster, "SSL", {"ssl_keystore_location": store}) as group:
            group.write_for(1.0)
            group.wait_for_all()  # what the first certificate has let in
            put(cluster.certificates.issue(common_name="second").path.read_text())
            cluster.cut_connections()
            group.write_for(1.0)
            group.wait_for_all()

    assert set(group.values) == {b"%d" % number for number in range(group.sent)}
    assert "certificates have changed: new connections use those in" in caplog.text


def test_no_log_at_debug_and_no_error_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = "e30.e30.signature-that-nobody-may-see"
    for settings in (
        {**LOGIN},
        {**MECHANISMS["PLAIN"], "sasl_password": "wrong-secret"},
        {"sasl_oauth_token_provider": lambda: token},
    ):
        with (
            cluster_of("SASL_SSL") as cluster,
            consumer_of(cluster, "SASL_SSL", settings) as consumer,
            suppress(AuthenticationError),
        ):
            consumer.poll(1.0)

    for secret in (PASSWORD, "wrong-secret", token, "nobody-may-see"):
        assert secret not in caplog.text
