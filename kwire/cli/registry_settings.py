"""Settings of a schema registry from options, variables and files; and the formats that Java's files name.

They are not passed to the consumer: `kwire consume` reads bytes, and formats them itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.cli.config_files import SettingLine

URL, USER = "schema.registry.url", "basic.auth.user.info"
_NAMES = {
    URL: "url",
    USER: "basic.auth.user.info",
    f"schema.registry.{USER}": "basic.auth.user.info",
    "basic.auth.credentials.source": None,
}
_VARIABLES = {"KWIRE_SCHEMA_REGISTRY_URL": "url", "KWIRE_SCHEMA_REGISTRY_USER_INFO": "basic.auth.user.info"}
_PACKAGE = "io.confluent.kafka.serializers."
_FORMATS = {
    f"{_PACKAGE}KafkaAvroDeserializer": "avro",
    f"{_PACKAGE}json.KafkaJsonSchemaDeserializer": "json-schema",
    f"{_PACKAGE}protobuf.KafkaProtobufDeserializer": "protobuf",
    f"{_PACKAGE}KafkaJsonDeserializer": "json",
}


class RegistrySettings:
    """Collects settings of a registry from the lines of settings; later lines take precedence.

    Attributes:
        registry: Settings of confluent-kafka's client.
        formats: Formats by "key" and "value", where a file names a class of Confluent's.
    """

    def __init__(self) -> None:
        self.registry: dict[str, object] = {}
        self.formats: dict[str, str] = {}

    def take(self, entry: SettingLine) -> bool:
        """Whether the line is about a registry, and has been noted."""
        name = entry.name.replace("_", ".")
        if name in ("key.deserializer", "value.deserializer"):
            form = _FORMATS.get(str(entry.value).strip())
            if form is not None:
                self.formats[name.partition(".")[0]] = form
            return form is not None
        setting = _NAMES.get(name)
        if setting is not None:
            self.registry[setting] = entry.value
        return name in _NAMES

    def settings(self, option: str | None, environ: Mapping[str, str]) -> dict[str, object]:
        """All settings: an option takes precedence over variables, and these over collected lines."""
        given = {name: environ[variable] for variable, name in _VARIABLES.items() if environ.get(variable)}
        found = self.registry | given | ({} if option is None else {"url": option})
        return found if "url" in found else {}
