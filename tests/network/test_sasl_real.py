"""Every exchange whose users a broker's settings can name, against a real Kafka: the servers are Java's.

Over a bare socket: what the connection makes of it is tested elsewhere. SCRAM's users live in the cluster's metadata;
its talks with Kafka's classes are among the golden ones.
"""

from __future__ import annotations

import socket
import struct
import time
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kwire.config.login import Login
from kwire.config.secret import Secret
from kwire.network.gssapi import GssapiExchange
from kwire.protocol import decode_message, encode_message
from kwire.protocol.messages.headers import RequestHeader, ResponseHeader
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.protocol.sasl import OAuthBearerExchange, PlainExchange, SaslExchange
from kwire.testing.kafka import KafkaCluster
from kwire.testing.kafka.cluster import START_TIMEOUT_S
from kwire.testing.kafka.node import JVM_OPTIONS
from kwire.testing.kafka.probe import known_brokers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.network.kerberos_realm import KerberosRealm, missing
else:
    from kerberos_realm import KerberosRealm, missing

pytestmark = [pytest.mark.integration, pytest.mark.slow]

JAVA = "org.apache.kafka.common.security"
PLAIN_USERS = f'{JAVA}.plain.PlainLoginModule required username="broker" password="b" user_alice="a,=b";'
UNSECURED_TOKENS = f'{JAVA}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
NO_PROXY = [("localhost", 1)]  # the listener for clients is what proxies lead to; here nobody follows its metadata
TIMEOUT_S = 20


class SaslCluster(KafkaCluster):
    """A broker whose listener for clients wants SASL. Whether it is up is asked at the other one."""

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not known_brokers(*self.addresses[0]):
            assert time.monotonic() < deadline_s, "the broker does not start"
            time.sleep(0.05)


def sasl_settings(mechanisms: str, **jaas: str) -> dict[str, str]:
    """A listener for clients that wants SASL."""
    return {
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": mechanisms,
        **{f"listener.name.client.{name}.sasl.jaas.config": text for name, text in jaas.items()},
    }


@contextmanager
def connected(cluster: KafkaCluster) -> Iterator[socket.socket]:
    with socket.create_connection(cluster.client_addresses[0], timeout=TIMEOUT_S) as client:
        yield client


def ask(client: socket.socket, request: SaslHandshakeRequest | SaslAuthenticateRequest, version: int) -> bytes:
    """The body of the answer."""
    key, header_version = type(request).api_key, type(request).header_version(version)
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=1, client_id="test")
    frame = bytes(encode_message(header, header_version)) + bytes(encode_message(request, version))
    client.sendall(struct.pack(">i", len(frame)) + frame)
    with client.makefile("rb") as received:
        (size,) = struct.unpack(">i", received.read(4))
        answer: bytes = received.read(size)
    response = SaslAuthenticateResponse if isinstance(request, SaslAuthenticateRequest) else SaslHandshakeResponse
    return answer[len(encode_message(ResponseHeader(correlation_id=1), response.header_version(version))) :]


def log_in(cluster: KafkaCluster, mechanism: str, exchange: SaslExchange) -> str | None:
    """All of it; answers why the broker refused, None if it did not."""
    with connected(cluster) as client:
        handshake = decode_message(SaslHandshakeResponse, 1, ask(client, SaslHandshakeRequest(mechanism=mechanism), 1))
        assert handshake.error_code == 0
        message: bytes | None = exchange.first()
        while message is not None:
            body = ask(client, SaslAuthenticateRequest(auth_bytes=message), 2)
            answer = decode_message(SaslAuthenticateResponse, 2, body)
            if answer.error_code:
                return answer.error_message
            message = exchange.answer(answer.auth_bytes)
    return None


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    settings = sasl_settings("PLAIN,OAUTHBEARER", plain=PLAIN_USERS, oauthbearer=UNSECURED_TOKENS)
    with SaslCluster(settings=settings, advertised=NO_PROXY) as cluster:
        yield cluster


def unsecured_token(claims: str) -> str:
    header, payload = (urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in ('{"alg":"none"}', claims))
    return f"{header}.{payload}."


def test_plain(kafka: KafkaCluster) -> None:
    exchange = PlainExchange("alice", Secret("a,=b"))
    assert log_in(kafka, "PLAIN", exchange) is None
    assert exchange.is_complete
    exchange = PlainExchange("alice", Secret("guess"))
    assert log_in(kafka, "PLAIN", exchange) == "Authentication failed: Invalid username or password"
    assert not exchange.is_complete


def test_oauthbearer(kafka: KafkaCluster) -> None:
    exchange = OAuthBearerExchange(unsecured_token('{"sub":"alice","iat":900000000,"exp":4000000000}'))
    assert log_in(kafka, "OAUTHBEARER", exchange) is None
    assert exchange.is_complete
    exchange = OAuthBearerExchange(unsecured_token('{"sub":"alice","iat":900000000,"exp":1000000000}'))
    assert log_in(kafka, "OAUTHBEARER", exchange) == '{"status":"invalid_token"}'
    assert exchange.server_error == "status invalid_token"
    assert not exchange.is_complete


@pytest.mark.skipif(missing() is not None, reason=f"needs {missing()}")
def test_gssapi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KerberosRealm(tmp_path) as realm:
        for name, value in realm.environment.items():
            monkeypatch.setenv(name, value)
        broker = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{realm.principal("kafka/localhost")}" principal="kafka/localhost@KWIRE.TEST";'
        )
        settings = {**sasl_settings("GSSAPI", gssapi=broker), "sasl.kerberos.service.name": "kafka"}
        jvm_options = (*JVM_OPTIONS, f"-Djava.security.krb5.conf={realm.krb5_conf}")
        with SaslCluster(settings=settings, advertised=NO_PROXY, jvm_options=jvm_options) as cluster:
            alice = Login(principal="alice", keytab=str(realm.principal("alice")))
            exchange = GssapiExchange(alice, "localhost")
            assert log_in(cluster, "GSSAPI", exchange) is None
            assert exchange.is_complete
