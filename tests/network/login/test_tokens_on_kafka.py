"""Tokens of a login server on a real Kafka, whose OAuthBearerValidatorCallbackHandler checks their signature, issuer,
audience and end: what Java lets in, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from kwire.clock import wall_clock_ms
from kwire.config import ConsumerConfig, OAuthToken
from kwire.protocol.sasl import OAuthBearerExchange
from kwire.testing.kafka import KafkaCluster
from kwire.testing.kafka.node import JVM_OPTIONS

if TYPE_CHECKING:
    from tests.network.login.conftest import MakeConfig, Says, ScriptedServer
    from tests.network.test_sasl_real import NO_PROXY, SaslCluster, log_in, sasl_settings
else:
    from test_sasl_real import NO_PROXY, SaslCluster, log_in, sasl_settings

pytestmark = [pytest.mark.integration, pytest.mark.slow]

FirstToken = Callable[[ConsumerConfig], OAuthToken]
JAVA = "org.apache.kafka.common.security.oauthbearer"
ISSUER, AUDIENCE = "https://login.example", "kafka"


@dataclass(frozen=True, slots=True)
class Issuer:
    """Signs tokens that the broker believes."""

    key: RSAKey

    def token(self, **claims: object) -> str:
        now_seconds = wall_clock_ms() // 1000
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now_seconds, "exp": now_seconds + 3600}
        return jwt.encode({"alg": "RS256", "kid": "one"}, {**usual, **claims}, self.key)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer(RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}))


@pytest.fixture(scope="module")
def kafka(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    keys = tmp_path_factory.mktemp("issuer") / "jwks.json"
    keys.write_text(json.dumps({"keys": [issuer.key.as_dict(private=False)]}))
    handler = "listener.name.client.oauthbearer.sasl.server.callback.handler.class"
    settings = {
        **sasl_settings("OAUTHBEARER", oauthbearer=f"{JAVA}.OAuthBearerLoginModule required;"),
        handler: f"{JAVA}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    options = (*JVM_OPTIONS, f"{allowed}.urls={keys.as_uri()}", f"{allowed}.files={keys}")
    with SaslCluster(settings=settings, advertised=NO_PROXY, jvm_options=options) as cluster:
        yield cluster


def test_a_broker_lets_in_who_has_a_token_of_the_login_server(
    kafka: KafkaCluster,
    issuer: Issuer,
    login_server: ScriptedServer,
    server_config: MakeConfig,
    says: Says,
    first_token: FirstToken,
) -> None:
    login_server.answers(says(200, {"access_token": issuer.token(), "expires_in": 3600}))

    token = first_token(server_config())

    exchange = OAuthBearerExchange(token.value, token.extensions)
    assert log_in(kafka, "OAUTHBEARER", exchange) is None
    assert exchange.is_complete


def test_a_broker_lets_in_who_has_such_a_token_in_a_file(
    kafka: KafkaCluster, issuer: Issuer, make_config: MakeConfig, first_token: FirstToken, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(issuer.token() + "\n")

    token = first_token(make_config(sasl_oauthbearer_token_endpoint_url=path.as_uri()))

    assert log_in(kafka, "OAUTHBEARER", OAuthBearerExchange(token.value)) is None


def test_a_broker_refuses_a_token_for_somebody_else(
    kafka: KafkaCluster, issuer: Issuer, make_config: MakeConfig, first_token: FirstToken
) -> None:
    token = first_token(make_config(sasl_oauth_token_provider=lambda: issuer.token(aud="another")))

    exchange = OAuthBearerExchange(token.value)
    assert log_in(kafka, "OAUTHBEARER", exchange) is not None
    assert not exchange.is_complete
