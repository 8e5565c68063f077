"""Settings of a command: from flags, then the environment, then a file, then the command's defaults.

Each value is checked here, where its source is known, so that the error can name it. Secrets belong in a file or in the
environment: a flag is seen by every user of the machine, in the list of processes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from kwire.cli.config_files import SettingLine, read_config_file
from kwire.cli.registry_settings import USER
from kwire.config import SETTINGS, parse_setting
from kwire.config.names import foreign, is_left_out
from kwire.deserializers import StringDeserializer
from kwire.errors import ConfigError, InvalidGroupIdError

PREFIX = "KWIRE_"
_NAME = re.compile(r"[\w.]+")

_USER_OF_REGISTRY = USER.replace(".", "_")
_OF_MEMBERS = frozenset({"enable_auto_commit", "enable_parallel_rebalance"})

log = logging.getLogger("kwire.cli")

# Java's files name classes here. The formats of the command line work on bytes: what is no text is made some.
_DESERIALIZERS = frozenset({"key_deserializer", "value_deserializer"})


def collect_settings(
    *,
    flags: Iterable[SettingLine],
    properties: Sequence[str],
    environ: Mapping[str, str],
    file: Path | None,
    defaults: Mapping[str, object],
    taken: Callable[[SettingLine], bool] = lambda _entry: False,
) -> dict[str, object]:
    """The settings of a command, by snake_case name.

    Args:
        flags: settings from options.
        properties: texts NAME=VALUE from `-X`.
        environ: the environment with KWIRE_<SETTING>.
        file: a file of properties or TOML.
        defaults: the command's defaults, where they differ from the library's.
        taken: returns whether an entry is for the command itself, and not a setting.

    Raises:
        ConfigError: a name is unknown, a value is bad, or one place gives a setting twice.
    """
    settings = dict(defaults)
    given = [*flags, *map(from_property, properties)]
    warn_of_visible_secrets(given)
    for layer in (read_config_file(file) if file else [], from_environment(environ), given):
        settings |= _check(entry for entry in layer if not taken(entry))
    return settings


def of_connection(settings: Mapping[str, object]) -> dict[str, object]:
    """What a command needs of them that reads no records. The file of a consumer may want a group, which its program
    names and the file does not."""
    return {name: value for name, value in settings.items() if name not in _OF_MEMBERS}


def from_property(given: str) -> SettingLine:
    """Parse `-X name=value`."""
    name, value = name_and_value("-X", given)
    return SettingLine(f"-X {name}", name, value)


def name_and_value(flag: str, given: str) -> tuple[str, str]:
    """Split NAME=VALUE. Raises: ConfigError, which shows only the name: the value may be a secret."""
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        begin = _NAME.match(given.strip())
        raise ConfigError(f"{flag} {begin[0] if begin else ''}: write name=value")
    return name.strip(), value


def warn_of_visible_secrets(flags: Iterable[SettingLine]) -> None:
    """Warn once of flags that have secrets."""
    if visible := [entry.source for entry in flags if is_secret(entry.name)]:
        log.warning(
            "%s: every user of this machine can see a secret on the command line; put it into a file (--config) or the "
            "environment (%s...)",
            ", ".join(visible),
            PREFIX,
        )


def is_secret(name: str) -> bool:
    """Whether the setting of this name, dotted or not, must not be shown."""
    snake, entry = name.replace(".", "_"), foreign(name)
    if snake.endswith(_USER_OF_REGISTRY):
        return True
    return SETTINGS[snake].is_secret if snake in SETTINGS else entry is not None and entry.is_secret


def from_environment(environ: Mapping[str, str]) -> list[SettingLine]:
    """The settings from variables; empty variables count as not set, as in shells."""
    entries = []
    for variable, value in environ.items():
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and value and _is_setting(variable, name):
            entries.append(SettingLine(variable, name, value))
    return entries


def _is_setting(variable: str, name: str) -> bool:
    """Whether a KWIRE_ variable is meant as a setting: it is one, or nearly one, which is a typing error."""
    if name in SETTINGS:
        return True
    nearest = get_close_matches(name, SETTINGS, n=1, cutoff=0.85)
    if nearest:
        raise ConfigError(f"{variable} is no setting; did you mean {PREFIX}{nearest[0].upper()}?")
    return False


def _check(layer: Iterable[SettingLine]) -> dict[str, object]:
    checked: dict[str, object] = {}
    sources: dict[str, str] = {}
    entries = list(layer)
    left_out = [entry for entry in entries if is_left_out(entry.name, entry.value)]
    if left_out:
        names = ", ".join(f"{entry.name} ({entry.source})" for entry in left_out)
        log.warning("without effect in kwire, and left out: %s", names)
    for entry in entries:
        if entry in left_out:
            continue
        try:
            name, value = parse_setting(entry.name, entry.value)
        except (ConfigError, InvalidGroupIdError) as error:
            raise ConfigError(f"{entry.source}: {error}") from None
        if name in checked:
            raise ConfigError(f"{name} is given twice, by {sources[name]} and by {entry.source}; give it once")
        checked[name] = _as_bytes(value) if name in _DESERIALIZERS else value
        sources[name] = entry.source
    return checked


def _as_bytes(decode: object) -> Callable[[bytes], bytes] | None:
    """A deserializer that makes the bytes to be printed; None if those of the log will do."""
    if decode is None or isinstance(decode, StringDeserializer) or not callable(decode):
        return None

    def written(data: bytes) -> bytes:
        found = decode(data)
        return (str(found).lower() if isinstance(found, bool) else str(found)).encode()

    return written
