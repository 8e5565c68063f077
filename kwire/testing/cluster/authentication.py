"""Authentication: the SASL state of one connection, with the transitions of Kafka's SaslServerAuthenticator.

First ApiVersions once, if at all, then SaslHandshake, then the mechanism's exchange: in SaslAuthenticate requests, or
after a handshake of version 0 in bare frames (KIP-152). Everything else closes the connection. Another handshake renews
a session that has a lifetime (KIP-368); a request after its end closes the connection. Called by `connection`, and by
the handlers of both requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.testing.cluster.requests import UnanswerableError
from kwire.testing.cluster.sasl.exchange import AuthenticationRefusedError

if TYPE_CHECKING:
    from kwire.protocol.schema import Message, Request
    from kwire.testing.cluster.sasl.exchange import Exchange, Identity, Step
    from kwire.testing.cluster.sasl.server import SaslServer

REQUESTS_FROM = 1
"""From this version of SaslHandshake on the exchange goes in SaslAuthenticate requests."""

MIN_REAUTHENTICATION_INTERVAL_MS = 1_000
"""KIP-368: a connection that begins again sooner is refused."""

NOT_NOW = "SaslAuthenticate request received after successful authentication"


class SaslState(Enum):
    """What a connection waits for next."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    EXCHANGE = auto()
    AUTHENTICATED = auto()
    WRONG_MECHANISM = auto()
    """The handshake of a re-authentication was answered, though it named another mechanism; Kafka closes over what
    comes next."""
    FAILED = auto()


