"""What brokers with TLS and SASL are told, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.testing.kafka import ClusterError, KafkaCluster, Security
from kwire.testing.kafka.addresses import choose_addresses
from kwire.testing.kafka.node import node_settings
from kwire.testing.kafka.security import SECURED

USERS = {"alice": "secret", "bob": "a\\b"}


def test_each_security_protocol_has_a_listener_and_brokers_talk_in_plain_text() -> None:
    addresses = choose_addresses(1, secured=SECURED)
    settings = node_settings(0, addresses, {})
    assert settings["listeners"].count("://") == 5
    assert set(settings["listener.security.protocol.map"].split(",")) == {
        "BROKER:PLAINTEXT",
        "CLIENT:PLAINTEXT",
        "CONTROLLER:PLAINTEXT",
        "SSL:SSL",
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "SASL_SSL:SASL_SSL",
    }
    assert settings["inter.broker.listener.name"] == "BROKER"
    assert f"SASL_SSL://127.0.0.1:{addresses[0].secured['SASL_SSL']}" in settings["advertised.listeners"]


def test_the_listener_behind_proxies_may_be_secured() -> None:
    security = Security(users=USERS, client_auth="requested", proxied="SASL_SSL")
    (at,) = choose_addresses(1, [("127.0.0.1", 30000)], SECURED, security.proxied)
    told = node_settings(0, (at,), security.settings(Path("key.pem"), Path("ca.pem")))
    assert "CLIENT:SASL_SSL" in told["listener.security.protocol.map"].split(",")
    assert "CLIENT://127.0.0.1:30000" in told["advertised.listeners"].split(",")
    assert told["listener.name.client.ssl.client.auth"] == "requested"
    assert "ScramLoginModule" in told["listener.name.client.scram-sha-256.sasl.jaas.config"]
    assert not [name for name in Security(users=USERS).settings(Path("k"), Path("c")) if ".name.client." in name]
    with pytest.raises(ClusterError, match="proxied is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'"):
        Security(proxied="TLS")


def test_users_are_told_to_plain_by_settings_and_to_scram_by_the_format_tool() -> None:
    security = Security(users=USERS, client_auth="required")
    settings = security.settings(Path("key.pem"), Path("ca.pem"))
    plain = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required "user_alice"="secret" "user_bob"="a\\\\b";'
    )
    assert settings["listener.name.sasl_ssl.plain.sasl.jaas.config"] == plain
    assert settings["listener.name.ssl.ssl.client.auth"] == "required"
    assert "authorizer.class.name" not in settings
    assert security.scram_options[:2] == ["--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]"]
    assert len(security.scram_options) == 8
    assert "secret" not in repr(security)


def test_an_authorizer_lets_the_plain_listener_do_everything() -> None:
    assert Security(authorizer=True).settings(Path("k"), Path("c"))["super.users"] == "User:ANONYMOUS"


@pytest.mark.parametrize(
    "users", [{"": "x"}, {"alice": ""}, {"a,b": "x"}, {"alice": "a]b"}, {"alice": "ä"}, {"a": "\n"}]
)
def test_users_that_kafka_s_tools_would_misread_are_refused(users: dict[str, str]) -> None:
    with pytest.raises(ClusterError, match="printable ASCII"):
        Security(users=users)


def test_client_auth_is_one_of_three() -> None:
    with pytest.raises(ClusterError, match="none, requested, required, not 'always'"):
        Security(client_auth="always")


def test_a_cluster_without_security_says_what_it_speaks() -> None:
    with pytest.raises(ClusterError, match="the brokers speak PLAINTEXT, not SSL"):
        KafkaCluster().bootstrap("SSL")
    with pytest.raises(ClusterError, match="only a running cluster with `security` has certificates"):
        _ = KafkaCluster(security=Security()).certificates
