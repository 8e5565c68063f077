"""Confluent's classes for Java that read values of a schema registry, as properties files name them."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.config.foreign_names import ForeignName, idle, other, spelled
from kwire.errors import ConfigError

_PACKAGE = "io.confluent.kafka.serializers."
_PROTOBUF = f"{_PACKAGE}protobuf.KafkaProtobufDeserializer"
_AVRO = f"{_PACKAGE}KafkaAvroDeserializer"
_JSON_SCHEMA = f"{_PACKAGE}json.KafkaJsonSchemaDeserializer"
_JSON = f"{_PACKAGE}KafkaJsonDeserializer"
_FIELDS = ("key.deserializer", "value.deserializer")
_URL = "schema.registry.url"
_USER = ("basic.auth.user.info", "schema.registry.basic.auth.user.info")
_SOURCE = "basic.auth.credentials.source"
_SOURCES = ("", "user_info", "url")

_INSTEAD = "make one of kwire.deserializers with settings of confluent-kafka's client, and give it as the deserializer"
_UNUSED = "the address of a schema registry goes to a deserializer of kwire.deserializers"

# Settings beside such classes that are left over once the deserializers are made, or that come without a class.
REGISTRY: tuple[ForeignName, ...] = (
    *idle(_URL, *_USER, instead=_UNUSED),
    other(_SOURCE, _INSTEAD, at=_SOURCES),
    *idle("auto.register.schemas", "specific.avro.reader", "normalize.schemas", "json.fail.invalid.schema"),
    other("use.latest.version", _INSTEAD, at=("", "false")),
    other("bearer.auth.credentials.source", _INSTEAD),
    other("schema.registry.ssl.truststore.location", _INSTEAD),
    other("schema.registry.ssl.keystore.location", _INSTEAD),
)


def with_registry_classes(config: Mapping[str, object]) -> Mapping[str, object]:
    """The settings, with deserializers in place of such classes, made from the settings beside them.

    Raises:
        ConfigError: The address of the registry is missing, or what the class needs is not in a file.
    """
    names = {_dotted(name): name for name in config}
    wanted = {names[field]: config[names[field]] for field in _FIELDS if field in names}
    made = {name: _made(name, str(kind).strip(), config, names) for name, kind in wanted.items() if _is_class(kind)}
    if not made:
        return config
    used = {names[each] for each in (_URL, *_USER) if each in names}
    if spelled(config.get(names.get(_SOURCE, ""))) in _SOURCES:
        used.add(names.get(_SOURCE, ""))
    return {name: made.get(name, value) for name, value in config.items() if name not in used}


def _dotted(name: object) -> str:
    return str(name).replace("_", ".")


def _is_class(kind: object) -> bool:
    return isinstance(kind, str) and kind.strip().startswith(_PACKAGE)


def _made(name: str, kind: str, config: Mapping[str, object], names: Mapping[str, str]) -> object:
    from kwire import deserializers  # few name one, and it takes its time

    if kind == _JSON:
        return deserializers.JsonDeserializer()
    if kind == _PROTOBUF:
        raise ConfigError(
            f"{name}: a file cannot name a Python class; give kwire.deserializers.ProtobufDeserializer(message_type)"
        )
    if kind not in (_AVRO, _JSON_SCHEMA):
        known = ", ".join((_AVRO, _JSON_SCHEMA, _JSON))
        raise ConfigError(f"{name}={kind!r}: no class that kwire has; there are {known}")
    if _URL not in names:
        raise ConfigError(f"{name}={kind!r} needs schema.registry.url")
    registry = {"url": config[names[_URL]]}
    for user in _USER:
        if user in names and spelled(config.get(names.get(_SOURCE, ""))) != "url":
            registry["basic.auth.user.info"] = config[names[user]]
    if kind == _AVRO:
        return deserializers.AvroDeserializer(registry)
    return deserializers.JsonSchemaDeserializer(registry)
