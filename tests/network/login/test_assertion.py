"""Assertions instead of a secret: made of template, settings and times, and verified here by their public key."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry

from kwire.clock import wall_clock_ms
from kwire.config import ConsumerConfig, OAuthToken
from kwire.errors import NoTokenError

if TYPE_CHECKING:
    from tests.network.login.conftest import MakeConfig, Says, ScriptedServer

FirstToken = Callable[[ConsumerConfig], OAuthToken]
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PASSPHRASE = "open, sesame"


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem(key: PrivateKey, passphrase: str | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


class Assertion(Protocol):
    def __call__(self, key: bytes, **settings: object) -> dict[str, str]: ...


@pytest.fixture
def form_with(
    tmp_path: Path, login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> Assertion:
    """What the login server is sent by a client with that key."""

    def send(key: bytes, **settings: object) -> dict[str, str]:
        path = tmp_path / "key.pem"
        path.write_bytes(key)
        login_server.answers(says(200, {"access_token": "a", "expires_in": 3600}))
        base = {
            "sasl_oauthbearer_assertion_private_key_file": path,
            "sasl_oauthbearer_assertion_claim_iss": "kwire",
            "sasl_oauthbearer_client_credentials_client_secret": None,
        }
        assert first_token(server_config(**{**base, **settings})).value == "a"
        assert "authorization" not in login_server.asked[0].headers
        return login_server.asked[0].form

    return send


def test_a_client_proves_by_an_assertion_who_it_is(form_with: Assertion, rsa_key: rsa.RSAPrivateKey) -> None:
    before_s = wall_clock_ms() // 1000

    form = form_with(
        pem(rsa_key),
        sasl_oauthbearer_assertion_claim_aud="https://login.example",
        sasl_oauthbearer_assertion_claim_sub="kwire-client",
        sasl_oauthbearer_assertion_claim_jti_include=True,
        sasl_oauthbearer_scope="read",
    )

    assertion = form.pop("client_assertion")
    assert form == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_id": "kwire-client",
        "scope": "read",
    }
    decoded = jwt.decode(assertion, RSAKey.import_key(rsa_key.public_key()), algorithms=["RS256"])
    assert decoded.header == {"alg": "RS256", "typ": "JWT"}
    claims = dict(decoded.claims)
    assert len(claims.pop("jti")) == 36
    issued_s = claims.pop("iat")
    assert 0 <= issued_s - before_s <= 60
    assert claims == {
        "iss": "kwire",
        "aud": "https://login.example",
        "sub": "kwire-client",
        "exp": issued_s + 300,
        "nbf": issued_s - 60,
    }


def test_the_grant_jwt_bearer_with_a_key_of_an_elliptic_curve(
    form_with: Assertion, ec_key: ec.EllipticCurvePrivateKey
) -> None:
    form = form_with(
        pem(ec_key, PASSPHRASE),
        sasl_oauthbearer_assertion_private_key_passphrase=PASSPHRASE,
        sasl_oauthbearer_assertion_algorithm="ES256",
        sasl_oauthbearer_jwt_retriever_class="org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
    )

    assertion = form.pop("assertion")
    assert form == {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}
    assert jwt.decode(assertion, ECKey.import_key(ec_key.public_key()), algorithms=["ES256"]).claims["iss"] == "kwire"


def test_settings_win_over_the_template_and_times_over_both(
    form_with: Assertion, rsa_key: rsa.RSAPrivateKey, tmp_path: Path
) -> None:
    template = tmp_path / "template.json"
    template.write_text(
        json.dumps(
            {
                "header": {"kid": "key-7", "x-tenant": "one", "alg": "none"},
                "payload": {"iss": "template", "sub": "template", "groups": ["a"], "exp": 5},
            }
        )
    )

    form = form_with(pem(rsa_key), sasl_oauthbearer_assertion_template_file=template)

    decoded = jwt.decode(
        form["client_assertion"],
        RSAKey.import_key(rsa_key.public_key()),
        registry=JWSRegistry(algorithms=["RS256"], strict_check_header=False),
    )
    assert decoded.header == {"kid": "key-7", "x-tenant": "one", "alg": "RS256", "typ": "JWT"}
    assert (decoded.claims["iss"], decoded.claims["sub"], decoded.claims["groups"]) == ("kwire", "template", ["a"])
    assert decoded.claims["exp"] > 5


def test_a_key_without_the_lines_around_it_as_java_takes_it(form_with: Assertion, rsa_key: rsa.RSAPrivateKey) -> None:
    der = rsa_key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

    form = form_with(base64.b64encode(der))

    assert jwt.decode(form["client_assertion"], RSAKey.import_key(rsa_key.public_key())).claims["iss"] == "kwire"


def test_an_assertion_may_come_from_a_file(
    tmp_path: Path, login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    path = tmp_path / "assertion"
    path.write_text("made.by.others\n")
    login_server.answers(says(200, {"access_token": "a"}))

    first_token(server_config(sasl_oauthbearer_assertion_file=path))

    assert login_server.asked[0].form["client_assertion"] == "made.by.others"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sasl_oauthbearer_assertion_private_key_passphrase": "wrong"}, "no assertion can be signed with .*key.pem"),
        ({"sasl_oauthbearer_assertion_private_key_passphrase": None}, "no assertion can be signed with .*key.pem"),
        ({"sasl_oauthbearer_assertion_algorithm": "ES256"}, "has to be a key of the curve P-256 as PEM, for ES256"),
        (
            {"sasl_oauthbearer_assertion_private_key_file": "/no/such.pem"},
            "such.pem. cannot be read: No such file",
        ),
        ({"sasl_oauthbearer_assertion_template_file": "/no/such.json"}, "'/no/such.json' cannot be read"),
    ],
)
def test_what_cannot_be_signed_is_told_of_and_nothing_is_sent(
    settings: dict[str, object],
    why: str,
    form_with: Assertion,
    rsa_key: rsa.RSAPrivateKey,
    login_server: ScriptedServer,
) -> None:
    base = {"sasl_oauthbearer_assertion_private_key_passphrase": PASSPHRASE}

    with pytest.raises(NoTokenError, match=why) as caught:
        form_with(pem(rsa_key, PASSPHRASE), **{**base, **settings})

    assert PASSPHRASE not in str(caught.value)
    assert login_server.asked == []


@pytest.mark.parametrize(
    ("template", "why"),
    [(b"not json", "is no JSON"), (b"[]", "not of the form"), (b'{"payload": 1}', "not of the form")],
)
def test_a_template_that_is_none_is_told_of(
    template: bytes, why: str, form_with: Assertion, rsa_key: rsa.RSAPrivateKey, tmp_path: Path
) -> None:
    path = tmp_path / "template.json"
    path.write_bytes(template)

    with pytest.raises(NoTokenError, match=why):
        form_with(pem(rsa_key), sasl_oauthbearer_assertion_template_file=path)


def test_a_public_key_signs_nothing(form_with: Assertion, rsa_key: rsa.RSAPrivateKey) -> None:
    public = rsa_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    with pytest.raises(NoTokenError, match="holds a public key"):
        form_with(public)
