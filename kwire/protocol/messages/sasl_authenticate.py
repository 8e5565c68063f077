"""SaslAuthenticate (key 36): one step of a SASL exchange.

* 1 adds the session's lifetime (KIP-368); 2 is flexible.
"""

from __future__ import annotations

from kwire.protocol.schema import Bytes, Int16, Int64, NullableString, Request, Response, field


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], key=36, versions="0-2", flexible="2+"):
    """What the mechanism wants to tell the broker. PLAIN's is the password, so `repr` does not show it."""

    auth_bytes: Bytes = b""

    def __repr__(self) -> str:
        return f"SaslAuthenticateRequest(auth_bytes=<{len(self.auth_bytes)} bytes>)"


class SaslAuthenticateResponse(Response, to=SaslAuthenticateRequest):
    """What the broker tells the mechanism, or why not."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = field("1+", default=0, ignorable=True)
