"""Deserializers, for `key_deserializer` and `value_deserializer`, and for the columns of `Records.to_arrow`.

Names are those of Java's and confluent-kafka's classes. Those of a schema registry load its client when they are made.
"""

from __future__ import annotations

from kwire.deserializers.avro import AvroDeserializer
from kwire.deserializers.java_values import (
    BooleanDeserializer,
    BytesDeserializer,
    DoubleDeserializer,
    FloatDeserializer,
    IntegerDeserializer,
    LongDeserializer,
    ShortDeserializer,
    StringDeserializer,
    UUIDDeserializer,
)
from kwire.deserializers.json_schema import JsonSchemaDeserializer
from kwire.deserializers.json_values import JsonDeserializer, JsonValue
from kwire.deserializers.protobuf import ProtobufDeserializer
from kwire.serialization_context import SerializationContext

__all__ = [
    "AvroDeserializer",
    "BooleanDeserializer",
    "BytesDeserializer",
    "DoubleDeserializer",
    "FloatDeserializer",
    "IntegerDeserializer",
    "JsonDeserializer",
    "JsonSchemaDeserializer",
    "JsonValue",
    "LongDeserializer",
    "ProtobufDeserializer",
    "SerializationContext",
    "ShortDeserializer",
    "StringDeserializer",
    "UUIDDeserializer",
]
