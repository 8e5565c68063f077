"""Connections that take one question at a time: what a `BrokerClient` does on its thread.

It connects as a consumer does: the same names, certificates and logins, by the same handshake. Nothing is tried again
but an older version of ApiVersions, where a broker closes the connection on a newer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TypeVar

import trio

from kwire.config import ConsumerConfig, Endpoint
from kwire.errors import (
    BootstrapError,
    DisconnectError,
    KafkaError,
)
from kwire.model import Node
from kwire.network.addresses import Addresses
from kwire.network.api_versions_fallback import VERSIONS
from kwire.network.connection_errors import BREAKS, NO_ANSWER_HINT, connection_failure, took_too_long
from kwire.network.handshake import ApiVersionsQuery, Handshake
from kwire.network.security import Security
from kwire.network.tcp import TcpTransport
from kwire.network.tls import TlsStream
from kwire.network.transport import ByteStream
from kwire.protocol.framing import Framing
from kwire.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)

CLIENT_ID = "kwire"
NO_ID = -1


class Stage(Enum):
    """The steps of the way to a broker, in their order."""

    DNS = "DNS"
    TCP = "TCP"
    TLS = "TLS"
    VERSIONS = "versions"
    LOGIN = "login"


_STAGES = {"TLS": Stage.TLS, "version": Stage.VERSIONS, "SASL": Stage.LOGIN}
"""The stages, by the names of the handshake's steps."""


@dataclass(slots=True)
class ConnectionAttempt:
    """How far the way to a broker has led.

    Attributes:
        stage: The step that is under way, or has failed.
        addresses: What the name stands for.
        tls_version: As in TLSv1.3; None without TLS.
        certificate: What the broker has shown, as DER.
    """

    stage: Stage = Stage.DNS
    addresses: Sequence[str] = ()
    tls_version: str | None = None
    certificate: bytes | None = None

    def note_tls(self, stream: ByteStream) -> None:
        """What TLS has come to, if there is any."""
        if isinstance(stream, TlsStream):
            self.tls_version = stream.tls_version
            with suppress(ValueError):  # ended by an alert: then the certificate is not to be had any more
                self.certificate = stream.peer_certificate


class BrokerConnections:
    """Connections to brokers, one for each address.

    Args:
        timeout_s: How long each step, and each answer, may take.

    Raises:
        ConfigError: Certificates or a login cannot be used.
    """

    def __init__(self, config: ConsumerConfig, timeout_s: float) -> None:
        self.security = Security(config)
        self._servers = config.bootstrap_servers
        self._timeout_s = timeout_s
        self._transport = TcpTransport(config.receive_buffer_bytes, config.send_buffer_bytes)
        self._connections: dict[Endpoint, Handshake] = {}

    async def first_reachable(self) -> Endpoint:
        """The first bootstrap server that lets us in. Raises: KafkaError."""
        reasons: list[KafkaError] = []
        for endpoint in self._servers:
            try:
                await self.connected(endpoint)
            except KafkaError as error:
                reasons.append(error)
            else:
                return endpoint
        if len(reasons) == 1:
            raise reasons[0]
        raise BootstrapError("no bootstrap server can be used: " + "; ".join(map(str, reasons)))

    async def connected(self, endpoint: Endpoint, attempt: ConnectionAttempt | None = None) -> Handshake:
        """A connection that takes requests. Raises: KafkaError."""
        if endpoint not in self._connections:
            self._connections[endpoint] = await self._connect(endpoint, attempt or ConnectionAttempt())
        return self._connections[endpoint]

    async def ask(self, endpoint: Endpoint, request: Request[R], version: int) -> R:
        """Raises: KafkaError."""
        connection = await self.connected(endpoint)
        try:
            with trio.fail_after(self._timeout_s):
                return await connection.ask(request, version)
        except BREAKS as error:
            del self._connections[endpoint]
            await connection.stream.aclose()
            hint = "" if self.security.authentication else NO_ANSWER_HINT
            waits_for = f"answer to {connection.asked}"
            failure = connection_failure(error, connection.node, self.security, waits_for=waits_for, hint=hint)
            raise failure from failure.__cause__

    async def look_at_certificate(self, endpoint: Endpoint) -> bytes | None:
        """What is shown at this port (DER), trusted or not; None if nobody speaks TLS there."""
        from kwire.network.tls_handshake import look_at_certificate

        dial = partial(self._transport.connect, *endpoint)
        return await look_at_certificate(dial, endpoint.host, self._timeout_s)

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.stream.aclose()

    async def _connect(self, endpoint: Endpoint, attempt: ConnectionAttempt) -> Handshake:
        for version in VERSIONS[:-1]:
            try:
                return await self._shake_hands(endpoint, attempt, version)
            except DisconnectError as error:
                if attempt.stage is not Stage.VERSIONS or took_too_long(error):
                    raise
        return await self._shake_hands(endpoint, attempt, VERSIONS[-1])

    async def _shake_hands(self, endpoint: Endpoint, attempt: ConnectionAttempt, version: int) -> Handshake:
        node = Node(NO_ID, *endpoint)
        handshake: Handshake | None = None
        try:
            with trio.fail_after(self._timeout_s):
                attempt.stage = Stage.DNS
                attempt.addresses = [str(address) for address in await Addresses().of(*endpoint)]
                attempt.stage = Stage.TCP
                stream = await self._transport.connect(*endpoint)
            dial = partial(self._transport.connect, *endpoint)
            handshake = Handshake(node, stream, Framing(CLIENT_ID), self.security, dial, ApiVersionsQuery(version))
            with trio.fail_after(self._timeout_s):
                await handshake.run()
            attempt.stage = Stage.LOGIN
            attempt.note_tls(handshake.stream)
        except BREAKS as error:
            waits_for, hint = "connection", ""
            if handshake is not None:
                attempt.stage = _STAGES[handshake.step]
                attempt.note_tls(handshake.stream)
                waits_for, hint = f"answer to {handshake.asked}", self.security.hint
                await handshake.stream.aclose()
            failure = connection_failure(error, node, self.security, waits_for=waits_for, hint=hint)
            raise failure from failure.__cause__
        return handshake
