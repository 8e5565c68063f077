"""SCRAM's keys (RFC 5802, section 3): what is made of a password, a salt and a count of iterations."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NoReturn

from kwire.config.secret import Secret
from kwire.protocol.sasl.exchange import utf8


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """The key the client proves that it has, and the one the server proves that it has."""

    client_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys are not pickled; they are as good as the password")


def derive_keys(mechanism: str, password: Secret, salt: bytes, iterations: int) -> ScramKeys:
    """Java's client takes the password as it is, in UTF-8: no SASLprep. So do the tools that store credentials."""
    hash_name = hash_of(mechanism)
    salted = hashlib.pbkdf2_hmac(hash_name, utf8(mechanism, "password", password), salt, iterations)
    return ScramKeys(hmac.digest(salted, b"Client Key", hash_name), hmac.digest(salted, b"Server Key", hash_name))


def hash_of(mechanism: str) -> str:
    """The name that `hashlib` has for the hash of a mechanism: sha256 for SCRAM-SHA-256."""
    return mechanism.removeprefix("SCRAM-").replace("-", "").lower()


class ScramKeyCache:
    """Keys that were derived, for the next connections of the same client: deriving them is slow on purpose.

    Every connection authenticates, and again before its session ends (KIP-368), on the thread that sends heartbeats.
    A user has one salt for each mechanism in the whole cluster, so a few entries are enough; the oldest one goes.
    """

    MAX_ENTRIES = 8

    def __init__(self) -> None:
        self._keys: OrderedDict[tuple[str, Secret, bytes, int], ScramKeys] = OrderedDict()

    def get(self, mechanism: str, password: Secret, salt: bytes, iterations: int) -> ScramKeys:
        """The keys, derived if they are not here."""
        place = (mechanism, password, salt, iterations)
        found = self._keys.get(place)
        if found is None:
            found = self._keys[place] = derive_keys(mechanism, password, salt, iterations)
            if len(self._keys) > self.MAX_ENTRIES:
                self._keys.popitem(last=False)
        return found
