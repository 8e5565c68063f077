"""Who gets into a cluster with TLS and SASL, as clients see it that kwire has no part in."""

from __future__ import annotations

import socket
import ssl
import time
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.testing import Cluster
from kwire.testing.cluster.sasl.unsecured_jws import unsecured_jws

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.testing.cluster.request_context import RequestContext
    from tests.secured_clients import IGNORED, TIMEOUT_S, Read, read_with_confluent, read_with_kafka_python
else:
    from secured_clients import IGNORED, TIMEOUT_S, read_with_confluent, read_with_kafka_python

pytestmark = pytest.mark.filterwarnings(IGNORED)

ODD = "b=o,b"
USERS = {"alice": "secret", ODD: 'pass"wörd'}
SASL = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
TOPIC, VALUES = "orders", [b"1", b"2"]
CLIENTS = pytest.mark.parametrize("read", [read_with_confluent, read_with_kafka_python], ids=["confluent", "python"])


def filled(cluster: Cluster) -> Cluster:
    cluster.create_topic(TOPIC)
    cluster.produce(TOPIC, *VALUES)
    return cluster


@pytest.fixture(scope="module")
def encrypted() -> Iterator[Cluster]:
    with Cluster(security_protocol="SASL_SSL", users=USERS) as cluster:
        yield filled(cluster)


@pytest.fixture(scope="module")
def plaintext() -> Iterator[Cluster]:
    with Cluster(users=USERS) as cluster:
        yield filled(cluster)


@CLIENTS
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", SASL)
@pytest.mark.parametrize("kind", ["encrypted", "plaintext"])
def test_a_user_gets_in_by_every_mechanism(
    kind: str, mechanism: str, read: Read, request: pytest.FixtureRequest
) -> None:
    cluster = request.getfixturevalue(kind)
    assert read(cluster.client_config("alice", mechanism=mechanism), TOPIC) == VALUES


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", SASL)
def test_names_and_passwords_of_all_kinds(mechanism: str, plaintext: Cluster) -> None:
    """With librdkafka alone: kafka-python does not escape names in SCRAM."""
    assert read_with_confluent(plaintext.client_config(ODD, mechanism=mechanism), TOPIC) == VALUES


@CLIENTS
@pytest.mark.slow
def test_tls_alone(read: Read) -> None:
    with Cluster(tls=True) as cluster:
        assert cluster.client_config()["security.protocol"] == "SSL"
        assert read(filled(cluster).client_config(), TOPIC) == VALUES


@pytest.mark.slow
@pytest.mark.parametrize("read", [read_with_confluent, read_with_kafka_python], ids=["confluent", "python"])
def test_an_unsecured_token(read: type, encrypted: Cluster) -> None:
    token = unsecured_jws("eve", issued_at_s=time.time() - 1, expires_at_s=time.time() + 600)
    assert read(encrypted.client_config(mechanism="OAUTHBEARER"), TOPIC, token) == VALUES


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", SASL)
def test_a_wrong_password_is_told_as_kafka_tells_it(mechanism: str, encrypted: Cluster) -> None:
    config = {**encrypted.client_config("alice", mechanism=mechanism), "sasl.password": "guess"}
    with pytest.raises(confluent_kafka.KafkaException) as failure:
        read_with_confluent(config, TOPIC)
    error = failure.value.args[0]
    assert error.code() == confluent_kafka.KafkaError._AUTHENTICATION
    told = (
        "Invalid username or password"
        if mechanism == "PLAIN"
        else f"invalid credentials with SASL mechanism {mechanism}"
    )
    assert told in error.str()


@pytest.mark.slow
def test_who_does_not_know_the_authority_does_not_connect(encrypted: Cluster) -> None:
    config = encrypted.client_config("alice")
    del config["ssl.truststore.location"]
    with pytest.raises(confluent_kafka.KafkaException, match="certificate verify failed"):
        read_with_confluent(config, TOPIC)


