"""PLAIN and OAUTHBEARER, which exchange a login asks for, and that none of them shows a secret."""

from __future__ import annotations

import pickle
import traceback
from typing import TYPE_CHECKING

import pytest

from kwire.config.choices import SaslMechanism
from kwire.config.login import Login
from kwire.config.secret import Secret
from kwire.config.token_provider import OAuthToken
from kwire.errors import AuthenticationError, IllegalSaslStateError, InternalError, SaslAuthenticationError
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.sasl import (
    OAuthBearerExchange,
    PlainExchange,
    SaslExchange,
    ScramExchange,
    ScramKeyCache,
    exchange_for,
)
from kwire.protocol.sasl.exchange import MAX_CHALLENGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."
PASSWORD = "open sesame"


def test_plain_sends_name_and_password_and_takes_whatever_comes_back() -> None:
    for answer in (b"", b"welcome"):
        plain = PlainExchange("alice", Secret(PASSWORD))
        assert plain.first() == b"\0alice\0open sesame"
        before = plain.is_complete
        assert plain.answer(answer) is None
        assert (before, plain.is_complete) == (False, True)
        with pytest.raises(IllegalSaslStateError):
            plain.answer(b"")


def test_plain_writes_utf_8() -> None:
    assert PlainExchange("größe", Secret("naïve")).first() == "\0größe\0naïve".encode()


@pytest.mark.parametrize(
    ("username", "password"),
    [("", "x"), ("x", ""), ("a\0b", "x"), ("x", "hid\0den"), ("\ud800", "x"), ("x", "hid\ud800den")],
)
def test_plain_refuses_what_it_cannot_carry_and_shows_none_of_it(username: str, password: str) -> None:
    with pytest.raises(SaslAuthenticationError, match="PLAIN") as raised:
        PlainExchange(username, Secret(password)).first()
    assert "hid" not in "".join(traceback.format_exception(raised.value))


def test_a_token_is_sent_with_extensions_and_an_empty_answer_is_success() -> None:
    bearer = OAuthBearerExchange(TOKEN, {"logicalCluster": "lkc-1", "pool": "a b"})
    assert bearer.first() == f"n,,\x01auth=Bearer {TOKEN}\x01logicalCluster=lkc-1\x01pool=a b\x01\x01".encode()
    before = bearer.is_complete
    assert bearer.answer(b"") is None
    assert (before, bearer.is_complete) == (False, True)
    assert OAuthBearerExchange("abc=").first() == b"n,,\x01auth=Bearer abc=\x01\x01"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b'{"status":"invalid_token"}', "status invalid_token"),
        (
            b'{"status":"insufficient_scope","scope":"read","openid-configuration":"https://x"}',
            "status insufficient_scope, scope read, openid-configuration https://x",
        ),
        (b'{"status":7}', '{"status":7}'),
        (b"[]", "[]"),
        (b"no\njson", "no\\\\njson"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[" * 5000, "[" * 300 + "..."),
        (b"9" * 5000, "9" * 300 + "..."),
        (f'{{"status":"bad {TOKEN}"}}'.encode(), "status bad <token>"),
    ],
)
def test_a_refused_token_is_acknowledged_and_the_brokers_reason_kept(said: bytes, told: str) -> None:
    bearer = OAuthBearerExchange(TOKEN)
    bearer.first()
    assert bearer.answer(said) == b"\x01"
    assert bearer.server_error == told.replace("\\\\n", "\\n")
    assert not bearer.is_complete
    with pytest.raises(SaslAuthenticationError, match="refuses the token") as raised:
        bearer.answer(b"")  # a broker says no by an error code; whatever else comes is no success
    assert bearer.server_error in str(raised.value)
    assert TOKEN not in str(raised.value)
    assert not bearer.is_complete


@pytest.mark.parametrize("token", ["", "Bearer abc", '"abc"', "abc\n", "a\x01b", "ä", "=abc"])
def test_text_that_is_no_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(SaslAuthenticationError, match="token") as raised:
        OAuthBearerExchange(token)
    assert "abc" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auth", "x"),
        ("", "x"),
        ("a1", "x"),
        ("a_b", "x"),
        ("ä", "x"),
        ("a", ""),
        ("a", "x\x01y"),
        ("a", "ä"),
        ("a\n", "x"),
    ],
)
def test_extensions_have_names_of_letters_and_values_of_printable_ascii(name: str, value: str) -> None:
    with pytest.raises(SaslAuthenticationError, match="SASL extension"):
        OAuthBearerExchange(TOKEN, {name: value})


