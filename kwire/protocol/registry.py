"""Which messages there are, and which version of each a broker and this client share.

A message is registered by being declared: every module in `kwire.protocol.messages` is looked through on first use.
`BrokerVersions` is what the network client asks before it encodes a request; `encode` and `decode` take messages by
name, for tools, tests and the in-process broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from kwire.errors import InvalidArgumentError, UnsupportedVersionError
from kwire.protocol import messages
from kwire.protocol.compiler import decode_message, encode_message
from kwire.protocol.plain import from_plain
from kwire.protocol.schema import Message, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.protocol.messages.api_versions import ApiVersionsResponse


@cache
def message_classes() -> Mapping[str, type[Message]]:
    """Every declared message by name, headers and consumer protocol included."""
    modules = (import_module(f"{messages.__name__}.{info.name}") for info in iter_modules(messages.__path__))
    declared = (thing for module in modules for thing in vars(module).values() if isinstance(thing, type))
    return {cls.__name__: cls for cls in declared if issubclass(cls, Message) and cls.versions}


@cache
def request_classes() -> Mapping[int, type[Request[Message]]]:
    """Every declared request by API key."""
    return {cls.api_key: cls for cls in message_classes().values() if issubclass(cls, Request)}


def message_class(name: str) -> type[Message]:
    """The message of that name, as in "FetchRequest".

    Raises:
        InvalidArgumentError: There is none.
    """
    known = message_classes()
    if name not in known:
        near = _near(name, known)
        raise InvalidArgumentError(f"no message is called {name!r}" + (f"; did you mean {near}?" if near else ""))
    return known[name]


def _near(name: str, known: Mapping[str, type[Message]]) -> str:
    """What was meant; people say "Fetch" for either of its messages."""
    lower = name.lower()
    pair = [each for each in known if each.lower() in (lower, f"{lower}request", f"{lower}response")]
    return " or ".join(sorted(pair) or get_close_matches(name, known, n=1))


def request_class(api_key: int) -> type[Request[Message]]:
    """The request with that API key.

    Raises:
        UnsupportedVersionError: kwire does not know the API.
    """
    known = request_classes()
    if api_key not in known:
        raise UnsupportedVersionError(f"kwire has no API with key {api_key}; it has {sorted(known)}")
    return known[api_key]


def encode(name: str, version: int, fields: Message | Mapping[str, object]) -> bytes:
    """The bytes of a message, without frame and header.

    Args:
        name: The message's name, as in "FetchRequest".
        version: The version to write.
        fields: The message, or its fields as (nested) dictionaries; what is left out has its default.

    Raises:
        InvalidArgumentError: There is no such message, or no such field.
        ProtocolError: A value does not fit its field.
        UnsupportedVersionError: There is no such version, or it lacks a field that was given a value.
    """
    cls = message_class(name)
    message = fields if isinstance(fields, Message) else from_plain(cls, fields)
    if type(message) is not cls:
        raise InvalidArgumentError(f"{name} was asked for, but a {type(message).__name__} was given")
    return encode_message(message, version)


def decode(name: str, version: int, data: bytes | bytearray | memoryview) -> Message:
    """The message in `data`, without frame and header; `.to_dict()` shows its fields.

    Raises:
        InvalidArgumentError: There is no such message.
        ProtocolError: The bytes do not follow the protocol.
        UnsupportedVersionError: There is no such version.
    """
    return decode_message(message_class(name), version, data)


@dataclass(frozen=True, slots=True)
class ApiRange:
    """The versions of one API, both ends included."""

    min_version: int
    max_version: int

    def __str__(self) -> str:
        return f"{self.min_version} to {self.max_version}"


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """What one broker offers, by API key. Kafka 2.1 to 4.4 overlap with kwire in everything it needs (KIP-896)."""

    offered: Mapping[int, ApiRange]

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> BrokerVersions:
        """Read a broker's answer. With error 35 it holds at most the versions of ApiVersions itself (KIP-511)."""
        return cls({api.api_key: ApiRange(api.min_version, api.max_version) for api in response.api_keys})

    def supports(self, request: type[Request[Message]], version: int) -> bool:
        """Whether the broker takes this version."""
        offered = self.offered.get(request.api_key)
        return offered is not None and offered.min_version <= version <= offered.max_version

    def pick(
        self, request: type[Request[Message]], *, min_version: int | None = None, max_version: int | None = None
    ) -> int:
        """The highest version that both sides have.

        Args:
            request: The kind of request.
            min_version: Nothing below this will do.
            max_version: Nothing above this will do.

        Raises:
            UnsupportedVersionError: There is no such version.
        """
        lowest = max(request.min_version, request.min_version if min_version is None else min_version)
        highest = min(request.max_version, request.max_version if max_version is None else max_version)
        offered = self.offered.get(request.api_key)
        if offered is not None and max(lowest, offered.min_version) <= min(highest, offered.max_version):
            return min(highest, offered.max_version)
        api = f"{request.__name__.removesuffix('Request')} (API key {request.api_key})"
        wanted = ApiRange(lowest, highest)
        if offered is None:
            raise UnsupportedVersionError(f"the broker does not offer {api}; kwire wants versions {wanted}")
        raise UnsupportedVersionError(f"the broker offers {api} in versions {offered}, but kwire wants {wanted}")
