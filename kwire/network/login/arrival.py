"""Checks a token that has come: its text, when it expires, its extensions. No error shows the token."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from kwire.config import OAuthToken
from kwire.network.login.failures import TokenRequestError

# RFC 6750: b64token. A JWS in its compact form is one as well. Nothing else may stand in SASL's message (RFC 7628).
_B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
# What a broker takes of a SASL message: sasl.server.max.receive.size.
MAX_TOKEN_BYTES = 524_288
# KIP-342, as the Java client checks it; RFC 7628 has `auth` for the token itself.
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")


@dataclass(frozen=True, slots=True)
class ArrivedToken:
    """A token that is valid now, and when its life began, if it says so."""

    token: OAuthToken
    issued_at_ms: float | None


def arrived(token: OAuthToken, extensions: Mapping[str, str], now_ms: float, origin: str) -> ArrivedToken:
    """The token as it is used, with the end of its life filled in.

    Args:
        extensions: go with every token, unless it has others of the same name.
        origin: where the token comes from, for errors.

    Raises:
        TokenRequestError: it is no token, or its life has ended.
    """
    check_text(token.value, origin)
    claims = claims_of(token.value)
    expires_at_ms = token.expires_at_ms if token.expires_at_ms is not None else _claim_ms(claims, "exp")
    if expires_at_ms is not None and expires_at_ms <= now_ms:
        raise TokenRequestError(
            f"the token from {origin} has expired before it came, at {_date(expires_at_ms)}; this machine's clock says "
            f"{_date(now_ms)}. Is one of the clocks wrong?",
            is_certain=True,
        )
    together = {**extensions, **token.extensions}
    _check_extensions(together, origin)
    return ArrivedToken(OAuthToken(token.value, expires_at_ms, together), _claim_ms(claims, "iat"))


def check_text(value: str, origin: str) -> None:
    """Raises: TokenRequestError, if the text cannot be a token."""
    if not value:
        raise TokenRequestError(f"the token from {origin} is empty", is_certain=True)
    if len(value) > MAX_TOKEN_BYTES:
        raise TokenRequestError(
            f"the token from {origin} has {len(value)} characters; a broker takes {MAX_TOKEN_BYTES} at most",
            is_certain=True,
        )
    if _B64TOKEN.fullmatch(value) is None:
        raise TokenRequestError(
            f"the token from {origin} has characters that a token cannot have: RFC 6750 allows A-Z a-z 0-9 - . _ ~ + /"
            " and = at the end",
            is_certain=True,
        )


def claims_of(value: str) -> dict[str, object]:
    """What a JWT says; nothing, if it is none. Nobody has verified it: that is for the broker."""
    parts = value.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def number_of(found: object) -> float | None:
    """The number in foreign data as a float; None if it is none, or not finite."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        number = float(found)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _claim_ms(claims: dict[str, object], name: str) -> float | None:
    seconds = number_of(claims.get(name))
    return None if seconds is None else seconds * 1000.0


def _check_extensions(extensions: Mapping[str, str], origin: str) -> None:
    for name, value in extensions.items():
        if name == "auth" or _EXTENSION_NAME.fullmatch(name) is None:
            raise TokenRequestError(f"{name!r} is no name of a SASL extension ({origin}); use letters", is_certain=True)
        if _EXTENSION_VALUE.fullmatch(value) is None:
            raise TokenRequestError(
                f"the SASL extension {name} ({origin}) is empty or has characters that are not ASCII", is_certain=True
            )


def _date(at_ms: float) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000.0, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms / 1000.0:.0f} s since 1970"
