"""Keys and values of a schema registry: Avro, JSON with a schema, Protobuf, by the deserializers of the library.

Errors are distinguished as in the library: invalid bytes, a registry that does not answer, and one that refuses the
request.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from kwire.cli.shown_values import BytesRecord, FormatSetup, ValueFormatError
from kwire.deserializers import AvroDeserializer, JsonSchemaDeserializer, ProtobufDeserializer, SerializationContext
from kwire.deserializers.failures import failure_of
from kwire.deserializers.registry import asked_by
from kwire.errors import ConfigError, InvalidArgumentError

if TYPE_CHECKING:
    from google.protobuf.message import Message

Decode: TypeAlias = Callable[[bytes, SerializationContext], object]


def decoder(name: str, setup: FormatSetup) -> Callable[[BytesRecord, bytes], object]:
    """The function that deserializes bytes.

    Raises:
        ConfigError: No registry is named where one is needed, a package is missing, or there is no such message.
    """
    try:
        deserialize = _deserializer(name, setup)
    except (ImportError, InvalidArgumentError) as error:
        raise ConfigError(f"--{setup.field}-format {name}: {error}") from error

    def decode(record: BytesRecord, data: bytes) -> object:
        context = SerializationContext(record.topic, setup.field, list(record.headers))
        try:
            return deserialize(data, context)
        except Exception as error:
            failure = failure_of(error, record.topic, asked_by(deserialize, data, context))
            raise ValueFormatError(failure.reason, failure.advice) from error

    return decode


def _deserializer(name: str, setup: FormatSetup) -> Decode:
    if name == "protobuf":
        return _protobuf(setup)
    if not setup.registry:
        raise ConfigError(f"--{setup.field}-format {name}: where is the schema registry? Say --schema-registry URL")
    made = AvroDeserializer(setup.registry) if name == "avro" else JsonSchemaDeserializer(setup.registry)
    return cast("Decode", made)


def _protobuf(setup: FormatSetup) -> Decode:
    """Messages as dictionaries, with the names of their fields."""
    module_name, _, class_name = (setup.protobuf or "").partition(":")
    if not class_name:
        raise ConfigError(f"--{setup.field}-format protobuf: which message? Say --protobuf MODULE:CLASS")
    parse: Decode = ProtobufDeserializer(_message_class(module_name, class_name))
    from google.protobuf.json_format import MessageToDict

    def decode(data: bytes, context: SerializationContext) -> object:
        return MessageToDict(cast("Message", parse(data, context)), preserving_proto_field_name=True)

    return decode


def _message_class(module_name: str, class_name: str) -> type[Message]:
    """Raises: ConfigError, ImportError, if there is no such class, or its module fails to import, as protoc's does with
    an older release of protobuf."""
    given = f"--protobuf {module_name}:{class_name}"
    if str(Path.cwd()) not in sys.path:  # as with python -m, so that the user's modules are found
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except ImportError:
        raise
    except Exception as error:
        raise ConfigError(f"{given}: {module_name!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, type):
        raise ConfigError(f"{given}: there is no class {class_name} in {module_name}")
    if getattr(found, "DESCRIPTOR", None) is None:
        raise ConfigError(f"{given}: this class is none of messages, which protoc makes")
    return cast("type[Message]", found)
