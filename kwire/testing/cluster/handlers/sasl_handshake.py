"""SaslHandshake: the choice of the mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call


async def handle(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    """Accept the mechanism, or list those that are offered; refused without SASL."""
    authentication = call.session.authentication
    if authentication is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return authentication.handshake(request.mechanism, call.version)
