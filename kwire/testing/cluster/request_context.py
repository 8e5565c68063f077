"""What is known of a request beside itself: which broker was asked, in which version, by whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.testing.cluster.broker import Broker

ANONYMOUS = "User:ANONYMOUS"


@dataclass(slots=True)
class ConnectionSession:
    """What one connection remembers between requests: who is at the other end. Only SASL's handlers change it."""

    client_host: str
    principal: str = ANONYMOUS
    mechanism: str | None = None
    is_authenticated: bool = False
    is_over: bool = False
    """Set to have the connection closed behind the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """One request's surroundings, as far as the rules of a test see them."""

    broker: Broker
    version: int
    client_id: str
    session: ConnectionSession

    @property
    def client_host(self) -> str:
        """Where the client is, as Kafka writes it: "/127.0.0.1"."""
        return self.session.client_host

    @property
    def principal(self) -> str:
        """Who the client is: "User:ANONYMOUS" unless it has authenticated."""
        return self.session.principal
