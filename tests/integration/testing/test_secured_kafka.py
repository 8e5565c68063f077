"""A real Kafka with TLS and SASL lets in whom it should, as clients see it that kwire has no part in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs leave them out; its documentation does not
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kwire.conformance.client import BrokerAddress, ClientConnection
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.testing.cluster.sasl.unsecured_jws import unsecured_jws
from kwire.testing.kafka import KafkaCluster, Security

if TYPE_CHECKING:
    from tests.integration.kafkas import SECURED_USERS, Side
    from tests.secured_clients import IGNORED, Read, read_with_confluent, read_with_kafka_python
else:
    from kafkas import SECURED_USERS, Side
    from secured_clients import IGNORED, read_with_confluent, read_with_kafka_python

pytestmark = [
    pytest.mark.only(Side.KAFKA, reason="about real brokers; the same of those in this process is in tests/testing"),
    pytest.mark.slow,
    pytest.mark.filterwarnings(IGNORED),
]

TIMEOUT_S = 30.0
TOPIC, VALUES = "secured-orders", [b"1", b"2"]
TLS, SASL = ("SSL", "SASL_SSL"), ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ROWS = [("PLAINTEXT", ""), ("SSL", ""), *((name, how) for name in ("SASL_PLAINTEXT", "SASL_SSL") for how in SASL)]
CLIENTS = pytest.mark.parametrize("read", [read_with_confluent, read_with_kafka_python], ids=["confluent", "python"])


def fill(kafka: KafkaCluster) -> None:
    # In order, though the first attempt of the first one may find no leader.
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "enable.idempotence": True})
    for value in VALUES:
        producer.produce(TOPIC, value)
    assert producer.flush(TIMEOUT_S) == 0


@pytest.fixture(scope="module")
def filled(secured_kafka: KafkaCluster) -> KafkaCluster:
    fill(secured_kafka)
    return secured_kafka


def config_of(kafka: KafkaCluster, protocol: str, mechanism: str = "", user: str = "alice") -> dict[str, str]:
    config = {"bootstrap.servers": kafka.bootstrap(protocol), "security.protocol": protocol}
    if protocol in TLS:
        config["ssl.truststore.location"] = str(kafka.certificates.path)
    if mechanism:
        config["sasl.mechanism"] = mechanism
    if mechanism not in ("", "OAUTHBEARER"):
        config |= {"sasl.username": user, "sasl.password": SECURED_USERS[user]}
    return config


@CLIENTS
@pytest.mark.parametrize(("protocol", "mechanism"), ROWS)
def test_each_protocol_by_each_mechanism(protocol: str, mechanism: str, read: Read, filled: KafkaCluster) -> None:
    token = unsecured_jws("eve", issued_at_s=time.time() - 1, expires_at_s=time.time() + 600)
    config = config_of(filled, protocol, mechanism)
    assert read(config, TOPIC, token if mechanism == "OAUTHBEARER" else None) == VALUES


@pytest.mark.parametrize("mechanism", SASL[:-1])
def test_a_wrong_password_is_refused(mechanism: str, filled: KafkaCluster) -> None:
    config = {**config_of(filled, "SASL_SSL", mechanism), "sasl.password": "guess"}
    with pytest.raises(confluent_kafka.KafkaException, match=r"Invalid username or password|invalid credentials"):
        read_with_confluent(config, TOPIC)


def test_permissions_certificates_and_sessions() -> None:
    """One cluster for all three: starting it takes longest."""
    security = Security(users=SECURED_USERS, client_auth="required", authorizer=True)
    with KafkaCluster(settings={"connections.max.reauth.ms": "2500"}, security=security) as kafka:
        fill(kafka)
        client = kafka.certificates.issue(common_name="carol")
        certified = {"ssl.certificate.location": str(client.chain_path), "ssl.key.location": str(client.key_path)}
        with pytest.raises(confluent_kafka.KafkaException, match="alert bad certificate"):
            read_with_confluent(config_of(kafka, "SSL"), TOPIC)
        config = {**config_of(kafka, "SASL_SSL", "SCRAM-SHA-512"), **certified}
        with pytest.raises(confluent_kafka.KafkaException, match="authorization failed"):
            read_with_confluent(config, TOPIC)
        for principal in ("User:alice", "User:CN=carol,OU=tests,O=kwire"):
            grant(kafka, principal)
        assert read_with_confluent(config, TOPIC) == VALUES
        assert read_with_confluent({**config_of(kafka, "SSL"), **certified}, TOPIC) == VALUES
        assert session_lifetime_ms(kafka) == 2500


def grant(kafka: KafkaCluster, principal: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for kind, name in ((ResourceType.TOPIC, TOPIC), (ResourceType.GROUP, "confluent")):
        allowed = (AclOperation.READ, AclPermissionType.ALLOW)
        binding = AclBinding(kind, name, ResourcePatternType.LITERAL, principal, "*", *allowed)
        admin.create_acls([binding])[binding].result(TIMEOUT_S)


def session_lifetime_ms(kafka: KafkaCluster) -> int:
    address = BrokerAddress.parse(kafka.bootstrap("SASL_PLAINTEXT"))
    with ClientConnection(address, TIMEOUT_S) as connection:
        connection.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        password = f"\0alice\0{SECURED_USERS['alice']}".encode()
        return connection.ask(SaslAuthenticateRequest(auth_bytes=password), 2).session_lifetime_ms
