"""`key_deserializer` and `value_deserializer`: callables on bytes, or objects that want to see more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

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


# A properties file of the Java client most often names one of these.
_JAVA_CLASSES: dict[str, AnyDeserializer | None] = {
    "org.apache.kafka.common.serialization.StringDeserializer": decode_text,
    "org.apache.kafka.common.serialization.ByteArrayDeserializer": None,
}


def deserializer() -> Parser[AnyDeserializer | None]:
    return Parser(_read, VALID)


def _read(value: object) -> AnyDeserializer | None:
    if value is None:
        return None
    if isinstance(value, str):
        if value.strip() not in _JAVA_CLASSES:
            raise BadValueError("no class of that name is known to kwire")
        return _JAVA_CLASSES[value.strip()]
    if isinstance(value, type) and hasattr(value, "deserialize"):
        raise BadValueError("a class; give an object of it")
    if isinstance(value, Deserializer) or callable(value):
        return value
    raise BadValueError("cannot deserialize")
