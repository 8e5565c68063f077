"""The exchange of a SASL mechanism, on the broker's side: bytes in, bytes out, and finally the client's identity.

`server` makes exchanges, `kwire.testing.cluster.authentication` drives them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class AuthenticationRefusedError(Exception):
    """The client is not let in. The text is what it is told; without one it is told no more than that, as Kafka does
    where more would give away whether there is such a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a client, and until when it is valid, by the wall clock; None without a limit."""

    name: str
    expires_at_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the broker answers. With an identity the exchange is over."""

    challenge: bytes = field(default=b"", repr=False)
    identity: Identity | None = None


class Exchange(Protocol):
    """One client's authentication under way."""

    def step(self, data: bytes) -> Step:
        """Take what the client has sent.

        Raises:
            AuthenticationRefusedError: Authentication has failed.
        """
