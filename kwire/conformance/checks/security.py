"""SaslHandshake and SaslAuthenticate where no authentication is configured: understood, and refused.

The suite connects in plain text, so it cannot see how a broker authenticates; that is for a suite with credentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.conformance.expectations import expect_error
from kwire.conformance.registry import check
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker


@check(SaslHandshakeRequest)
def refuses_a_handshake_in_plain_text(broker: JudgedBroker, version: int) -> None:
    code = broker.ask(SaslHandshakeRequest(mechanism="PLAIN"), version).error_code
    expect_error(code, ErrorCode.ILLEGAL_SASL_STATE, what="a handshake on a listener without SASL")


@check(SaslAuthenticateRequest)
def refuses_to_authenticate_in_plain_text(broker: JudgedBroker, version: int) -> None:
    code = broker.ask(SaslAuthenticateRequest(auth_bytes=b"\0user\0password"), version).error_code
    expect_error(code, ErrorCode.ILLEGAL_SASL_STATE, what="SaslAuthenticate on a listener without SASL")
