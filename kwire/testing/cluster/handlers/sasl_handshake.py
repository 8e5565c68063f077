"""SaslHandshake: PLAIN, on clusters that have users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

PLAIN = "PLAIN"


async def handle(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    """Agreed, or what could be agreed on; then Kafka closes the connection."""
    if not call.cluster.settings.sasl_users:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    if request.mechanism != PLAIN:
        call.session.is_over = True
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[PLAIN])
    call.session.mechanism = PLAIN
    return SaslHandshakeResponse(mechanisms=[PLAIN])
