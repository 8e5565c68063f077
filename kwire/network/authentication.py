"""SASL on one connection: which requests are exchanged (KIP-152), and when that is done again (KIP-368)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from kwire.clock import chance, secure_random_bytes
from kwire.config import ConsumerConfig, Login, SaslMechanism, login_of
from kwire.errors import (
    AuthenticationError,
    DisconnectError,
    IllegalSaslStateError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kwire.model import Node
from kwire.network.worker_threads import worker_thread_needed
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.registry import BrokerVersions
from kwire.protocol.sasl import SaslExchange, ScramKeyCache, exchange_for
from kwire.protocol.schema import Message, Request

if TYPE_CHECKING:
    from kwire.network.login.token_login import TokenLogin

R = TypeVar("R", bound=Message)

NONCE_BYTES = 24
EARLIEST, LATEST = 0.85, 0.95
"""A session is renewed between these shares of its life, as in Java: by chance, so that not all do it at once."""
MIN_SHARE = 0.5
MIN_PAUSE_MS = 1_050.0
"""A broker takes no renewal within a second of the one before (KafkaChannel.maybeBeginServerReauthentication)."""


class Ask(Protocol):
    """Sends a request on the connection, and waits for its answer."""

    async def __call__(self, request: Request[R], version: int) -> R: ...


class Authentication:
    """How this client logs in, on each of its connections: mechanism, credentials, and tokens where it takes them.

    Raises:
        ConfigError: a package that the mechanism needs is missing, or the settings do not say all that it needs.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._mechanism = config.sasl_mechanism
        self._login: Login = login_of(config)
        self._keys = ScramKeyCache()
        self._one_at_a_time = trio.CapacityLimiter(1)
        self.tokens: TokenLogin | None = None
        if self._mechanism is SaslMechanism.GSSAPI:
            from kwire.network.gssapi import load_library

            load_library()
        if self._mechanism is SaslMechanism.OAUTHBEARER:
            from kwire.network.login.token_login import TokenLogin

            self.tokens = TokenLogin(config, self._login)

    @property
    def question(self) -> str:
        """The question to a third party before the login, as error messages name it; empty if there is none."""
        if self.tokens is not None:
            return "the question for a token"
        return "the question to sasl_credentials_provider" if self._login.provider is not None else ""

    async def login(self) -> Login:
        """The credentials to log in with now. A provider is called for one connection at a time.

        Raises:
            SaslAuthenticationError: the provider failed, or returned something else.
            OSError: no thread can be started to ask it in.
        """
        if self._login.provider is None:
            return self._login
        from kwire.network.login.credentials import ask_for_credentials

        with worker_thread_needed("ask sasl_credentials_provider"):
            username, password = await trio.to_thread.run_sync(
                ask_for_credentials, self._login.provider, abandon_on_cancel=True, limiter=self._one_at_a_time
            )
        return replace(self._login, username=username, password=password)

    async def run(
        self, login: Login, ask: Ask, versions: BrokerVersions, node: Node, *, is_renewal: bool = False
    ) -> float:
        """Log in on a new connection, or once more (`is_renewal`) on one that is in use.

        Returns:
            How long the session lasts, in ms; 0 means for ever.

        Raises:
            AuthenticationError: the two do not accept each other.
            DisconnectError: the broker takes no other login on this connection now.
            UnsupportedVersionError: the broker does not know SaslAuthenticate.
        """
        exchange = await self._exchange(login, node)
        await self._choose_mechanism(ask, versions, node, is_renewal=is_renewal)
        version, lifetime_ms = versions.pick(SaslAuthenticateRequest), 0
        message: bytes | None = await _said(exchange)
        while message is not None:
            answer = await ask(SaslAuthenticateRequest(auth_bytes=message), version)
            self._check(answer, exchange, login, node)
            lifetime_ms = answer.session_lifetime_ms
            message = await self._reply(exchange, answer.auth_bytes, node)
        if not exchange.is_complete:
            raise IllegalSaslStateError(f"broker {node} ends {self._mechanism.value} before it is through")
        return float(lifetime_ms)

    async def _exchange(self, login: Login, node: Node) -> SaslExchange:
        if self._mechanism is SaslMechanism.GSSAPI:
            from kwire.network.gssapi import GssapiExchange

            return GssapiExchange(login, node.host)
        token = await self.tokens.token() if self.tokens is not None else None
        nonce = urlsafe_b64encode(secure_random_bytes(NONCE_BYTES)).decode()
        return exchange_for(self._mechanism, login, nonce=nonce, keys=self._keys, token=token)

    async def _choose_mechanism(self, ask: Ask, versions: BrokerVersions, node: Node, *, is_renewal: bool) -> None:
        version = versions.pick(SaslHandshakeRequest, min_version=1)
        answer = await ask(SaslHandshakeRequest(mechanism=self._mechanism.value), version)
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            raise UnsupportedSaslMechanismError(
                f"broker {node} does not offer sasl_mechanism={self._mechanism.value}; it offers: {offered}"
            )
        if code is ErrorCode.ILLEGAL_SASL_STATE and is_renewal:
            raise DisconnectError("it takes no other login so soon")
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            raise IllegalSaslStateError(f"broker {node}: this listener takes no SASL; is security_protocol right?")
        if code is not ErrorCode.NONE:
            raise AuthenticationError(f"broker {node} refuses SaslHandshake: {code.name}")

    def _check(self, answer: SaslAuthenticateResponse, exchange: SaslExchange, login: Login, node: Node) -> None:
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            return
        said = "; ".join(dict.fromkeys(text for text in (exchange.server_error, answer.error_message) if text))
        kind = IllegalSaslStateError if code is ErrorCode.ILLEGAL_SASL_STATE else SaslAuthenticationError
        who = f" of {login.username}" if login.username else ""
        raise kind(f"broker {node} refuses the login{who} by {self._mechanism.value}: {said or code.name}")

    async def _reply(self, exchange: SaslExchange, challenge: bytes, node: Node) -> bytes | None:
        try:
            return await _said(exchange, challenge)
        except AuthenticationError as error:
            raise type(error)(f"broker {node}: {error}") from None


async def _said(exchange: SaslExchange, challenge: bytes | None = None) -> bytes | None:
    """What the client says next. In a thread, if a third party is asked for it."""

    def say() -> bytes | None:
        return exchange.first() if challenge is None else exchange.answer(challenge)

    if not exchange.does_io:
        return say()
    with worker_thread_needed("log in"):
        return await trio.to_thread.run_sync(say, abandon_on_cancel=True)


def renew_after_ms(lifetime_ms: float, longest_wait_ms: float, chance: float) -> float:
    """When a session is renewed.

    A broker answers one request of a connection at a time, so renewing may have to wait for the answer of the one in
    front. That is left room for, unless the session is too short for it.

    Args:
        lifetime_ms: How long the session is good for.
        longest_wait_ms: How long the answer to a request of this connection may take.
        chance: 0 to 1.
    """
    usual_ms = lifetime_ms * (EARLIEST + (LATEST - EARLIEST) * chance)
    with_room_ms = max(lifetime_ms * MIN_SHARE, lifetime_ms - longest_wait_ms)
    return max(MIN_PAUSE_MS, min(usual_ms, with_room_ms))


async def sleep_until_renewal(lifetime_ms: float, longest_wait_ms: float) -> None:
    """Sleep until the session is to be renewed; for ever, if it lasts that long."""
    if lifetime_ms <= 0:
        await trio.sleep_forever()
    await trio.sleep(renew_after_ms(lifetime_ms, longest_wait_ms, chance()) / 1000.0)