def test_the_login_decides_which_exchange_it_is() -> None:
    password = Login(username="alice", password=Secret(PASSWORD))
    made = exchange_for(SaslMechanism.PLAIN, password)
    assert isinstance(made, PlainExchange)
    for mechanism in (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512):
        made = exchange_for(mechanism, password, nonce="abc", keys=ScramKeyCache())
        assert isinstance(made, ScramExchange)
        assert mechanism.value in repr(made)
        assert made.first() == b"n,,n=alice,r=abc"
    delegation_token = Login(username="id", password=Secret("hmac"), is_delegation_token=True)
    made = exchange_for(SaslMechanism.SCRAM_SHA_256, delegation_token, nonce="abc")
    assert made.first() == b"n,,n=id,r=abc,tokenauth=true"
    token = OAuthToken(TOKEN, extensions={"b": "token's"})
    made = exchange_for(SaslMechanism.OAUTHBEARER, Login(extensions={"a": "login's", "b": "login's"}), token=token)
    assert made.first() == f"n,,\x01auth=Bearer {TOKEN}\x01a=login's\x01b=token's\x01\x01".encode()


@pytest.mark.parametrize("mechanism", list(SaslMechanism))
def test_an_exchange_without_credentials_is_a_bug_of_its_maker(mechanism: SaslMechanism) -> None:
    with pytest.raises(InternalError):
        exchange_for(mechanism, Login())


EXCHANGES: dict[str, Callable[[], SaslExchange]] = {
    "PLAIN": lambda: PlainExchange("alice", Secret(PASSWORD)),
    "SCRAM": lambda: ScramExchange(SaslMechanism.SCRAM_SHA_256, "alice", Secret(PASSWORD), nonce="abc"),
    "OAUTHBEARER": lambda: OAuthBearerExchange(TOKEN, {"a": "b"}),
}


@pytest.mark.parametrize("mechanism", EXCHANGES)
def test_no_exchange_shows_or_pickles_its_secret(mechanism: str) -> None:
    exchange = EXCHANGES[mechanism]()
    exchange.first()
    shown = f"{exchange!r} {exchange} {vars(exchange)!r}"
    assert PASSWORD not in shown
    assert TOKEN not in shown
    with pytest.raises(TypeError):
        pickle.dumps(exchange)


def lone_surrogate(text: str) -> Secret:
    return Secret(f"{text}\ud800")


FAILURES: dict[str, Callable[[], object]] = {
    "a token that is none": lambda: OAuthBearerExchange(f"{TOKEN} and more"),
    "a token with bad extensions": lambda: OAuthBearerExchange(TOKEN, {"auth": "x"}),
    "a password that is no text": lambda: PlainExchange("alice", lone_surrogate(PASSWORD)).first(),
    "a password with NUL": lambda: PlainExchange("alice", Secret(f"{PASSWORD}\0")),
    "a password that no keys can be made of": lambda: ScramKeyCache().get(
        "SCRAM-SHA-256", lone_surrogate(PASSWORD), b"salt", 4096
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_no_traceback_shows_a_secret_not_even_with_its_locals(failure: str) -> None:
    with pytest.raises(SaslAuthenticationError) as raised:
        FAILURES[failure]()
    assert raised.tb.tb_next is not None
    assert raised.tb.tb_next.tb_next is not None  # the two frames of this file have the secrets as constants
    frames = traceback.StackSummary.extract(traceback.walk_tb(raised.tb.tb_next.tb_next), capture_locals=True)
    shown = "".join(frames.format()) + str(raised.value)
    assert "mechanism" in shown or "self" in shown or "token" in shown
    assert PASSWORD not in shown
    assert TOKEN not in shown


@pytest.mark.parametrize("mechanism", EXCHANGES)
def test_a_message_without_end_is_refused_before_it_is_read(mechanism: str) -> None:
    exchange = EXCHANGES[mechanism]()
    exchange.first()
    with pytest.raises(AuthenticationError, match="16385 bytes"):
        exchange.answer(b"x" * (MAX_CHALLENGE_BYTES + 1))
    assert not exchange.is_complete


def test_the_request_that_carries_a_password_does_not_show_it() -> None:
    request = SaslAuthenticateRequest(auth_bytes=PlainExchange("alice", Secret(PASSWORD)).first())
    assert repr(request) == "SaslAuthenticateRequest(auth_bytes=<18 bytes>)"
