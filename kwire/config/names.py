"""The names of settings: snake_case, in mappings also Java's dotted ones, and those of other clients. No name is
silently ignored."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from kwire.config.foreign_names import ForeignName, by_snake_name
from kwire.config.guessed_names import GUESSED
from kwire.config.java_names import JAVA, JAVA_PRODUCER
from kwire.config.librdkafka_names import LIBRDKAFKA
from kwire.config.parsers import BadValueError
from kwire.config.problems import Problems
from kwire.config.python_names import PYTHON_CLIENTS
from kwire.config.registry_classes import REGISTRY
from kwire.errors import ConfigError

log = logging.getLogger("kwire.config")

FOREIGN = by_snake_name(JAVA, REGISTRY, LIBRDKAFKA, PYTHON_CLIENTS, JAVA_PRODUCER, GUESSED)


def snake_case_names(
    known: Collection[str], config: Mapping[str, object], settings: Mapping[str, object]
) -> dict[str, object]:
    """What was given, under snake_case names.

    Args:
        known: the names of all settings.
        config: under snake_case or dotted names, or those of another client.
        settings: under snake_case names.

    Raises:
        ConfigError: names are unknown or have to be replaced, or settings were given twice; says so of each.
    """
    given: dict[str, object] = {}
    spelled: dict[str, str] = {}
    problems = Problems()
    everything = [*config.items(), *settings.items()]
    left_out = [name for name, value in everything if is_left_out(name, value)]
    if left_out:
        log.warning("without effect in kwire, and left out: %s", left_out_names(left_out))
    for name, value in everything:
        if name in left_out:
            continue
        with problems.noted():
            snake, converted = kwires_own(known, name, value)
            if name in settings and "." in name:
                raise ConfigError(f"as a keyword, {name!r} is spelled {snake}")
            if snake in given:
                raise ConfigError(f"{snake} is given twice, as {spelled[snake]!r} and as {name!r}; give it once")
            given[snake], spelled[snake] = converted, name
    problems.raise_them()
    return given


def is_left_out(name: object, value: object) -> bool:
    """Whether this is a setting of another client's that changes nothing here, so that its files work as they are."""
    entry = foreign(name)
    return entry is not None and entry.is_idle(value)


def left_out_names(names: Collection[str]) -> str:
    """These, with what does the same in kwire, where there is something."""
    hints: dict[str, list[str]] = {}
    for name in sorted(names):
        entry = foreign(name)
        hints.setdefault(entry.instead if entry is not None and entry.idle_at is None else "", []).append(name)
    return "; ".join(", ".join(group) + (f" ({hint})" if hint else "") for hint, group in hints.items())


def foreign(name: object) -> ForeignName | None:
    """What becomes of a name that other clients have, and kwire has not."""
    return FOREIGN.get(name.replace(".", "_")) if isinstance(name, str) else None


def kwires_own(known: Collection[str], name: object, value: object) -> tuple[str, object]:
    """The one name of a setting that may be spelled in several ways, and its value, which is not checked yet.

    Raises:
        ConfigError: there is no such setting.
    """
    entry = foreign(name)
    if entry is None:
        return snake_case_name(known, name), value
    if entry.take is None:
        raise ConfigError(f"kwire has no setting {name!r}: {entry.instead}")
    try:
        return entry.take(value)
    except BadValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def snake_case_name(known: Collection[str], name: object) -> str:
    """The name of a setting of kwire's. Raises: ConfigError, if there is no such setting."""
    if not isinstance(name, str):
        raise ConfigError(f"the name of a setting is text, not {name!r}")
    snake = name.replace(".", "_")
    if snake in known and name in (snake, snake.replace("_", ".")):
        return snake
    raise ConfigError(f"unknown setting {name!r}{_nearest(known, name)}")


def _nearest(known: Collection[str], name: str) -> str:
    from difflib import get_close_matches  # here: names are mostly right

    dotted = "." in name and "_" not in name
    spelled = [candidate.replace("_", ".") if dotted else candidate for candidate in known]
    nearest = get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return f"; did you mean {nearest[0]!r}?" if nearest else "; `kwire config` lists all there are"
