"""Protobuf, in the frame of a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from kwire.deserializers.registry import Registry, RegistryDeserializer, client_of, raise_missing

if TYPE_CHECKING:
    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)
else:
    M = TypeVar("M")


class ProtobufDeserializer(RegistryDeserializer[M]):
    """Messages of one class, as Confluent's serializers write them.

    Args:
        message_type: The class that protoc made.
        registry: As of `AvroDeserializer`; None asks no registry, since messages are read without it.
        config: More settings of confluent-kafka's deserializer.

    Raises:
        ImportError: confluent-kafka or protobuf is missing; both come with `kwire[protobuf]`.
    """

    def __init__(
        self, message_type: type[M], registry: Registry | None = None, *, config: Mapping[str, object] | None = None
    ) -> None:
        try:
            from confluent_kafka.schema_registry import protobuf
        except ImportError as error:
            raise_missing("protobuf", error)
        client = None if registry is None else client_of(registry, self)
        super().__init__(
            protobuf.ProtobufDeserializer(message_type, conf=dict(config or {}), schema_registry_client=client), client
        )
