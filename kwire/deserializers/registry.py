"""What the deserializers of a schema registry share: confluent-kafka's client and deserializer, plugged in.

Contract: schemas are asked for on the thread that deserializes, the application's, and once each: confluent-kafka's
client keeps them. The frame is looked at first, so that bytes without one are never blamed on the registry.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit
from uuid import UUID

from kwire.root_errors import InvalidArgumentError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    from kwire.serialization_context import SerializationContext

T = TypeVar("T")

Registry: TypeAlias = "str | Mapping[str, object] | SchemaRegistryClient"
"""An address, a dictionary of confluent-kafka's settings (`url`, `basic.auth.user.info`, ...), or its client."""

FRAME_BYTES = 5
MAGIC = 0
# Schemas by a UUID in place of a number: of sixteen bytes behind a one, or in a header.
MAGIC_OF_UUID = 1
UUID_FRAME_BYTES = 17
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
# Where confluent-kafka's client looks for authorities, if its settings name none.
_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
# Numbers of schemas are Java's integers, from one on.
MAX_SCHEMA = 2**31 - 1
ID_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}

# How long a registry has for an answer, unless the settings say otherwise. Without a limit, confluent-kafka's client
# waits for ever, and a poll with it.
ANSWERED_WITHIN_S = 10


class FrameError(ValueError):
    """Bytes that no serializer of a schema registry has written."""


class RegistryDeserializer(Generic[T]):
    """The base class: looks at the frame, then calls confluent-kafka's deserializer."""

    def __init__(
        self, deserialize: Callable[[bytes, object], object], client: SchemaRegistryClient | None = None
    ) -> None:
        self._deserialize = deserialize
        self._registry = client  # as confluent-kafka's own classes call it

    def __call__(self, data: bytes, ctx: SerializationContext) -> T:
        check_frame(data, ctx)
        return cast("T", self._deserialize(data, ctx))


def check_frame(data: bytes, ctx: SerializationContext) -> None:
    """Raises: FrameError, if there is none in front, nor in a header."""
    if (named := named_by_header(ctx)) is not None:
        least = _least_bytes(named)
        if least is None or len(named) < least:
            raise FrameError(f"the header {ID_HEADERS[ctx.field]} names no schema: it is {named[:20]!r}")
        _check_number(named, f"the header {ID_HEADERS[ctx.field]}")
        return
    least = _least_bytes(data)
    if least is not None and len(data) >= least:
        _check_number(data, "its frame")
        return
    if least is not None:
        raise FrameError(f"{len(data)} bytes are too few for the frame of a schema registry, which has {least}")
    begins = f"begins with 0x{data[0]:02x}" if data else "is empty"
    raise FrameError(
        f"it has no frame of a schema registry, a zero and four bytes with the schema's number: it {begins}"
        f"{_guess(data)}"
    )


def _check_number(frame: bytes, what: str) -> None:
    """Bytes that begin with a zero by chance: a registry may answer such a number as it answers a wrong address."""
    number = int.from_bytes(frame[1:FRAME_BYTES], "big")
    if frame[0] == MAGIC and number > MAX_SCHEMA:
        raise FrameError(no_such_number(what, number))


def no_such_number(what: str, number: int) -> str:
    return f"{what} names schema {number}, and no registry has so high a number"


def named_by_header(ctx: SerializationContext) -> bytes | None:
    """What the header says that names the schema; None if there is none, or a null, which confluent-kafka passes by."""
    return next((value for name, value in ctx.headers if name == ID_HEADERS[ctx.field]), None)


def _least_bytes(frame: bytes) -> int | None:
    """How long a frame that begins so is at least; None if none begins so."""
    return {MAGIC: FRAME_BYTES, MAGIC_OF_UUID: UUID_FRAME_BYTES}.get(frame[0] if frame else -1)


def _guess(data: bytes) -> str:
    if data[:1] in (b"{", b"["):
        return " (plain JSON, which JsonDeserializer reads?)"
    if data and all(32 <= byte < 127 for byte in data[:64]):
        return " (plain text, which StringDeserializer reads?)"
    return " (encrypted, or of another serializer?)"


class Asked(NamedTuple):
    """What a registry was asked for: its address, without a password, and which schema; empty if that is unknown."""

    address: str = ""
    schema: str = ""


NOBODY = Asked()


def asked_by(deserialize: object, data: bytes | None, ctx: SerializationContext) -> Asked:
    """What a deserializer asks for to read these bytes."""
    return Asked(_address_of(deserialize), _schema_of(data or b"", ctx))


def _address_of(deserialize: object) -> str:
    """Where a deserializer asks, without a password; empty if it asks nobody, or does not say."""
    found: object = None
    with suppress(Exception):  # of a user's own class that has such names; an error is being told here
        found = getattr(deserialize, "_registry").config()  # noqa: B009  no type has it
    urls = found.get("url") if isinstance(found, Mapping) else None
    return ",".join(map(without_password, urls.split(","))) if isinstance(urls, str) else ""


def without_password(url: str) -> str:
    """A URL as it may be told: without a user, and without what a page to log in gets as a query. Empty of what is no
    URL."""
    with suppress(ValueError):
        parts = urlsplit(url.strip())
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    return ""


def _schema_of(data: bytes, ctx: SerializationContext) -> str:
    """The number or the UUID of the schema, as a frame has it."""
    frame = named_by_header(ctx) or data
    if frame[:1] == bytes([MAGIC]):
        return str(int.from_bytes(frame[1:FRAME_BYTES], "big"))
    if frame[:1] == bytes([MAGIC_OF_UUID]) and len(frame) >= UUID_FRAME_BYTES:
        return str(UUID(bytes=bytes(frame[1:UUID_FRAME_BYTES])))
    return ""


def client_of(registry: Registry, owner: object) -> SchemaRegistryClient:
    """confluent-kafka's client of a registry. One that is made here is closed when its owner is gone."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    if isinstance(registry, str):
        registry = {"url": registry}
    if isinstance(registry, Mapping):
        try:
            client = SchemaRegistryClient({"timeout": ANSWERED_WITHIN_S, **registry})
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"the settings of the schema registry: {error}") from error
        except OSError as error:  # of TLS as well: files that hold something else
            raise InvalidArgumentError(f"the settings of the schema registry: {_files(registry)}: {error}") from error
        weakref.finalize(owner, client.close)
        return client
    return registry


def _files(settings: Mapping[str, object]) -> str:
    """The settings, and the variables of the environment, that name files: those that are not there, or else all."""
    named = {name: str(settings[name]) for name in _FILES if settings.get(name)}
    if _FILES[0] not in named:
        named |= {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    missing = {name: path for name, path in named.items() if not Path(path).exists()}
    return ", ".join(f"{name} {path}" for name, path in (missing or named).items()) or "TLS"


def raise_missing(extra: str, error: ImportError) -> NoReturn:
    """Which extra brings what could not be imported."""
    raise ImportError(
        f"values of a schema registry need what is not there ({error}); install it with: pip install 'kwire[{extra}]'"
    ) from error
