"""PLAIN: a name and a password (RFC 4616)."""

from __future__ import annotations

from kwire.config.secret import Secret
from kwire.errors import SaslAuthenticationError
from kwire.protocol.sasl.exchange import SteppedExchange, Steps, utf8

MECHANISM = "PLAIN"
SEPARATOR = b"\0"


class PlainExchange(SteppedExchange):
    """An exchange of one step: the password itself goes to the broker, so the connection has to be TLS.

    What the broker says to it has no meaning in this mechanism, and is not looked at, as in other clients.
    """

    def __init__(self, username: str, password: Secret) -> None:
        super().__init__(MECHANISM, _steps(username, password))
        utf8(MECHANISM, "user name", username)
        if not username or not password.reveal():
            raise SaslAuthenticationError("PLAIN: user name and password may not be empty; no broker takes them")
        if "\0" in username or "\0" in password.reveal():
            raise SaslAuthenticationError("PLAIN: user name and password may not have the character NUL in them")


def _steps(username: str, password: Secret) -> Steps:
    # Nobody else is acted for: Java's client leaves the first part empty, too.
    yield SEPARATOR + utf8(MECHANISM, "user name", username) + SEPARATOR + utf8(MECHANISM, "password", password)
