"""Which way tokens come: what the settings say together, and which of them do not go together."""

from __future__ import annotations

import sys

import pytest

from kwire.config import ConsumerConfig, TokenOrigin, login_of, token_origin
from kwire.errors import ConfigError

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
URL = "https://login.example/token"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
SECRET = {
    "sasl.oauthbearer.client.credentials.client.id": "me",
    CLIENT_SECRET: "hush",
}
SIGNED = {
    "sasl.oauthbearer.assertion.private.key.file": "key.pem",
    "sasl.oauthbearer.assertion.claim.iss": "me",
}


def of(**settings: object) -> ConsumerConfig:
    return ConsumerConfig.of(
        {
            "bootstrap.servers": "broker:9093",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


@pytest.mark.parametrize(
    ("settings", "origin"),
    [
        ({"sasl_oauth_token_provider": lambda: "abc"}, TokenOrigin.PROVIDER),
        ({"sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="me";'}, TokenOrigin.UNSECURED),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///run/token"}, TokenOrigin.FILE),
        ({"sasl.oauthbearer.token.endpoint.url": "file:/run/token"}, TokenOrigin.FILE),
        ({"sasl.oauthbearer.token.endpoint.url": URL, **SECRET}, TokenOrigin.CLIENT_CREDENTIALS),
        ({"sasl.oauthbearer.token.endpoint.url": "http://[::1]:80/t", **SECRET}, TokenOrigin.CLIENT_CREDENTIALS),
        ({"sasl.oauthbearer.token.endpoint.url": URL, **SIGNED}, TokenOrigin.CLIENT_CREDENTIALS),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": URL,
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever",
                "sasl.oauthbearer.assertion.file": "assertion",
            },
            TokenOrigin.JWT_BEARER,
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "file:///run/token",
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.DefaultJwtRetriever",
            },
            TokenOrigin.FILE,
        ),
    ],
)
def test_the_settings_say_where_tokens_come_from(settings: dict[str, object], origin: TokenOrigin) -> None:
    config = of(**settings)

    assert token_origin(config, login_of(config)) is origin


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": URL}, "needs sasl_oauthbearer_client_credentials_client_id and"),
        (
            {"sasl.oauthbearer.token.endpoint.url": URL, **SECRET, CLIENT_SECRET: " "},
            "needs sasl_oauthbearer_client_credentials_client_id and",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": "http://login.example/t", **SECRET},
            "is neither https:// nor file://",
        ),
        ({"sasl.oauthbearer.token.endpoint.url": "https:///t", **SECRET}, "is neither https:// nor file://"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://a:70000/t", **SECRET}, "is not a URL: Port out of range"),
        (
            {"sasl.oauthbearer.token.endpoint.url": "https://me:pw@login/t", **SECRET},
            "https://login/t has a user in it",
        ),
        ({"sasl.oauthbearer.token.endpoint.url": "https://a/t\u00f6ken", **SECRET}, "is not a URL: it has characters"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://a/a token", **SECRET}, "is not a URL: it has characters"),
        ({"sasl.oauthbearer.token.endpoint.url": "file://server/share"}, "names no file; write file:///path"),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": URL,
                **SECRET,
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.FileJwtRetriever",
            },
            "FileJwtRetriever does not go with sasl_oauthbearer_token_endpoint_url=https:",
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": URL,
                **SECRET,
                "sasl.oauthbearer.jwt.retriever.class": "com.example.Mine",
            },
            "'com.example.Mine' is a class of Java's that kwire does not have; it has DefaultJwtRetriever, FileJwt",
        ),
        (
            {
                "sasl_oauth_token_provider": lambda: "abc",
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.DefaultJwtRetriever",
            },
            "needs sasl_oauthbearer_token_endpoint_url, and no sasl_oauth_token_provider",
        ),
        (
            {
                "sasl_oauth_token_provider": lambda: "abc",
                "sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="me";',
            },
            "are both given; give one",
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": URL,
                **SECRET,
                "sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="me";',
            },
            "are both given; give one",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": URL, "sasl.oauthbearer.assertion.claim.iss": "me"},
            "an assertion needs sasl_oauthbearer_assertion_private_key_file",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": URL, "sasl.oauthbearer.assertion.private.key.file": "key.pem"},
            "give sasl_oauthbearer_assertion_claim_iss, or sasl_oauthbearer_assertion_template_file",
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": URL,
                "sasl.jaas.config": f'{MODULE} clientId="me" clientSecret="hush" ssl.truststore.location="t.jks";',
            },
            "has the option ssl.truststore.location: .* is said by ssl_truststore_location",
        ),
    ],
)
def test_settings_that_say_no_way_or_two_are_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        of(**settings)

    assert "hush" not in str(caught.value)
    assert ":pw" not in str(caught.value)


def test_signing_without_its_package_is_refused_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)

    with pytest.raises(ConfigError, match=r"not installed: pip install 'kwire\[oauth\]'"):
        of(**{"sasl.oauthbearer.token.endpoint.url": URL, **SIGNED})


def test_a_trust_store_has_an_effect_where_a_login_server_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    of(
        **{
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.oauthbearer.token.endpoint.url": URL,
            **SECRET,
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.location": "me.pem",
        }
    )

    [warning] = [record.getMessage() for record in caplog.records]
    assert warning == "without effect with security_protocol=SASL_PLAINTEXT: ssl_keystore_location"
