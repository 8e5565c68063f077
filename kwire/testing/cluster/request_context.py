"""What is known of a request beside itself: which broker was asked, in which version, by whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.testing.cluster.authentication import Authentication
    from kwire.testing.cluster.broker import Broker

ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class ConnectionSession:
    """What one connection knows of its other end.

    Attributes:
        client_host: Where the client is.
        certified: The principal of the client's certificate, or nobody.
        authentication: How far it is with SASL; None where there is none.
    """

    client_host: str
    certified: str = ANONYMOUS
    authentication: Authentication | None = None

    @property
    def principal(self) -> str:
        """Who the client is; with SASL nobody until it has authenticated."""
        if self.authentication is None:
            return self.certified
        return ANONYMOUS if self.authentication.name is None else f"User:{self.authentication.name}"

    @property
    def is_over(self) -> bool:
        """Whether the connection closes behind the answer."""
        return self.authentication is not None and self.authentication.is_over


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
