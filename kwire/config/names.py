"""The names of settings: snake_case, and in mappings also Java's dotted ones. No name is silently ignored."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from kwire.config.java_names import JAVA_ONLY, is_without_effect
from kwire.errors import ConfigError

log = logging.getLogger("kwire.config")


def snake_case_names(
    known: Collection[str], config: Mapping[str, object], settings: Mapping[str, object]
) -> dict[str, object]:
    """What was given, under snake_case names.

    Args:
        known: the names of all settings.
        config: under snake_case or dotted names.
        settings: under snake_case names.

    Raises:
        ConfigError: a name is unknown, or a setting was given twice.
    """
    given: dict[str, object] = {}
    spelled: dict[str, str] = {}
    left_out = [name for name, value in config.items() if is_left_out(name, value)]
    if left_out:
        log.warning("without effect in kwire, and left out: %s", ", ".join(sorted(left_out)))
    for name, value in [*config.items(), *settings.items()]:
        if name in left_out:
            continue
        snake = snake_case_name(known, name)
        if name != snake and name in settings:
            raise ConfigError(f"as a keyword, {name!r} is spelled {snake}")
        if snake in given:
            raise ConfigError(f"{snake} is given twice, as {spelled[snake]!r} and as {name!r}; give it once")
        given[snake], spelled[snake] = value, name
    return given


def is_left_out(name: object, value: object) -> bool:
    """Whether this is a setting of the Java client's that changes nothing here, so that its files work as they are."""
    return isinstance(name, str) and is_without_effect(name.replace("_", "."), value)


def snake_case_name(known: Collection[str], name: object) -> str:
    """The one name of a setting that may be spelled in two ways. Raises: ConfigError, if there is no such setting."""
    if not isinstance(name, str):
        raise ConfigError(f"the name of a setting is text, not {name!r}")
    snake = name.replace(".", "_")
    if snake in known and name in (snake, snake.replace("_", ".")):
        return snake
    if name.replace("_", ".") in JAVA_ONLY:
        raise ConfigError(
            f"{name!r} is a setting of the Java client that kwire does not support with this value; leave it out"
        )
    raise ConfigError(f"unknown setting {name!r}{_nearest(known, name)}")


def _nearest(known: Collection[str], name: str) -> str:
    from difflib import get_close_matches  # here: names are mostly right

    dotted = "." in name and "_" not in name
    spelled = [candidate.replace("_", ".") if dotted else candidate for candidate in known]
    nearest = get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return f"; did you mean {nearest[0]!r}?" if nearest else "; `kwire config` lists all there are"