@pytest.mark.slow
def test_a_certificate_may_be_demanded_and_says_who_the_client_is() -> None:
    principals: set[str] = set()

    def see(_request: MetadataRequest, call: RequestContext) -> None:
        principals.add(call.principal)

    with Cluster(tls=True, tls_client_auth="required") as cluster:
        cluster.control.on(MetadataRequest).observe(see)
        client = cluster.certificates.issue(common_name="alice")
        certified = {"ssl.certificate.location": str(client.chain_path), "ssl.key.location": str(client.key_path)}
        assert read_with_confluent({**filled(cluster).client_config(), **certified}, TOPIC) == VALUES
        with pytest.raises(confluent_kafka.KafkaException, match="certificate required"):
            read_with_confluent(cluster.client_config(), TOPIC)
    assert principals == {"User:CN=alice,OU=tests,O=kwire"}


@pytest.mark.slow
def test_the_certificate_is_of_the_names_that_brokers_are_reached_by() -> None:
    with Cluster(tls=True, advertised=[("broker.example", 9092)]) as cluster:
        context = ssl.create_default_context(cadata=cluster.certificates.certificate)
        for name in ("127.0.0.1", "localhost", "broker.example"):
            with (
                socket.create_connection(cluster.client_addresses[0], TIMEOUT_S) as plain,
                context.wrap_socket(plain, server_hostname=name) as wrapped,
            ):
                assert wrapped.version() == "TLSv1.3"


def test_files_of_certificates_go_with_the_cluster() -> None:
    with Cluster(tls=True) as cluster:
        path = cluster.certificates.path
        assert "BEGIN CERTIFICATE" in path.read_text()
    assert not path.exists()


# --- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"security_protocol": "TLS"},
            "security_protocol is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'",
        ),
        ({"security_protocol": "PLAINTEXT", "users": USERS}, "of SASL, and PLAINTEXT has none"),
        ({"security_protocol": "SSL", "sasl_mechanisms": ["PLAIN"]}, "of SASL, and SSL has none"),
        ({"security_protocol": "SASL_PLAINTEXT", "users": USERS, "tls": True}, "SASL_PLAINTEXT has no TLS"),
        ({"security_protocol": "SSL", "tls": False}, "tls is False, and SSL needs it"),
        ({"sasl_mechanisms": ["PLAIN"]}, 'SASL needs users={"name": "password"}'),
        ({"users": USERS, "sasl_mechanisms": ["GSSAPI"]}, "not 'GSSAPI'"),
        ({"users": {"alice": ""}}, "users have a name and a password; one of them is empty, of 'alice'"),
        ({"users": USERS, "scram_iterations": 1}, "4096 iterations at least, not 1"),
        ({"tls": True, "tls_client_auth": "always"}, "none, requested, required, not 'always'"),
        ({"tls_client_auth": "required"}, "tls_client_auth goes with certificates made here"),
    ],
)
def test_arguments_that_cannot_be_are_refused_at_once(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        Cluster(**arguments)  # type: ignore[arg-type]
    assert told in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_a_cluster_that_made_no_certificates_says_so() -> None:
    with pytest.raises(IllegalStateError, match="it does with tls=True"):
        _ = Cluster().certificates


def test_a_user_there_is_not() -> None:
    with Cluster(users=USERS) as cluster, pytest.raises(InvalidArgumentError, match="there is no user 'eve'"):
        cluster.client_config("eve")


def test_oauthbearer_needs_no_users() -> None:
    with Cluster(security_protocol="SASL_PLAINTEXT") as cluster:
        assert cluster.client_config()["sasl.mechanism"] == "OAUTHBEARER"


@pytest.mark.slow
def test_users_come_and_go_while_it_runs() -> None:
    with Cluster(users=USERS) as cluster:
        filled(cluster).set_password("carol", "hers")
        assert read_with_confluent(cluster.client_config("carol"), TOPIC) == VALUES
        config = cluster.client_config("carol")
        cluster.remove_user("carol")
        with pytest.raises(confluent_kafka.KafkaException, match="Invalid username or password"):
            read_with_confluent(config, TOPIC)
