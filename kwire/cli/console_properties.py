"""`--property print.key=true`: properties of the formatter of Kafka's console consumer, as options of `kwire consume`.

Kafka's tool has separate options for properties of its formatter and settings of its consumer. `--property` takes both
here, and tells them apart by their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kwire.cli.formats import Format, FormatOptions
from kwire.cli.settings import name_and_value
from kwire.errors import ConfigError

# In the order in which that formatter prints them.
_PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")
_TEXTS = {
    "key.separator": "key_separator",
    "line.separator": "delimiter",
    "null.literal": "null",
    "headers.separator": "header_separator",
}


def split_properties(properties: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """The formatter's properties by name, and the other ones as they were given. Raises: ConfigError."""
    formatter: dict[str, str] = {}
    others: list[str] = []
    for given in properties:
        name, value = name_and_value("--property", given)
        if name in _TEXTS or (name.removeprefix("print.") in _PRINTED and name.startswith("print.")):
            formatter[name] = value
        else:
            others.append(given)
    return formatter, others


def with_properties(options: FormatOptions, formatter: dict[str, str]) -> FormatOptions:
    """The options, changed by these properties.

    Raises:
        ConfigError: A property has to be true or false and is neither, or an option sets the same.
    """
    for name, attribute in _TEXTS.items():
        if name in formatter:
            _check_unset(name, getattr(options, attribute), getattr(FormatOptions(), attribute))
            options = _with_text(options, attribute, formatter[name])
    printed = {name: _is_true(name, value) for name, value in formatter.items() if name.startswith("print.")}
    if not printed:
        return options
    _check_unset("print....", options.columns, ())
    if options.format != Format.TEXT.value:
        raise ConfigError(f"{min(printed)} is for --format text, not {options.format}")
    chosen = {"print.value": True, **printed}
    columns = tuple(each for each in _PRINTED if chosen.get(f"print.{each}"))
    if not columns:
        raise ConfigError("--property print.value=false: then there is nothing to print")
    return replace(options, columns=columns)


def _with_text(options: FormatOptions, attribute: str, text: str) -> FormatOptions:
    match attribute:
        case "key_separator":
            return replace(options, key_separator=text)
        case "delimiter":
            return replace(options, delimiter=text)
        case "null":
            return replace(options, null=text)
        case _:
            return replace(options, header_separator=text)


def _check_unset(name: str, given: object, default: object) -> None:
    if given != default:
        raise ConfigError(f"--property {name}: an option says the same; give one of them")


def _is_true(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ConfigError(f"--property {name}={value}: write true or false")
    return value.lower() == "true"
