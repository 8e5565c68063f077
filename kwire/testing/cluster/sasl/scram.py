"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the password never crosses the wire, and both sides prove it.

Without channel binding, as everywhere in Kafka. The attribute letters of the messages are those of RFC 5802, 5.1.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass, field

from kwire.testing.cluster.sasl.exchange import AuthenticationRefusedError, Identity, Step
from kwire.testing.cluster.sasl.plain import OTHER_IDENTITY

DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4096
"""RFC 7677, 4; Kafka refuses credentials with fewer."""

# gs2-header ("n" alone: no client of Kafka's binds channels), then user name, nonce and extensions.
_FIRST = re.compile(
    r"(?P<gs2>n,(?:a=(?P<acts_for>[^,]+))?,)(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,.*)?)"
)
_FINAL = re.compile(r"(?P<unproved>c=(?P<gs2>[^,]+),r=(?P<nonce>[^,]+)(?:,.*)?),p=(?P<proof>[^,]+)")
_ESCAPE = re.compile(r"=(?!2C|3D)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a broker keeps of a password: enough to check a proof, not enough to make one."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, *, digest: str, salt: bytes, iterations: int) -> ScramCredential:
        """RFC 5802, 3. Like Kafka, passwords are taken as UTF-8 without SASLprep."""
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
        stored_key = hashlib.new(digest, _hmac(digest, salted, b"Client Key")).digest()
        server_key = _hmac(digest, salted, b"Server Key")
        return cls(salt=salt, iterations=iterations, stored_key=stored_key, server_key=server_key)


class ScramExchange:
    """SCRAM on the broker's side: client-first, server-first, client-final, server-final.

    Args:
        digest: The name of the hash.
        credential_of: The credential of a user; None if there is no such user.
        nonce: The broker's half of the nonce.
    """

    def __init__(self, digest: str, credential_of: Callable[[str], ScramCredential | None], nonce: str) -> None:
        self._digest = digest
        self._credential_of = credential_of
        self._nonce = nonce
        self._half: _HalfWay | None = None

    def step(self, data: bytes) -> Step:
        """As `Exchange`."""
        text = data.decode(errors="replace")
        if self._half is None:
            self._half = self._greeted(text)
            return Step(challenge=self._half.server_first.encode())
        return self._proved(self._half, text)

    def _greeted(self, text: str) -> _HalfWay:
        first = _FIRST.fullmatch(text)
        if first is None or _ESCAPE.search(first["name"]):
            raise AuthenticationRefusedError
        name = _unescaped(first["name"])
        credential = self._credential_of(name)
        if credential is None:
            raise AuthenticationRefusedError
        if first["acts_for"] is not None and _unescaped(first["acts_for"]) != name:
            raise AuthenticationRefusedError(OTHER_IDENTITY)
        nonce = first["nonce"] + self._nonce
        salt = b64encode(credential.salt).decode()
        server_first = f"r={nonce},s={salt},i={credential.iterations}"
        return _HalfWay(
            name=name,
            credential=credential,
            nonce=nonce,
            gs2=first["gs2"],
            bare=first["bare"],
            server_first=server_first,
        )

    def _proved(self, half: _HalfWay, text: str) -> Step:
        final = _FINAL.fullmatch(text)
        if final is None or final["nonce"] != half.nonce or _decoded(final["gs2"]) != half.gs2.encode():
            raise AuthenticationRefusedError
        signed = f"{half.bare},{half.server_first},{final['unproved']}".encode()
        signature = _hmac(self._digest, half.credential.stored_key, signed)
        proof = _decoded(final["proof"])
        if len(proof) != len(signature):
            raise AuthenticationRefusedError
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), half.credential.stored_key):
            raise AuthenticationRefusedError
        verifier = b64encode(_hmac(self._digest, half.credential.server_key, signed))
        return Step(challenge=b"v=" + verifier, identity=Identity(name=half.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class _HalfWay:
    """What both sides have said so far."""

    name: str
    credential: ScramCredential
    nonce: str
    gs2: str
    bare: str
    server_first: str


def _hmac(digest: str, key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, digest).digest()


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error as error:
        raise AuthenticationRefusedError from error
