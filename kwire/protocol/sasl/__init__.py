"""SASL: how the client proves who it is. Bytes in, bytes out; `exchange_for` chooses the mechanism.

What the client says goes out in SaslAuthenticate requests, and what the broker answers comes in with their responses
(KIP-152). The connection does both; nothing here knows of requests, and chance comes in as a nonce.
"""

from __future__ import annotations

from kwire.protocol.sasl.choice import exchange_for
from kwire.protocol.sasl.exchange import SaslExchange
from kwire.protocol.sasl.oauthbearer import OAuthBearerExchange
from kwire.protocol.sasl.plain import PlainExchange
from kwire.protocol.sasl.scram import ScramExchange
from kwire.protocol.sasl.scram_keys import ScramKeyCache

__all__ = [
    "OAuthBearerExchange",
    "PlainExchange",
    "SaslExchange",
    "ScramExchange",
    "ScramKeyCache",
    "exchange_for",
]
