"""SCRAM-SHA-256 and SCRAM-SHA-512: both sides prove that they know the password, and neither says it (RFC 5802, 7677).

client  n,,n=user,r=nonce
server  r=nonce and its own, s=salt, i=iterations
client  c=biws, r=both nonces, p=proof
server  v=signature, or e=error
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping

from kwire.config.choices import SaslMechanism
from kwire.config.secret import Secret
from kwire.errors import InternalError, SaslAuthenticationError
from kwire.protocol.sasl.exchange import SteppedExchange, Steps, shown, utf8
from kwire.protocol.sasl.scram_keys import ScramKeyCache, ScramKeys, hash_of

MIN_ITERATIONS = 4096
"""RFC 7677 and Java's client: fewer make a stolen exchange cheap to guess passwords with."""

MAX_ITERATIONS = 1_000_000
"""Kafka stores no credential with more than 16,384; elsewhere up to 600,000 are recommended. A million take 0.3 s with
SHA-256 and 0.7 s with SHA-512, far below any session timeout. A server that asks for more keeps the client busy."""

GS2_HEADER = "n,,"
"""No channel binding, nobody else is acted for."""

_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\0]+)*"
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[^,]*),i=(?P<iterations>[1-9][0-9]*){_EXTENSIONS}"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^,]+)|v=(?P<signature>[^,]+)){_EXTENSIONS}")
_MAX_DIGITS = 10


class ScramExchange(SteppedExchange):
    """An exchange of two steps, at the end of which the broker has proven that it knows the user, too.

    Args:
        mechanism: Which one, or its name: the hash is the last part of it.
        username: As the user writes it.
        password: What the keys are made of.
        nonce: A random text, new for each exchange: printable ASCII without commas, of at least 16 random bytes.
        keys: Where keys are looked up, and kept for the next exchange.
        extensions: What is said behind the nonce: `tokenauth=true` for a delegation token (KIP-48).
    """

    def __init__(
        self,
        mechanism: SaslMechanism | str,
        username: str,
        password: Secret,
        *,
        nonce: str,
        keys: ScramKeyCache | None = None,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        name = mechanism if isinstance(mechanism, str) else mechanism.value
        added = "".join(f",{key}={value}" for key, value in (extensions or {}).items())
        bare = f"n={_escaped(username)},r={nonce}{added}"
        cache = ScramKeyCache() if keys is None else keys
        super().__init__(name, _steps(name, bare, nonce, password, cache))
        if hash_of(name) not in hashlib.algorithms_available or not _NONCE.fullmatch(nonce):
            raise InternalError(f"no SCRAM exchange with the mechanism {name} and that nonce")
        if not username:
            raise SaslAuthenticationError(f"{name}: the user name may not be empty; set sasl_username")
        utf8(name, "user name", username)


def _steps(mechanism: str, client_first_bare: str, nonce: str, password: Secret, cache: ScramKeyCache) -> Steps:
    server_first = _text(mechanism, (yield (GS2_HEADER + client_first_bare).encode()))
    server_nonce, salt, iterations = _read_server_first(mechanism, server_first, nonce)
    keys = cache.get(mechanism, password, salt, iterations)
    client_final = f"c={b64encode(GS2_HEADER.encode()).decode()},r={server_nonce}"
    auth_message = f"{client_first_bare},{server_first},{client_final}".encode()
    server_final = _text(mechanism, (yield f"{client_final},p={_proof(mechanism, keys, auth_message)}".encode()))
    expected = hmac.digest(keys.server_key, auth_message, hash_of(mechanism))
    if not hmac.compare_digest(_read_server_final(mechanism, server_final), expected):
        raise SaslAuthenticationError(
            f"{mechanism}: the broker does not prove that it knows the password; it may be an impostor, so nothing is "
            "sent to it: check bootstrap_servers, and who answers there"
        )


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _proof(mechanism: str, keys: ScramKeys, auth_message: bytes) -> str:
    """The client key, XORed with a signature that takes the stored key to compute; in Base64 (RFC 5802, section 3)."""
    hash_name = hash_of(mechanism)
    stored_key = hashlib.new(hash_name, keys.client_key).digest()
    signature = hmac.digest(stored_key, auth_message, hash_name)
    return b64encode(bytes(one ^ other for one, other in zip(keys.client_key, signature, strict=True))).decode()


def _read_server_first(mechanism: str, message: str, nonce: str) -> tuple[str, bytes, int]:
    """The common nonce, the salt and the iterations."""
    if message.startswith("m="):
        raise SaslAuthenticationError(f"{mechanism}: the broker insists on an extension that kwire does not have")
    found = _SERVER_FIRST.fullmatch(message)
    if found is None:
        raise _malformed(mechanism, "its first one is not r=...,s=...,i=...")
    if not found["nonce"].startswith(nonce) or found["nonce"] == nonce:
        raise _malformed(mechanism, "it does not add to this client's nonce, so it may be an old one sent again")
    salt = _bytes(mechanism, found["salt"])
    if not salt:
        raise _malformed(mechanism, "the salt is empty")
    return found["nonce"], salt, _iterations(mechanism, found["iterations"])


def _iterations(mechanism: str, digits: str) -> int:
    iterations = int(digits[:_MAX_DIGITS])  # with that many it is too much in any case
    if iterations < MIN_ITERATIONS:
        raise SaslAuthenticationError(
            f"{mechanism}: the broker asks for {iterations} iterations, which is below the {MIN_ITERATIONS} that are "
            "safe; store the user's credentials anew with more"
        )
    if iterations > MAX_ITERATIONS:
        raise SaslAuthenticationError(
            f"{mechanism}: the broker asks for {iterations} iterations or more, above the limit of {MAX_ITERATIONS}, "
            "which would keep this client busy; store the user's credentials anew with fewer"
        )
    return iterations


def _read_server_final(mechanism: str, message: str) -> bytes:
    found = _SERVER_FINAL.fullmatch(message)
    if found is None:
        raise _malformed(mechanism, "its last one is neither v=... nor e=...")
    if found["error"] is not None:
        raise SaslAuthenticationError(
            f"{mechanism}: the broker refuses the credentials: {shown(found['error'])}; check user name and password, "
            "and that the user has credentials for this mechanism"
        )
    return _bytes(mechanism, found["signature"])


def _text(mechanism: str, message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise _malformed(mechanism, "it is not UTF-8") from None


def _bytes(mechanism: str, base64: str) -> bytes:
    try:
        return b64decode(base64, validate=True)
    except (Base64Error, ValueError):
        raise _malformed(mechanism, "a part of it is not Base64") from None


def _malformed(mechanism: str, reason: str) -> SaslAuthenticationError:
    return SaslAuthenticationError(f"{mechanism}: the broker's message does not follow the mechanism: {reason}")
