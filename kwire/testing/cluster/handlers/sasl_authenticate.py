"""SaslAuthenticate: one step of a mechanism's exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.testing.cluster.authentication import NOT_NOW

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call


async def handle(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    """The mechanism's answer; refused without SASL."""
    authentication = call.session.authentication
    if authentication is None:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=NOT_NOW)
    return authentication.authenticate(request.auth_bytes)
