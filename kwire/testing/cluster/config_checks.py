"""Checks of values of settings, with Kafka's error messages: the parsers and validators of its ConfigDef.

Contract: pure. Called for settings from clients (`topic_rules`) and from tests (`state`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kwire.errors import InvalidArgumentError
from kwire.testing.cluster.config_catalog import OF_GROUPS, OF_TOPICS, ConfigType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kwire.testing.cluster.config_catalog import Known

NO_TIERED_STORAGE = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
)
_BITS: Mapping[ConfigType, int] = {ConfigType.INT: 32, ConfigType.LONG: 64}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def config_problem(name: str, value: str) -> str | None:
    """Kafka's error message for this setting of a topic; None if the value is valid."""
    known = OF_TOPICS.get(name)
    if known is None:
        return f"Unknown topic config name: {name}"
    problem = _value_problem(known, value)
    if problem is None and name == "remote.storage.enable" and value.strip().lower() == "true":
        return NO_TIERED_STORAGE
    return problem


def group_config_problem(name: str, value: str) -> str | None:
    """As `config_problem`, for a setting of a group."""
    known = OF_GROUPS.get(name)
    return f"Unknown group config name: {name}" if known is None else _value_problem(known, value)


def checked_configs(configs: Mapping[str, object], problem_of: Callable[[str, str], str | None]) -> dict[str, str]:
    """Settings from a test, as text in Kafka's form.

    Raises:
        InvalidArgumentError: One of them has a value that Kafka refuses.
    """
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in configs.items()}
    problem = next(filter(None, (problem_of(name, text) for name, text in texts.items())), None)
    if problem is not None:
        raise InvalidArgumentError(problem)
    return texts


def _value_problem(known: Known, value: str) -> str | None:
    reason = _reason(known, value)
    return f"Invalid value {value} for configuration {known.name}: {reason}" if reason else None


def _reason(known: Known, value: str) -> str | None:
    if known.type in (ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE):
        return _number_reason(known, value)
    if known.type is ConfigType.BOOLEAN:
        is_boolean = value.strip().lower() in ("true", "false")
        return None if is_boolean else "Expected value to be either true or false"
    is_list = known.type is ConfigType.LIST
    parts = [part.strip() for part in (value.split(",") if is_list else [value])]
    if known.choices and not set(parts) <= set(known.choices) and not (is_list and parts == [""]):
        return f"String must be one of: {', '.join(known.choices)}"
    return None


def _number_reason(known: Known, value: str) -> str | None:
    number = _number(known, value.strip())
    if number is None:
        return f"Not a number of type {known.type.name}"
    if known.name == "compression.gzip.level":
        return None if number == -1 or 1 <= number <= 9 else "Value must be between 1 and 9 or equal to -1"
    if known.minimum is not None and number < known.minimum:
        return f"Value must be at least {known.minimum:.12g}"
    if known.maximum is not None and number > known.maximum:
        return f"Value must be no more than {known.maximum:.12g}"
    return None


def _number(known: Known, text: str) -> float | None:
    """The number as Java parses it; None if the text is no number of that type."""
    if known.type in _BITS:
        limit = 1 << _BITS[known.type] - 1
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) else limit
        return number if -limit <= number < limit else None
    try:
        return float(text)
    except ValueError:
        return None
