"""`DeserializingConsumer` with confluent-kafka's API: it returns messages one by one, deserialized.

Deserializers are called for each message when it is polled, as in confluent-kafka: the error of one that fails names
its message, and the next poll goes on behind that message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Generic, Protocol, TypeAlias, cast

from kwire.compat.confluent_kafka.consumer import Consumer
from kwire.compat.confluent_kafka.error import (
    ConsumeError,
    KeyDeserializationError,
    ValueDeserializationError,
    as_serialization_error,
)
from kwire.compat.confluent_kafka.values import Message
from kwire.model import Header, K, V
from kwire.serialization_context import Field, SerializationContext

__all__ = ["DeserializingConsumer"]

Deserialize: TypeAlias = Callable[[bytes | None, SerializationContext], object]


_DESERIALIZERS = ("key.deserializer", "value.deserializer")


class Builder(Protocol):
    """The type of `key.deserializer.builder` and `value.deserializer.builder`, such as AvroDeserializerBuilder."""

    def build(self, conf: dict[str, object], is_key: bool) -> tuple[Deserialize, dict[str, object]]:
        """Make the deserializer. Returns it with the settings that it does not use."""


class DeserializingConsumer(Consumer, Generic[K, V]):
    """A consumer that deserializes, with the settings `key.deserializer` and `value.deserializer`. See
    confluent_kafka.DeserializingConsumer."""

    def __init__(self, conf: Mapping[str, object]) -> None:
        given = dict(conf)
        self._owned_serdes: list[object] = []  # has the name of confluent-kafka's attribute, for subclasses
        wanted = [(name, given.pop(name, None), given.pop(f"{name}.builder", None)) for name in _DESERIALIZERS]
        left = dict(given)
        made: list[Deserialize | None] = []
        for name, deserializer, builder in wanted:
            made.append(cast("Deserialize | None", deserializer))
            if builder is None:
                continue
            if deserializer is not None:
                raise ValueError(f"{name} and {name}.builder are both given; give one")
            made[-1], rest = cast("Builder", builder).build(dict(given), name == _DESERIALIZERS[0])
            self._owned_serdes.append(made[-1])
            left = {key: value for key, value in left.items() if key in rest}
        self._key_deserializer, self._value_deserializer = made
        super().__init__(left)

    def close(self) -> None:
        """Close the consumer, then the deserializers that a builder has made."""
        super().close()
        built, self._owned_serdes = self._owned_serdes, []
        for one in built:
            if callable(close := getattr(one, "close", None)):
                close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def poll(self, timeout: float | None = -1) -> Message | None:
        """Return one message, or None if there is none within `timeout` seconds. Raises `ConsumeError` for an error."""
        message = super().poll(timeout)
        if message is None:
            return None
        if (error := message.error()) is not None:
            raise ConsumeError(error, kafka_message=message)
        try:
            key = _made(self._key_deserializer, "key", message.key(), message)
        except Exception as error:
            raise as_serialization_error(KeyDeserializationError)(error, message) from error
        try:
            value = _made(self._value_deserializer, "value", message.value(), message)
        except Exception as error:
            raise as_serialization_error(ValueDeserializationError)(error, message) from error
        message.set_key(key)
        message.set_value(value)
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Not supported, as in confluent-kafka."""
        raise NotImplementedError


def _made(deserialize: Deserialize | None, field: Field, data: bytes | None, message: Message) -> object:
    if deserialize is None:
        return data
    headers: Sequence[tuple[str, bytes | None]] = message.headers() or ()
    return deserialize(data, SerializationContext(message.topic() or "", field, [Header(*each) for each in headers]))
