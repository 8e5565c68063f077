"""Unsecured tokens and PLAIN's message: what passes, and what does not."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import pytest

from kwire.testing.cluster.sasl.exchange import AuthenticationRefusedError, Identity
from kwire.testing.cluster.sasl.oauthbearer import OAuthBearerExchange
from kwire.testing.cluster.sasl.plain import PlainExchange
from kwire.testing.cluster.sasl.unsecured_jws import check_unsecured_jws, unsecured_jws

NOW_MS = 1_000_000.0
EVE = Identity(name="eve")


def encoded(fields: object) -> str:
    return urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def jws(claims: object, header: object = None, signature: str = "") -> str:
    return f"{encoded(header or {'alg': 'none'})}.{encoded(claims)}.{signature}"


def test_a_token_tells_who_and_until_when() -> None:
    token = unsecured_jws("eve", issued_at_s=900, expires_at_s=1_100)
    assert check_unsecured_jws(token, NOW_MS) == Identity(name="eve", expires_at_ms=1_100_000)
    assert check_unsecured_jws(jws({"sub": "eve", "exp": 1_001}), NOW_MS).name == "eve"


@pytest.mark.parametrize(
    "token",
    [
        jws({"exp": 1_100}),
        jws({"sub": "", "exp": 1_100}),
        jws({"sub": 7, "exp": 1_100}),
        jws({"sub": "eve"}),
        jws({"sub": "eve", "exp": "1100"}),
        jws({"sub": "eve", "exp": True}),
        jws({"sub": "eve", "exp": 1_000}),
        jws({"sub": "eve", "exp": 1_100, "iat": 1_050}),
        jws({"sub": "eve", "exp": 1_100, "iat": "900"}),
        jws({"sub": "eve", "exp": 1_100}, {"alg": "HS256"}),
        jws({"sub": "eve", "exp": 1_100}, signature="c2lnbmVk"),
        jws(["eve"]),
        "no.token",
        "!!!.???.",
        "",
    ],
)
def test_what_is_no_unsecured_token_of_now_is_refused(token: str) -> None:
    with pytest.raises(AuthenticationRefusedError):
        check_unsecured_jws(token, NOW_MS)


def anybody(token: str) -> Identity:
    if token != "good":
        raise AuthenticationRefusedError
    return EVE


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good\x01\x01",
        b"n,a=eve,\x01auth=bearer  good\x01\x01",
        b"n,,\x01auth=Bearer good\x01logicalCluster=lkc-1\x01\x01",
    ],
)
def test_a_message_with_a_token(message: bytes) -> None:
    assert OAuthBearerExchange(anybody).step(message).identity == EVE


@pytest.mark.parametrize(
    "message",
    [b"", b"\x01", b"n,,\x01\x01", b"n,,\x01auth=Basic good\x01\x01", b"n,,\x01auth=Bearer good\x01", b"good"],
)
def test_a_message_without_a_token_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationRefusedError, match=r"^$"):
        OAuthBearerExchange(anybody).step(message)


def test_a_token_does_not_act_for_others() -> None:
    with pytest.raises(AuthenticationRefusedError, match=r"\(root\) that is different .* \(eve\)"):
        OAuthBearerExchange(anybody).step(b"n,a=root,\x01auth=Bearer good\x01\x01")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"ann\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0ann\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0ann\0", "Authentication failed: password not specified"),
        (b"\0ann\0guess", "Authentication failed: Invalid username or password"),
        (b"\0bob\0secret", "Authentication failed: Invalid username or password"),
        (b"root\0ann\0secret", "Authentication failed: Client requested an authorization id that is different from"),
    ],
)
def test_what_plain_refuses(message: bytes, told: str) -> None:
    with pytest.raises(AuthenticationRefusedError) as refusal:
        PlainExchange({"ann": "secret"}).step(message)
    assert str(refusal.value).startswith(told)
