"""The headers between a frame's length and its message.

* RequestHeader: 1 is the plain one; 2 is flexible (KIP-482) but keeps the old length of the client id, because a broker
  has to read the header of an ApiVersions request whose version it does not know.
* ResponseHeader: 0 is the plain one; 1 is flexible.
"""

from __future__ import annotations

from kwire.protocol.schema import Int16, Int32, Message, NullableString, field


class RequestHeader(Message, versions="1-2", flexible="2+"):
    """What comes before every request."""

    request_api_key: Int16 = 0
    request_api_version: Int16 = 0
    correlation_id: Int32 = 0
    client_id: NullableString = field(default="", compact=False)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """What comes before every response."""

    correlation_id: Int32 = 0
