"""SaslHandshake (key 17): choose a SASL mechanism.

* 1 says that the exchange continues in SaslAuthenticate requests instead of bare frames (KIP-152).
"""

from __future__ import annotations

from kwire.protocol.schema import Array, Int16, Request, Response, String, field


class SaslHandshakeRequest(Request["SaslHandshakeResponse"], key=17, versions="0-1"):
    """The mechanism wanted."""

    mechanism: String = ""


class SaslHandshakeResponse(Response, to=SaslHandshakeRequest):
    """Agreed, or the mechanisms to choose from."""

    error_code: Int16 = 0
    mechanisms: Array[String] = field(default=[])
