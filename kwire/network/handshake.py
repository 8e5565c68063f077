"""What a connection does after TCP is connected and before the first request of the client: the steps of `HANDSHAKE`.

A step is a coroutine. It may ask the broker something and wait for the answer (`Handshake.ask`), and it may put another
stream in the place of the one there is. So TLS is a step in front of the versions, SASL one behind them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, TypeVar, cast

from kwire.errors import DisconnectError, ProtocolError
from kwire.model import Node
from kwire.network.transport import ByteStream
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.framing import Framing
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.registry import BrokerVersions
from kwire.protocol.schema import Message, Request
from kwire.version import __version__

CLIENT_SOFTWARE_NAME = "kwire"

R = TypeVar("R", bound=Message)


class Handshake:
    """One connection that is not ready yet, as its steps see it.

    Attributes:
        stream: what is sent and received over.
        versions: what the broker speaks, once it has said so.
        step: the name of the step that is under way, for errors.
        asked: the API whose answer is waited for, for errors.
    """

    def __init__(self, node: Node, stream: ByteStream, framing: Framing) -> None:
        self.node = node
        self.stream = stream
        self.versions = BrokerVersions({})
        self.step = ""
        self.asked = ""
        self._framing = framing

    async def run(self) -> None:
        """Take all steps, in their order."""
        for self.step, take in HANDSHAKE.items():
            await take(self)

    async def ask(self, request: Request[R], version: int) -> R:
        """Send the request and wait for its answer."""
        self.asked = type(request).__name__.removesuffix("Request")
        await self.stream.send_all(self._framing.send(request, version))
        return cast("R", await self._one_answer())  # the framing decodes what the request is answered by

    async def _one_answer(self) -> Message:
        while True:
            received = await self.stream.receive_into(self._framing.writable_buffer(), self._framing.missing_bytes)
            if received == 0:
                raise DisconnectError(f"it hung up during the {self.step} handshake")
            for answer in self._framing.received(received):
                return answer.response


async def negotiate_versions(handshake: Handshake) -> None:
    """KIP-511: ask in our newest version; a broker that does not know it answers in v0 which ones it does."""
    request = ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=__version__)
    version = ApiVersionsRequest.max_version
    while True:
        answer = await handshake.ask(request, version)
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            handshake.versions = BrokerVersions.from_response(answer)
            return
        if code is not ErrorCode.UNSUPPORTED_VERSION or version == 0:
            raise ProtocolError(f"broker {handshake.node} refuses ApiVersions v{version}: {code.name}")
        version = 0


HandshakeStep: TypeAlias = Callable[[Handshake], Awaitable[None]]

HANDSHAKE: Mapping[str, HandshakeStep] = {"version": negotiate_versions}
"""All steps by name, in the order they are taken in. Another one is added here."""
