"""SaslAuthenticate: PLAIN's one step, a name and a password (RFC 4616)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

PARTS = 3
"""Whom to act for, who one is, the password."""

NOT_NOW = "SaslAuthenticate request received after successful authentication"
WRONG = "Authentication failed: Invalid username or password"


async def handle(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    """Who passes is the connection's principal; who does not is sent away."""
    if call.session.mechanism is None:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=NOT_NOW)
    call.session.mechanism = None
    parts = request.auth_bytes.decode(errors="replace").split("\0")
    if len(parts) != PARTS or (parts[1], parts[2]) not in call.cluster.settings.sasl_users:
        call.session.is_over = True
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=WRONG)
    call.session.principal = f"User:{parts[1]}"
    call.session.is_authenticated = True
    return SaslAuthenticateResponse(error_message=None)
