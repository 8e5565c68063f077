"""`DeserializingConsumer` as confluent-kafka has it: messages one by one, with what its deserializers make of them.

They are called for each message when it is polled, as there, so that one that fails is told with its message, and the
next poll goes on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from kwire.compat.confluent_kafka.consumer import Consumer
from kwire.compat.confluent_kafka.error import ConsumeError, KeyDeserializationError, ValueDeserializationError
from kwire.compat.confluent_kafka.values import Message
from kwire.model import Header
from kwire.serialization_context import Field, SerializationContext

__all__ = ["DeserializingConsumer"]

Deserialize: TypeAlias = Callable[[bytes | None, SerializationContext], object]


class DeserializingConsumer(Consumer):
    """A consumer of one dictionary of settings, `key.deserializer` and `value.deserializer` among them. See
    confluent_kafka.DeserializingConsumer."""

    def __init__(self, conf: Mapping[str, object]) -> None:
        given = dict(conf)
        self._key_deserializer = cast("Deserialize | None", given.pop("key.deserializer", None))
        self._value_deserializer = cast("Deserialize | None", given.pop("value.deserializer", None))
        super().__init__(given)

    def poll(self, timeout: float | None = -1) -> Message | None:
        """One message, or None when `timeout` seconds are over. Raises what is an error, a `ConsumeError`."""
        message = super().poll(timeout)
        if message is None:
            return None
        if (error := message.error()) is not None:
            raise ConsumeError(error, kafka_message=message)
        try:
            key = _made(self._key_deserializer, "key", message.key(), message)
        except Exception as error:
            raise KeyDeserializationError(error, message) from error
        try:
            value = _made(self._value_deserializer, "value", message.value(), message)
        except Exception as error:
            raise ValueDeserializationError(error, message) from error
        message.set_key(key)
        message.set_value(value)
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Not there, as it is not in confluent-kafka."""
        raise NotImplementedError


def _made(deserialize: Deserialize | None, field: Field, data: bytes | None, message: Message) -> object:
    if deserialize is None:
        return data
    headers: Sequence[tuple[str, bytes | None]] = message.headers() or ()
    return deserialize(data, SerializationContext(message.topic() or "", field, [Header(*each) for each in headers]))
