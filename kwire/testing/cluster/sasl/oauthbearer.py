"""OAUTHBEARER (RFC 7628, KIP-255): a token, checked by whatever the cluster has been given for that.

A token that does not pass is answered by a challenge in JSON; the client confirms with one byte 0x01, and only then the
exchange has failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kwire.testing.cluster.sasl.exchange import AuthenticationRefusedError, Identity, Step

CONFIRMATION = b"\x01"
INVALID_TOKEN = '{"status":"invalid_token"}'

_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_INITIAL = re.compile(rf"n,(?:a=(?P<acts_for>{_SASL_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)

TokenCheck = Callable[[str], Identity]
"""Returns the user of a token. Raises: AuthenticationRefusedError, whose text is the challenge, if it does not pass."""


class OAuthBearerExchange:
    """OAUTHBEARER on the broker's side."""

    def __init__(self, check: TokenCheck) -> None:
        self._check = check
        self._failure: str | None = None

    def step(self, data: bytes) -> Step:
        """As `Exchange`."""
        if data == CONFIRMATION and self._failure is not None:
            raise AuthenticationRefusedError(self._failure)
        self._failure = None
        acts_for, token = _parsed(data.decode(errors="replace"))
        try:
            identity = self._check(token)
        except AuthenticationRefusedError as refusal:
            self._failure = str(refusal) or INVALID_TOKEN
            return Step(challenge=self._failure.encode())
        if acts_for not in ("", identity.name):
            raise AuthenticationRefusedError(
                f"Authentication failed: Client requested an authorization id ({acts_for}) that is different from the "
                f"token's principal name ({identity.name})"
            )
        return Step(identity=identity)


def _parsed(text: str) -> tuple[str, str]:
    """Whom to act for ("" for oneself), and the token."""
    initial = _INITIAL.fullmatch(text)
    if initial is None:
        raise AuthenticationRefusedError
    pairs = dict(pair.split("=", 1) for pair in initial["pairs"].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise AuthenticationRefusedError
    return (initial["acts_for"] or "").replace("=2C", ",").replace("=3D", "="), auth["token"]
