"""`key_deserializer` and `value_deserializer`: callables on bytes, or objects that want to see more."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable
from uuid import UUID

from kwire.config.parsers import BadValueError, Parser
from kwire.model import Header

VALID = "a callable that takes bytes, an object with deserialize(topic, headers, data), or None for bytes"

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Deserializer(Protocol[T_co]):
    """A deserializer that wants to see topic and headers, and nulls."""

    def deserialize(self, topic: str, headers: tuple[Header, ...], data: bytes | None) -> T_co | None:
        """The key or value for `data`, which is None for a null."""


# A plain callable gets bytes only: a null stays None and it is not called.
Deserialize: TypeAlias = Callable[[bytes], T] | Deserializer[T]
AnyDeserializer: TypeAlias = Deserialize[object]


def decode_text(data: bytes) -> str:
    """UTF-8, as Java's StringDeserializer."""
    return data.decode()


def _number(form: str) -> Callable[[bytes], int | float]:
    """Big-endian and of exactly this length, as Java's deserializers have it."""
    layout = struct.Struct(form)

    def decode_number(data: bytes) -> int | float:
        number: int | float = layout.unpack(data)[0]
        return number

    return decode_number


def decode_boolean(data: bytes) -> bool:
    """One byte, 0 or 1, as Java's BooleanDeserializer."""
    if data not in (b"\0", b"\1"):
        raise ValueError(f"a boolean is one byte, 0 or 1, not {data!r}")
    return data == b"\1"


def decode_uuid(data: bytes) -> UUID:
    """As text, as Java's UUIDDeserializer."""
    return UUID(data.decode())


_JAVA_PACKAGE = "org.apache.kafka.common.serialization."
# By the name that a properties file of the Java client gives. None leaves bytes.
_JAVA_CLASSES: dict[str, AnyDeserializer | None] = {
    f"{_JAVA_PACKAGE}{name}Deserializer": decode
    for name, decode in {
        "String": decode_text,
        "ByteArray": None,
        "ByteBuffer": None,
        "Bytes": None,
        "Boolean": decode_boolean,
        "Double": _number(">d"),
        "Float": _number(">f"),
        "Integer": _number(">i"),
        "Long": _number(">q"),
        "Short": _number(">h"),
        "UUID": decode_uuid,
        "Void": None,
    }.items()
}


def deserializer() -> Parser[AnyDeserializer | None]:
    return Parser(_read, VALID)


def _read(value: object) -> AnyDeserializer | None:
    if value is None:
        return None
    if isinstance(value, str):
        if value.strip() not in _JAVA_CLASSES:
            raise BadValueError(
                "a class of Java's that kwire does not have; give a Python function that takes bytes, or one of "
                + ", ".join(name.removeprefix(_JAVA_PACKAGE) for name in _JAVA_CLASSES)
            )
        return _JAVA_CLASSES[value.strip()]
    if isinstance(value, type) and hasattr(value, "deserialize"):
        raise BadValueError("a class; give an object of it")
    if isinstance(value, Deserializer) or callable(value):
        return value
    raise BadValueError("cannot deserialize")
