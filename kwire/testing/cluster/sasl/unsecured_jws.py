"""Unsecured JSON web tokens (RFC 7515, appendix A.5): the tokens that a Kafka broker takes when nobody has configured
another validator (OAuthBearerUnsecuredValidatorCallbackHandler). They prove nothing, and are for tests.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import TypeGuard

from kwire.testing.cluster.sasl.exchange import AuthenticationRefusedError, Identity

PARTS = 3


def check_unsecured_jws(token: str, now_ms: float) -> Identity:
    """The user of a token. It needs `sub` and `exp`, may have `iat`, and must not be signed.

    Raises:
        AuthenticationRefusedError: The token is not valid.
    """
    claims = _claims(token)
    name, expires_s, issued_s = claims.get("sub"), claims.get("exp"), claims.get("iat")
    if not isinstance(name, str) or not name or not _is_number(expires_s):
        raise AuthenticationRefusedError
    if issued_s is not None and (not _is_number(issued_s) or issued_s * 1000 > now_ms or expires_s <= issued_s):
        raise AuthenticationRefusedError
    expires_at_ms = float(expires_s) * 1000
    if now_ms >= expires_at_ms:
        raise AuthenticationRefusedError
    return Identity(name=name, expires_at_ms=expires_at_ms)


def unsecured_jws(subject: str, *, issued_at_s: float, expires_at_s: float) -> str:
    """An unsecured token."""
    claims = {"sub": subject, "iat": issued_at_s, "exp": expires_at_s}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _claims(token: str) -> dict[str, object]:
    parts = token.split(".")
    if len(parts) != PARTS or parts[2]:
        raise AuthenticationRefusedError
    if _decoded(parts[0]).get("alg") != "none":
        raise AuthenticationRefusedError
    return _decoded(parts[1])


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _encoded(fields: dict[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def _decoded(part: str) -> dict[str, object]:
    try:
        fields = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (Base64Error, ValueError, RecursionError) as error:
        raise AuthenticationRefusedError from error
    if not isinstance(fields, dict):
        raise AuthenticationRefusedError
    return fields
