"""PLAIN (RFC 4616): a name and a password, in one message."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from kwire.testing.cluster.sasl.exchange import AuthenticationRefusedError, Identity, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS = 3
"""Whom to act for, who one is, the password."""

OTHER_IDENTITY = "Authentication failed: Client requested an authorization id that is different from username"


class PlainExchange:
    """PLAIN on the broker's side. `passwords` may change while it runs."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, data: bytes) -> Step:
        """As `Exchange`; the texts are those of Kafka's PlainSaslServer."""
        parts = data.decode(errors="replace").split("\0")
        if len(parts) != PARTS:
            raise AuthenticationRefusedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        acts_for, name, password = parts
        if not name:
            raise AuthenticationRefusedError("Authentication failed: username not specified")
        if not password:
            raise AuthenticationRefusedError("Authentication failed: password not specified")
        known = self._passwords.get(name)
        if known is None or not hmac.compare_digest(known.encode(), password.encode()):
            raise AuthenticationRefusedError("Authentication failed: Invalid username or password")
        if acts_for not in ("", name):
            raise AuthenticationRefusedError(OTHER_IDENTITY)
        return Step(identity=Identity(name=name))
