"""What a connection does after TCP is connected and before the first request of the client: the steps of `HANDSHAKE`.

A step is a coroutine. It may ask the broker something and wait for the answer (`Handshake.ask`), and it may put another
stream in the place of the one there is, as TLS does. A step that this client's security does not need does nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar, cast

from kwire.errors import DisconnectError, ProtocolError, RebootstrapRequiredError
from kwire.model import Node
from kwire.network.security import Security
from kwire.network.transport import ByteStream
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.framing import Framing
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.registry import BrokerVersions
from kwire.protocol.schema import Message, Request
from kwire.version import __version__

CLIENT_SOFTWARE_NAME = "kwire"

Redial: TypeAlias = Callable[[], Awaitable[ByteStream]]

R = TypeVar("R", bound=Message)


class ApiVersionsQuery(NamedTuple):
    """How the broker is asked what it speaks: in which version first, and which cluster it is expected to be of; None
    where that is not known, or not to be checked."""

    version: int = ApiVersionsRequest.max_version
    cluster_id: str | None = None


class Handshake:
    """One connection that is not ready yet, as its steps see it.

    Attributes:
        stream: what is sent and received over.
        redial: connects to the broker once more, to look at it.
        security: which of TLS and SASL there is to be, and with what.
        api_versions_query: how the broker is asked what it speaks.
        session_lifetime_ms: how long the login is good for; 0 for ever.
        versions: what the broker speaks, once it has said so.
        step: the name of the step that is under way, for errors; empty when all are taken.
        asked: the API whose answer is waited for, for errors.
        asks_elsewhere: whether credentials or a token are asked for, so that the broker has nothing to answer.
    """

    def __init__(
        self,
        node: Node,
        stream: ByteStream,
        framing: Framing,
        security: Security,
        redial: Redial,
        api_versions_query: ApiVersionsQuery | None = None,
    ) -> None:
        self.node = node
        self.redial = redial
        self.security = security
        self.api_versions_query = api_versions_query or ApiVersionsQuery()
        self.stream = stream
        self.versions = BrokerVersions({})
        self.session_lifetime_ms = 0.0
        self.step = ""
        self.asked = ""
        self.asks_elsewhere = False
        self._framing = framing

    async def run(self) -> None:
        """Take all steps, in their order."""
        for self.step, take in HANDSHAKE.items():
            await take(self)
        self.step = ""

    async def ask(self, request: Request[R], version: int) -> R:
        """Send the request and wait for its answer."""
        self.asked, self.asks_elsewhere = type(request).__name__.removesuffix("Request"), False
        await self.stream.send_all(self._framing.send(request, version))
        return cast("R", await self._one_answer())  # the framing decodes what the request is answered by

    async def _one_answer(self) -> Message:
        while True:
            received = await self.stream.receive_into(self._framing.writable_buffer(), self._framing.missing_bytes)
            if received == 0:
                during = f"during the {self.step} handshake" if self.step else f"instead of answering {self.asked}"
                raise DisconnectError(f"it hung up {during}")
            for answer in self._framing.received(received):
                return answer.response


async def start_tls(handshake: Handshake) -> None:
    """Encrypt all that follows, if there is to be TLS."""
    if handshake.security.tls is None:
        return
    from kwire.network.tls_handshake import shake_hands

    handshake.asked = "the TLS handshake"
    context = handshake.security.tls.current()
    handshake.stream = await shake_hands(handshake.stream, context, handshake.node, handshake.redial)


async def authenticate(handshake: Handshake) -> None:
    """Log in, if there is a login."""
    authentication = handshake.security.authentication
    if authentication is not None:
        if authentication.question:
            handshake.asked, handshake.asks_elsewhere = authentication.question, True
        login = await authentication.login()
        handshake.session_lifetime_ms = await authentication.run(
            login, handshake.ask, handshake.versions, handshake.node
        )


async def negotiate_versions(handshake: Handshake) -> None:
    """KIP-511: ask in our newest version; a broker that does not know it answers in v0 which ones it does."""
    request, version = _api_versions_request(handshake), handshake.api_versions_query.version
    while True:
        answer = await handshake.ask(request, version)
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            handshake.versions = BrokerVersions.from_response(answer)
            return
        if code is ErrorCode.REBOOTSTRAP_REQUIRED:
            raise RebootstrapRequiredError(
                f"broker {handshake.node}: this address leads to another broker, or to another cluster than "
                f"{request.cluster_id}; do names, load balancers and advertised.listeners lead where they should?"
            )
        if code is not ErrorCode.UNSUPPORTED_VERSION or version == 0:
            raise ProtocolError(f"broker {handshake.node} refuses ApiVersions v{version}: {code.name}")
        version = _older(version, BrokerVersions.from_response(answer))


def _api_versions_request(handshake: Handshake) -> ApiVersionsRequest:
    """KIP-1242: the broker checks whether it is the one that is meant. A bootstrap server may be any."""
    node, cluster_id = handshake.node, handshake.api_versions_query.cluster_id
    is_checked = cluster_id is not None and node.id >= 0
    return ApiVersionsRequest(
        client_software_name=CLIENT_SOFTWARE_NAME,
        client_software_version=__version__,
        cluster_id=cluster_id if is_checked else None,
        node_id=node.id if is_checked else -1,
    )


def _older(version: int, offered: BrokerVersions) -> int:
    """The version to ask in next, always an older one: what the broker says it has, or 0, which all have."""
    has = offered.offered.get(ApiVersionsRequest.api_key)
    return has.max_version if has is not None and 0 <= has.max_version < version else 0


HandshakeStep: TypeAlias = Callable[[Handshake], Awaitable[None]]

HANDSHAKE: Mapping[str, HandshakeStep] = {"TLS": start_tls, "version": negotiate_versions, "SASL": authenticate}
"""All steps by name, in the order they are taken in. Another one is added here."""
