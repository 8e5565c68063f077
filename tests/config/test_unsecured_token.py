"""Tokens that nobody signs, by the options of Java's login module."""

from __future__ import annotations

import pytest

from kwire.config import unsecured_claims, unsecured_extensions
from kwire.errors import ConfigError

ME = {"unsecuredLoginStringClaim_sub": "me"}


def test_claims_are_text_numbers_and_lists() -> None:
    claims = unsecured_claims(
        {
            **ME,
            "unsecuredLoginNumberClaim_level": "3",
            "unsecuredLoginListClaim_scope": "|read|write",
            "unsecuredLoginListClaim_none": "|",
            "unsecuredLoginLifetimeSeconds": "60",
            "unsecuredLoginExtension_trace": "1",
        },
        now_ms=1_000_000,
    )

    assert claims == {"sub": "me", "level": 3.0, "scope": ["read", "write"], "none": [], "iat": 1000.0, "exp": 1060.0}


def test_a_token_lives_an_hour_and_its_principal_may_have_another_claim() -> None:
    claims = unsecured_claims(
        {"unsecuredLoginPrincipalClaimName": "user", "unsecuredLoginStringClaim_user": "me"}, now_ms=0
    )

    assert claims == {"user": "me", "iat": 0.0, "exp": 3600.0}


def test_extensions_go_beside_the_token() -> None:
    assert unsecured_extensions({**ME, "unsecuredLoginExtension_trace": "1"}) == {"trace": "1"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "unsecuredLoginStringClaim_sub .* says who logs in, and is missing"),
        ({**ME, "unsecuredLoginPrincipalClaimName": "user"}, "unsecuredLoginStringClaim_user .* is missing"),
        ({**ME, "unsecuredLoginNumberClaim_exp": "5"}, "it is set by itself"),
        ({**ME, "unsecuredLoginNumberClaim_level": "high"}, "has to be a number"),
        ({**ME, "unsecuredLoginLifetimeSeconds": "0"}, "positive whole number"),
        ({**ME, "unsecuredLoginLifetimeSeconds": "1h"}, "positive whole number"),
        ({**ME, "unsecuredLoginStringclaim_x": "1"}, "there is no such option"),
    ],
)
def test_options_that_are_wrong_are_told_of(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        unsecured_claims(options, now_ms=0)
