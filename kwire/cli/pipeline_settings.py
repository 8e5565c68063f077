"""Settings of `kwire pipeline`: from flags, the environment, a properties file and a TOML file; the first wins."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from kwire.cli.config_files import SettingLine, read_config_file
from kwire.cli.settings import from_environment, name_and_value, warn_of_visible_secrets
from kwire.cli.starts import StartKind, parse_start
from kwire.config import SETTINGS
from kwire.config.names import is_left_out
from kwire.errors import ConfigError

_OF_CONNECTIONS = ("bootstrap_servers", "security_protocol", "ssl_", "sasl_")


def read_file(path: Path) -> dict[str, object]:
    """The settings of a file, with its tables `kafka`, `source` and `spark` as they are.

    Raises:
        ConfigError: It cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def merged(file: Mapping[str, object], flags: Mapping[str, object]) -> dict[str, object]:
    """The file's settings, overridden by those of flags; tables are merged, and None means not set."""
    found = dict(file)
    for name, value in flags.items():
        given = found.get(name)
        if isinstance(value, Mapping) and isinstance(given, Mapping):
            found[name] = {**given, **value}
        elif value is not None and value != {}:
            found[name] = value
    return found


def pairs(flag: str, given: Iterable[str] | None) -> dict[str, str]:
    """Parse texts of the form NAME=VALUE. Raises: ConfigError, which names the flag."""
    found = dict(name_and_value(flag, each) for each in given or ())
    warn_of_visible_secrets(SettingLine(f"{flag} {name}", name.removeprefix("kafka."), "") for name in found)
    return found


def kafka_flags(given: Iterable[str] | None) -> dict[str, str]:
    """The settings of `--kafka NAME=VALUE`. Raises: ConfigError."""
    return {dotted(name): value for name, value in pairs("--kafka", given).items()}


def kafka_properties(path: Path | None) -> dict[str, str]:
    """The settings of a Java client's file, without those that change nothing here. Raises: ConfigError."""
    lines = read_config_file(path) if path else []
    return {dotted(line.name): str(line.value) for line in lines if not is_left_out(line.name, line.value)}


def kafka_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of connections from KWIRE_<SETTING>; other variables are for other commands. Raises: ConfigError."""
    found = from_environment(environ)
    return {dotted(line.name): str(line.value) for line in found if line.name.startswith(_OF_CONNECTIONS)}


def with_kafka(settings: Mapping[str, object], *layers: Mapping[str, str]) -> dict[str, object]:
    """The settings with these of Kafka's over them, the last on top; the brokers are a setting of the pipeline's."""
    table = settings.get("kafka", {})
    if not isinstance(table, Mapping):
        return dict(settings)  # an error in it is reported when the plan is made
    given: dict[str, str] = {}
    for layer in layers:
        given |= layer
    brokers = {"bootstrap": given.pop("bootstrap.servers")} if "bootstrap.servers" in given else {}
    kafka = {dotted(name): value for name, value in flat(table).items()}
    return {**settings, **brokers, "kafka": {**kafka, **given}}


def dotted(name: str) -> str:
    """The one name of a setting that may be spelled in two ways: Java's."""
    snake = name.replace(".", "_")
    return SETTINGS[snake].java_name if snake in SETTINGS else name


def flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """The values by dotted names, of which TOML makes nested tables."""
    found: dict[str, object] = {}
    for key, value in table.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def schema_text(given: str | None) -> str | None:
    """A schema, or with @ in front of a file name the content of the file. Raises: ConfigError, if it cannot be
    read."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"value_schema: cannot read {given[1:]}: {error}") from None


def start_text(given: str | None) -> str | None:
    """`--from` in the form of a plan: earliest, latest, or @ and milliseconds. Raises: ConfigError, if it is none of
    these."""
    if given is None:
        return None
    start = parse_start(given)
    match start.kind:
        case StartKind.EARLIEST:
            return "earliest"
        case StartKind.LATEST:
            return "latest"
        case StartKind.TIMESTAMP_MS:
            return f"@{start.number}"
        case _:
            raise ConfigError(f"from {given}: a pipeline begins at earliest, at latest, or at a time")
