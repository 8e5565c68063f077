"""What is looked at when a token comes, whatever comes."""

from __future__ import annotations

import base64
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.config import OAuthToken
from kwire.network.login.arrival import arrived
from kwire.network.login.failures import TokenRequestError

NOW_MS = 1_800_000_000_000.0


def jwt_of(claims: object) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2ln"


def test_a_jwt_says_when_its_life_begins_and_ends() -> None:
    came = arrived(OAuthToken(jwt_of({"iat": 1_799_999_000, "exp": 1_800_000_100.5})), {}, NOW_MS, "here")

    assert came.token.expires_at_ms == 1_800_000_100_500.0
    assert came.issued_at_ms == 1_799_999_000_000.0


def test_an_end_that_is_given_wins_over_the_claim() -> None:
    came = arrived(OAuthToken(jwt_of({"exp": 5}), NOW_MS + 1), {}, NOW_MS, "here")

    assert came.token.expires_at_ms == NOW_MS + 1


@pytest.mark.parametrize(
    "claims", [{}, {"exp": "soon"}, {"exp": True}, {"exp": 10**400}, {"exp": float("nan")}, {"exp": None}, [], "exp", 7]
)
def test_a_jwt_that_does_not_say_when_it_ends_is_taken_as_one_that_never_said(claims: object) -> None:
    assert arrived(OAuthToken(jwt_of(claims)), {}, NOW_MS, "here").token.expires_at_ms is None


def test_extensions_of_the_settings_go_with_each_token_and_those_of_the_token_win() -> None:
    token = OAuthToken("abc", extensions={"tenant": "two"})

    came = arrived(token, {"tenant": "one", "zone": "a"}, NOW_MS, "here")

    assert came.token.extensions == {"tenant": "two", "zone": "a"}


@given(value=st.one_of(st.text(), st.from_regex(r"[A-Za-z0-9._~+/=-]*", fullmatch=True)), end=st.none() | st.floats())
def test_whatever_comes_is_a_token_or_an_error(value: str, end: float | None) -> None:
    with suppress(TokenRequestError):
        assert arrived(OAuthToken(value, end), {}, NOW_MS, "here").token.value == value


@given(payload=st.binary(), head=st.binary(max_size=4))
def test_whatever_stands_where_claims_should_be_does_no_harm(payload: bytes, head: bytes) -> None:
    parts = (base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (head + b"x", payload, b"sig"))

    came = arrived(OAuthToken(".".join(parts), NOW_MS + 1), {}, NOW_MS, "here")

    assert came.token.expires_at_ms == NOW_MS + 1
