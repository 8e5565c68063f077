"""The context of a request: the broker that was asked, the version, and the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.testing.cluster.authentication import Authentication
    from kwire.testing.cluster.broker import Broker

ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class ConnectionSession:
    """What a connection knows of its client.

    Attributes:
        client_host: The client's address.
        certified: The principal of the client's certificate, or nobody.
        authentication: The state of SASL; None without SASL.
    """

    client_host: str
    certified: str = ANONYMOUS
    authentication: Authentication | None = None

    @property
    def principal(self) -> str:
        """The principal of the client; with SASL, anonymous until it has authenticated."""
        if self.authentication is None:
            return self.certified
        return ANONYMOUS if self.authentication.name is None else f"User:{self.authentication.name}"

    @property
    def is_over(self) -> bool:
        """Whether the connection closes after the answer."""
        return self.authentication is not None and self.authentication.is_over


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """One request's context, as the rules of a test see it."""

    broker: Broker
    version: int
    client_id: str
    session: ConnectionSession

    @property
    def client_host(self) -> str:
        """The address of the client in Kafka's form: "/127.0.0.1"."""
        return self.session.client_host

    @property
    def principal(self) -> str:
        """The principal of the client: "User:ANONYMOUS" unless it has authenticated."""
        return self.session.principal
