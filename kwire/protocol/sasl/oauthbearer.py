"""OAUTHBEARER: a token that a login server has given (RFC 7628), with Kafka's extensions (KIP-342)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from kwire.config.secret import Secret
from kwire.errors import SaslAuthenticationError
from kwire.protocol.sasl.exchange import SteppedExchange, Steps, shown

MECHANISM = "OAUTHBEARER"
SEPARATOR = "\x01"
GOT_THE_ERROR = b"\x01"

# RFC 6750, section 2.1: b64token.
_TOKEN = re.compile(r"[-._~+/A-Za-z0-9]+=*")
# RFC 7628, section 3.1: key and value. Brokers refuse others without saying which.
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x20-\x7e\t\r\n]+")
_RESERVED_NAME = "auth"
_ERROR_FIELDS = ("status", "scope", "openid-configuration")


class OAuthBearerExchange(SteppedExchange):
    """An exchange of one step. A broker that refuses says why in a message, which this client acknowledges.

    Args:
        token: The token. Neither `repr` nor any error shows it.
        extensions: What brokers are told beside it; names are letters only.
    """

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self._token = Secret(token)
        del token  # the locals of a traceback do not show it
        super().__init__(MECHANISM, _steps(self._token, dict(extensions or {})))
        _check_token(self._token)
        for name, value in (extensions or {}).items():
            _check_extension(name, value)

    def answer(self, challenge: bytes) -> bytes | None:
        message = super().answer(challenge)
        if message == GOT_THE_ERROR:
            self.server_error = _server_error(challenge, self._token)
        return message


def _steps(token: Secret, extensions: Mapping[str, str]) -> Steps:
    pairs = "".join(f"{SEPARATOR}{name}={value}" for name, value in extensions.items())
    error = yield f"n,,{SEPARATOR}auth=Bearer {token.reveal()}{pairs}{SEPARATOR}{SEPARATOR}".encode()
    if error:
        yield GOT_THE_ERROR
        raise SaslAuthenticationError(f"{MECHANISM}: the broker refuses the token: {_server_error(error, token)}")


def _check_token(token: Secret) -> None:
    if not token.reveal():
        raise SaslAuthenticationError(f"{MECHANISM}: the token is empty")
    if not _TOKEN.fullmatch(token.reveal()):
        raise SaslAuthenticationError(
            f"{MECHANISM}: the token has characters that tokens do not have; give the token alone, without the word "
            "Bearer, quotation marks or a line's end"
        )


def _check_extension(name: str, value: str) -> None:
    if name == _RESERVED_NAME:
        raise SaslAuthenticationError(f"{MECHANISM}: no SASL extension may be called auth: the token itself is")
    if not _EXTENSION_NAME.fullmatch(name):
        raise SaslAuthenticationError(f"{MECHANISM}: the SASL extension {name!r} has to have a name of letters alone")
    if not _EXTENSION_VALUE.fullmatch(value):
        raise SaslAuthenticationError(
            f"{MECHANISM}: the value of the SASL extension {name} is empty or has characters other than printable ASCII"
        )


def _server_error(message: bytes, token: Secret) -> str:
    """What the broker's JSON says, or its text if that is none. Should it repeat the token, that is taken out."""
    text = message.decode(errors="replace").replace(token.reveal(), "<token>")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return shown(text)
    if not isinstance(fields, dict):
        return shown(text)
    told = [f"{name} {fields[name]}" for name in _ERROR_FIELDS if isinstance(fields.get(name), str) and fields[name]]
    return shown(", ".join(told) or text)
