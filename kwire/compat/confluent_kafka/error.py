"""The exceptions of confluent-kafka's module of this name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kwire.compat import their_exceptions
from kwire.compat.confluent_kafka.kafka_error import KafkaError, KafkaException

if TYPE_CHECKING:
    from kwire.compat.confluent_kafka.values import Message

__all__ = ["ConsumeError", "KafkaError", "KafkaException", "KeyDeserializationError", "ValueDeserializationError"]


T = TypeVar("T", bound="ConsumeError")


def as_serialization_error(kind: type[T]) -> type[T]:
    """The class; if the program has imported confluent-kafka's `SerializationError`, a subclass of both."""
    return their_exceptions.as_theirs(kind, "confluent_kafka.serialization", "SerializationError")


class ConsumeError(KafkaException):
    """Raised by `DeserializingConsumer`. `exception` is the cause, `kafka_message` the message that was read."""

    def __init__(
        self, kafka_error: KafkaError, exception: Exception | None = None, kafka_message: Message | None = None
    ) -> None:
        super().__init__(kafka_error)
        self.exception = exception
        self.kafka_message = kafka_message

    @property
    def code(self) -> int:
        return self._error.code()

    @property
    def name(self) -> str:
        return self._error.name()

    @property
    def _error(self) -> KafkaError:
        error: KafkaError = self.args[0]
        return error


class KeyDeserializationError(ConsumeError):
    """A key could not be deserialized; its bytes are in `kafka_message`."""

    def __init__(self, exception: Exception | None = None, kafka_message: Message | None = None) -> None:
        super().__init__(KafkaError(KafkaError._KEY_DESERIALIZATION, str(exception)), exception, kafka_message)


class ValueDeserializationError(ConsumeError):
    """A value could not be deserialized; its bytes are in `kafka_message`."""

    def __init__(self, exception: Exception | None = None, kafka_message: Message | None = None) -> None:
        super().__init__(KafkaError(KafkaError._VALUE_DESERIALIZATION, str(exception)), exception, kafka_message)
