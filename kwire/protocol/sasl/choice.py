"""Chooses the exchange for a mechanism, and gives it what the client logs in with."""

from __future__ import annotations

from kwire.config.choices import SaslMechanism
from kwire.config.login import Login
from kwire.config.token_provider import OAuthToken
from kwire.errors import InternalError
from kwire.protocol.sasl.exchange import SaslExchange
from kwire.protocol.sasl.oauthbearer import OAuthBearerExchange
from kwire.protocol.sasl.plain import PlainExchange
from kwire.protocol.sasl.scram import ScramExchange
from kwire.protocol.sasl.scram_keys import ScramKeyCache


def exchange_for(
    mechanism: SaslMechanism,
    login: Login,
    *,
    nonce: str = "",
    keys: ScramKeyCache | None = None,
    token: OAuthToken | None = None,
) -> SaslExchange:
    """A new exchange; each authentication, and each one again (KIP-368), has its own.

    Args:
        mechanism: Which one. Not GSSAPI: it talks to a third party, so the network makes it.
        login: The credentials.
        nonce: For SCRAM: a random text, never used before.
        keys: For SCRAM: where this client's derived keys are kept.
        token: For OAUTHBEARER: a token that is valid now. Its own extensions win over the login's.

    Raises:
        AuthenticationError: the credentials cannot be sent by this mechanism.
    """
    if mechanism is SaslMechanism.OAUTHBEARER and token is not None:
        return OAuthBearerExchange(token.value, {**login.extensions, **token.extensions})
    if mechanism.takes_password and login.password is not None:
        if mechanism is SaslMechanism.PLAIN:
            return PlainExchange(login.username, login.password)
        extensions = {"tokenauth": "true"} if login.is_delegation_token else {}
        return ScramExchange(mechanism, login.username, login.password, nonce=nonce, keys=keys, extensions=extensions)
    raise InternalError(f"there is no exchange for {mechanism.value} with what is given")
