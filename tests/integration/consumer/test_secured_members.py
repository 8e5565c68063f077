"""Members of groups over TLS and SASL, on a real Kafka: each listener, each login."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from kwire import Consumer
from kwire.errors import SaslAuthenticationError, SslAuthenticationError

if TYPE_CHECKING:
    from kwire.testing.kafka import KafkaCluster
    from tests.integration.kafkas import SECURED_USERS, Side
else:
    from kafkas import SECURED_USERS, Side

pytestmark = [
    pytest.mark.only(Side.KAFKA, reason="the same on the cluster in this process is in tests/consumer/test_secured.py"),
    pytest.mark.slow,
]

USER, PASSWORD = "alice", SECURED_USERS["alice"]
PACKAGE = "org.apache.kafka.common.security"
TOPIC, COUNT = "secured-records", 100
LOGINS = {
    "PLAIN": f'{PACKAGE}.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";',
    "SCRAM-SHA-256": f'{PACKAGE}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";',
    "SCRAM-SHA-512": f'{PACKAGE}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";',
    "OAUTHBEARER": f'{PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";',
}
WAYS = [("SSL", ""), *((listener, login) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for login in LOGINS)]


@pytest.fixture(scope="module")
def filled(secured_kafka: KafkaCluster) -> KafkaCluster:
    producer = Producer({"bootstrap.servers": secured_kafka.bootstrap_servers, "log_level": 0})
    for number in range(COUNT):
        producer.produce(TOPIC, b"%d" % number)
    assert producer.flush(30) == 0
    return secured_kafka


def consumer_of(kafka: KafkaCluster, listener: str, mechanism: str, **settings: object) -> Consumer[bytes, bytes]:
    """As a properties file of the Java client would have it."""
    given: dict[str, object] = {
        "bootstrap.servers": kafka.bootstrap(listener),
        "group.id": f"secured-{uuid4().hex[:8]}",
        "auto.offset.reset": "earliest",
        "security.protocol": listener,
    }
    if "SSL" in listener:
        given["ssl.truststore.location"] = str(kafka.certificates.path)
    if mechanism:
        given |= {"sasl.mechanism": mechanism, "sasl.jaas.config": LOGINS[mechanism]}
    return Consumer(TOPIC, config={**given, **settings})


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_a_member_reads_and_commits(filled: KafkaCluster, listener: str, mechanism: str, group_protocol: str) -> None:
    found = 0
    with consumer_of(filled, listener, mechanism, **{"group.protocol": group_protocol}) as consumer:
        while found < COUNT and (records := consumer.poll(20.0)):
            found += len(records)
        consumer.commit_sync()
        committed = consumer.committed(consumer.assignment())

    assert found == COUNT
    assert sum(position.offset for position in committed.values() if position is not None) == COUNT


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_raised_by_poll(filled: KafkaCluster, mechanism: str) -> None:
    login = LOGINS[mechanism].replace(PASSWORD, "another")

    with (
        consumer_of(filled, "SASL_SSL", mechanism, **{"sasl.jaas.config": login}) as consumer,
        pytest.raises(SaslAuthenticationError, match=f"refuses the login of {USER} by {mechanism}"),
    ):
        consumer.poll(20.0)


def test_brokers_of_an_authority_that_is_not_known_are_refused(filled: KafkaCluster) -> None:
    settings = {"bootstrap.servers": filled.bootstrap("SSL"), "group.id": "g", "security.protocol": "SSL"}
    consumer: Consumer[bytes, bytes] = Consumer(TOPIC, config=settings)

    with consumer, pytest.raises(SslAuthenticationError, match="; its certificate: O=kwire,OU=tests, issued by"):
        consumer.poll(20.0)
