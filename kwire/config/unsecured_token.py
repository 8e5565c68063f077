"""Tokens that nobody has signed, from the options of `sasl_jaas_config` that Java's OAuthBearerLoginModule takes.

Brokers believe them only if they are set up for tests (KIP-255).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kwire.errors import ConfigError

_PREFIX = "unsecuredLogin"
_LIFETIME = f"{_PREFIX}LifetimeSeconds"
_PRINCIPAL = f"{_PREFIX}PrincipalClaimName"
_SCOPE = f"{_PREFIX}ScopeClaimName"
_CLAIMS = (f"{_PREFIX}StringClaim_", f"{_PREFIX}NumberClaim_", f"{_PREFIX}ListClaim_")
_EXTENSION = f"{_PREFIX}Extension_"
_RESERVED = ("iat", "exp")

Claims = dict[str, str | float | list[str]]


def unsecured_claims(options: Mapping[str, str], now_ms: float) -> Claims:
    """The claims of a token made now.

    Raises:
        ConfigError: an option is unknown or has a bad value.
    """
    claims: Claims = {"exp": now_ms / 1000.0 + _lifetime_seconds(options), "iat": now_ms / 1000.0}
    for option, value in options.items():
        kind, mark, name = option.partition("_")
        if f"{kind}{mark}" in _CLAIMS and name:
            if name in _RESERVED:
                raise _bad(option, "this claim says when the token was made and ends; it is set by itself")
            claims[name] = _value(option, value)
        elif option not in (_LIFETIME, _PRINCIPAL, _SCOPE) and not option.startswith(_EXTENSION):
            raise _bad(option, "there is no such option")
    principal = options.get(_PRINCIPAL, "").strip() or "sub"
    if not isinstance(claims.get(principal), str) or not claims[principal]:
        raise _bad(f"{_PREFIX}StringClaim_{principal}", "it says who logs in, and is missing")
    return claims


def unsecured_extensions(options: Mapping[str, str]) -> dict[str, str]:
    """SASL extensions that go with the token."""
    return {name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)}


def _lifetime_seconds(options: Mapping[str, str]) -> int:
    try:
        seconds = int(options.get(_LIFETIME, "3600"))
    except ValueError:
        seconds = 0
    if not 0 < seconds < 2**31:
        raise _bad(_LIFETIME, "it has to be a positive whole number")
    return seconds


def _value(option: str, value: str) -> str | float | list[str]:
    if option.startswith(_CLAIMS[0]):
        return value
    if option.startswith(_CLAIMS[2]):
        return value[1:].split(value[0]) if len(value) > 1 else []  # the first character is the delimiter
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _bad(option, "it has to be a number")
    return number


def _bad(option: str, reason: str) -> ConfigError:
    return ConfigError(f"the option {option} of sasl_jaas_config is wrong: {reason}")
