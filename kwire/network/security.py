"""How the connections of one client are secured: what the steps of the handshake (`network/handshake.py`) need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.config import ConsumerConfig
from kwire.errors import KafkaError
from kwire.model import Node

if TYPE_CHECKING:
    from kwire.network.authentication import Authentication
    from kwire.network.tls_context import TlsContexts


class Security:
    """What all connections of a client share: the certificates, and the login.

    Attributes:
        tls: The certificates; None without TLS.
        authentication: The login; None without SASL.

    Raises:
        ConfigError: Certificates or keys cannot be used.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self.protocol = config.security_protocol
        self.tls: TlsContexts | None = None
        self.authentication: Authentication | None = None
        if self.protocol.is_tls:
            from kwire.network.tls_context import TlsContexts

            self.tls = TlsContexts(config)
        if self.protocol.is_sasl:
            from kwire.network.authentication import Authentication

            self.authentication = Authentication(config)

    async def run(self) -> None:
        """Renew tokens in the background, if there are any; else return at once."""
        if self.authentication is not None and self.authentication.tokens is not None:
            await self.authentication.tokens.run()

    def tls_failure(self, error: Exception, node: Node) -> KafkaError | None:
        """What it means that TLS has broken off; None if it was not TLS."""
        import ssl

        from kwire.network.tls_errors import broken

        own = self.tls.own_certificate if self.tls is not None else None
        return broken(error, node, own) if isinstance(error, ssl.SSLError) else None

    @property
    def hint(self) -> str:
        """What to look at when a broker hangs up while we introduce ourselves."""
        if self.protocol.is_tls:
            return f"is this a listener for {self.protocol.value}? One without TLS does that"
        if self.protocol.is_sasl:
            return f"is this a listener for {self.protocol.value}? One with TLS, or without SASL, does that"
        return "is this a listener for PLAINTEXT? One with TLS (security_protocol SSL or SASL_SSL) does that"
