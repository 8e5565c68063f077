"""Security of connections to the judged broker: TLS, and a login by PLAIN or SCRAM, as the settings say."""

from __future__ import annotations

import secrets
import socket
import ssl
from typing import Protocol, TypeVar

from kwire.config import ConsumerConfig, login_of
from kwire.errors import (
    AuthenticationError,
    ConfigError,
    DisconnectError,
    KafkaTimeoutError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kwire.network.tls_context import TlsContexts
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.sasl import SaslExchange, ScramKeyCache, exchange_for
from kwire.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)

NONCE_BYTES = 24


class Ask(Protocol):
    """Sends a request and returns the broker's answer."""

    def __call__(self, request: Request[R], version: int, /) -> R: ...


class Access:
    """TLS and the login of all connections to one cluster.

    Args:
        config: The settings, of which only those of security are used.

    Raises:
        ConfigError: Certificates cannot be used, or the login is neither by PLAIN nor by SCRAM.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._protocol = config.security_protocol
        self._mechanism = config.sasl_mechanism
        self._tls = TlsContexts(config) if self._protocol.is_tls else None
        self._login = login_of(config) if self._protocol.is_sasl else None
        self._keys = ScramKeyCache()
        if self._login is not None and not self._mechanism.takes_password:
            raise ConfigError(f"the judge logs in by PLAIN or SCRAM, not by sasl_mechanism={self._mechanism.value}")

    def secured(self, connected: socket.socket, host: str) -> socket.socket:
        """The socket with TLS, if that is set. Raises: DisconnectError, KafkaTimeoutError."""
        if self._tls is None:
            return connected
        try:
            return self._tls.current().wrap_socket(connected, server_hostname=host)
        except TimeoutError as error:
            raise KafkaTimeoutError(f"{host} did not end the TLS handshake in time") from error
        except OSError as error:
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error
            raise DisconnectError(f"no TLS with {host}: {reason}") from error

    def log_in(self, ask: Ask) -> None:
        """Log in, if SASL is set. Raises: AuthenticationError, and what `ask` raises."""
        if self._login is None:
            return
        offer = ask(SaslHandshakeRequest(mechanism=self._mechanism.value), 1)
        if ErrorCode.of(offer.error_code) is not ErrorCode.NONE:
            offered = ", ".join(offer.mechanisms) or "none"
            raise UnsupportedSaslMechanismError(f"{self._mechanism.value} is not offered; offered is {offered}")
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        _exchange(exchange_for(self._mechanism, self._login, nonce=nonce, keys=self._keys), ask)


def _exchange(exchange: SaslExchange, ask: Ask) -> None:
    message: bytes | None = exchange.first()
    while message is not None:
        answer = ask(SaslAuthenticateRequest(auth_bytes=message), 0)
        if ErrorCode.of(answer.error_code) is not ErrorCode.NONE:
            raise SaslAuthenticationError(answer.error_message or ErrorCode.of(answer.error_code).name)
        message = exchange.answer(answer.auth_bytes)
    if not exchange.is_complete:
        raise AuthenticationError("the broker ends the login before it is through")
