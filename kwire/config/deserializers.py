"""`key_deserializer` and `value_deserializer`: callables on bytes, or objects that want to see more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from kwire.config.parsers import BadValueError, Parser, check_call
from kwire.model import Header
from kwire.serialization_context import SerializationContext, takes_context
from kwire.unfinished import is_coroutine

VALID = (
    "a callable that takes bytes, or bytes and ctx, such as those of kwire.deserializers; an object with "
    "deserialize(topic, headers, data); None for bytes"
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Deserializer(Protocol[T_co]):
    """A deserializer that wants to see topic and headers, and nulls."""

    def deserialize(self, topic: str, headers: tuple[Header, ...], data: bytes | None) -> T_co | None:
        """The key or value for `data`, which is None for a null."""


# A callable gets no nulls: a null stays None. One whose second parameter is called `ctx` gets a context as well.
Deserialize: TypeAlias = Callable[[bytes], T] | Callable[[bytes, SerializationContext], T] | Deserializer[T]
AnyDeserializer: TypeAlias = Deserialize[object]

_JAVA_PACKAGE = "org.apache.kafka.common.serialization."
# Names that a properties file of the Java client gives, and the classes of `kwire.deserializers`; None leaves bytes.
_JAVA_CLASSES: dict[str, str | None] = {
    f"{_JAVA_PACKAGE}{name}Deserializer": None if leaves_bytes else f"{name}Deserializer"
    for name, leaves_bytes in {
        "String": False,
        "ByteArray": True,
        "ByteBuffer": True,
        "Bytes": True,
        "Boolean": False,
        "Double": False,
        "Float": False,
        "Integer": False,
        "Long": False,
        "Short": False,
        "UUID": False,
        "Void": True,
    }.items()
}


def deserializer() -> Parser[AnyDeserializer | None]:
    return Parser(_read, VALID)


def _read(value: object) -> AnyDeserializer | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _by_name(value.strip())
    if is_class_of_deserializers(value):
        raise BadValueError("a class; give an object of it")
    if is_coroutine(value):
        raise BadValueError("its answer has to be awaited, and a poll decodes at once; give one that answers")
    if isinstance(value, Deserializer):
        check_call(value.deserialize, None, None, None, told="with (topic, headers, data)")
        return value
    if callable(value):
        if takes_context(value):
            check_call(value, None, None, told="with (bytes, ctx)")
        else:
            check_call(value, None, told="with (bytes)")
        return value
    raise BadValueError("cannot deserialize")


def is_class_of_deserializers(value: object) -> bool:
    """Whether this is a class whose objects deserialize, given in place of such an object. Calling it would make an
    object of each record's bytes, and raise no error if its constructor takes an argument."""
    if not isinstance(value, type):
        return False
    return hasattr(value, "deserialize") or any("__call__" in vars(each) for each in value.__mro__)


def _by_name(name: str) -> AnyDeserializer | None:
    if name in _JAVA_CLASSES:
        own = _JAVA_CLASSES[name]
        return None if own is None else _made(own)
    raise BadValueError(
        "a class of Java's that kwire does not have; give a Python function that takes bytes, or one of "
        + ", ".join(each.removeprefix(_JAVA_PACKAGE) for each in _JAVA_CLASSES)
    )


def _made(name: str) -> AnyDeserializer:
    from kwire import deserializers  # few name one, and it takes its time

    made: AnyDeserializer = getattr(deserializers, name)()
    return made