_EXPECTED: dict[SaslState, tuple[type[Request[Message]], ...]] = {
    SaslState.VERSIONS_OR_HANDSHAKE: (ApiVersionsRequest, SaslHandshakeRequest),
    SaslState.HANDSHAKE: (SaslHandshakeRequest,),
    SaslState.EXCHANGE: (SaslAuthenticateRequest,),
    SaslState.WRONG_MECHANISM: (),
    SaslState.FAILED: (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The monotonic clock, and the wall clock."""

    now_ms: Callable[[], float]
    wall_clock_ms: Callable[[], float]


class Authentication:
    """The authentication of one connection.

    Args:
        sasl: The users and mechanisms.
        clocks: The clocks.
        max_reauth_ms: Kafka's `connections.max.reauth.ms`; 0 for sessions that end only with their token.
    """

    def __init__(self, sasl: SaslServer, clocks: Clocks, max_reauth_ms: int) -> None:
        self._sasl = sasl
        self._clocks = clocks
        self._max_reauth_ms = max_reauth_ms
        self._state = SaslState.VERSIONS_OR_HANDSHAKE
        self._mechanism: str | None = None
        self._exchange: Exchange | None = None
        self._in_requests = False
        self._name: str | None = None
        self._expires_at_ms: float | None = None
        self._begun_again_ms: float | None = None

    @property
    def name(self) -> str | None:
        """The name of the client; None until it is known."""
        return self._name

    @property
    def is_over(self) -> bool:
        """Whether authentication has failed: the answer is the last one on this connection."""
        return self._state is SaslState.FAILED

    @property
    def is_under_way(self) -> bool:
        """Whether authentication is not complete yet."""
        return self._state is not SaslState.AUTHENTICATED

    @property
    def takes_tokens(self) -> bool:
        """Whether the next frame is a bare token of the mechanism."""
        return self._state is SaslState.EXCHANGE and not self._in_requests

    # --- requests --------------------------------------------------------------------------------------------

    def check(self, request: Request[Message]) -> ErrorCode:
        """Whether the request may be handled now: NONE, or the error to answer it with before the connection closes.

        Raises:
            UnanswerableError: The request closes the connection at once.
        """
        if self._state is SaslState.AUTHENTICATED:
            self._check_session(request)
            return ErrorCode.NONE
        if isinstance(request, _EXPECTED[self._state]):
            return ErrorCode.NONE
        was = self._state
        self._state = SaslState.FAILED
        if was is SaslState.EXCHANGE:
            return ErrorCode.ILLEGAL_SASL_STATE
        raise UnanswerableError(f"{type(request).__name__} while SASL is at {was.name}")

    def _check_session(self, request: Request[Message]) -> None:
        if self._expires_at_ms is None:
            return
        now_ms = self._clocks.now_ms()
        if isinstance(request, SaslHandshakeRequest) and self._may_begin_again(now_ms):
            self._begun_again_ms = now_ms
            self._state = SaslState.HANDSHAKE
        elif now_ms > self._expires_at_ms:
            self._sasl.sessions_ended += 1
            raise UnanswerableError(f"{type(request).__name__} after the end of the session of {self._name}")

    def _may_begin_again(self, now_ms: float) -> bool:
        return self._begun_again_ms is None or now_ms - self._begun_again_ms >= MIN_REAUTHENTICATION_INTERVAL_MS

    def versions_told(self) -> None:
        """Note that ApiVersions was answered, which happens once."""
        if self._state is SaslState.VERSIONS_OR_HANDSHAKE:
            self._state = SaslState.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> SaslHandshakeResponse:
        """Answer SaslHandshake: the mechanism is accepted, or refused with a list of those that are offered."""
        if self._state not in (SaslState.VERSIONS_OR_HANDSHAKE, SaslState.HANDSHAKE):
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        mechanisms = list(self._sasl.mechanisms)
        if mechanism not in mechanisms:
            self._state = SaslState.FAILED
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        if self._mechanism not in (None, mechanism):
            self._state = SaslState.WRONG_MECHANISM
        else:
            self._mechanism = mechanism
            self._exchange = self._sasl.begin(mechanism, self._clocks.wall_clock_ms)
            self._in_requests = version >= REQUESTS_FROM
            self._state = SaslState.EXCHANGE
        return SaslHandshakeResponse(mechanisms=mechanisms)

    # --- the exchange ----------------------------------------------------------------------------------------

    def authenticate(self, data: bytes) -> SaslAuthenticateResponse:
        """Take one step of the exchange, in a SaslAuthenticate request."""
        if self._state is not SaslState.EXCHANGE:
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=NOT_NOW)
        try:
            step, lifetime_ms = self._step(data)
        except AuthenticationRefusedError as refusal:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return SaslAuthenticateResponse(error_code=code, error_message=str(refusal) or self._no_more_than_that())
        return SaslAuthenticateResponse(auth_bytes=step.challenge, session_lifetime_ms=int(lifetime_ms))

    def take_token(self, data: bytes) -> bytes:
        """Take one step of the exchange, in a bare frame.

        Raises:
            UnanswerableError: Authentication has failed; bare frames cannot say so.
        """
        try:
            step, _lifetime_ms = self._step(data)
        except AuthenticationRefusedError as refusal:
            raise UnanswerableError(str(refusal) or self._no_more_than_that()) from refusal
        return step.challenge

    def _step(self, data: bytes) -> tuple[Step, float]:
        """The answer, and the lifetime of the session that begins with it; 0 for no limit, or if none begins yet."""
        if self._exchange is None:
            raise AuthenticationRefusedError
        try:
            step = self._exchange.step(data)
            lifetime_ms = 0.0 if step.identity is None else self._let_in(step.identity)
        except AuthenticationRefusedError:
            self._state = SaslState.FAILED
            raise
        return step, lifetime_ms

    def _let_in(self, identity: Identity) -> float:
        if self._name not in (None, identity.name):
            raise AuthenticationRefusedError(
                f"Cannot change principals during re-authentication from User.{self._name}: User.{identity.name}"
            )
        self._name = identity.name
        self._exchange = None
        self._state = SaslState.AUTHENTICATED
        return self._begin_session(identity.expires_at_ms)

    def _begin_session(self, token_expires_at_ms: float | None) -> float:
        bounds = [float(self._max_reauth_ms)] if self._max_reauth_ms > 0 else []
        if token_expires_at_ms is not None:
            bounds.append(max(0.0, token_expires_at_ms - self._clocks.wall_clock_ms()))
        self._expires_at_ms = self._clocks.now_ms() + min(bounds) if bounds else None
        return min(bounds, default=0.0)

    def _no_more_than_that(self) -> str:
        doing = "authentication" if self._name is None else "re-authentication"
        return f"Authentication failed during {doing} due to invalid credentials with SASL mechanism {self._mechanism}"
