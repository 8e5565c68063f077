"""The settings as a table for people; `kwire config` prints it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kwire.config.consumer_config import SETTINGS
from kwire.config.setting import Setting


class SettingDoc(NamedTuple):
    """One row, all in words."""

    name: str
    java_name: str
    default: str
    valid: str
    doc: str
    is_secret: bool = False


def docs() -> tuple[SettingDoc, ...]:
    """What there is to set, in the order of the dataclass."""
    return tuple(map(_row, SETTINGS.values()))


def _row(found: Setting) -> SettingDoc:
    default = found.shown_default or _show(found.default)
    return SettingDoc(found.name, found.java_name, default, found.parser.valid, found.doc, found.is_secret)


def _show(value: object) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case Enum():
            return value.value if isinstance(value.value, str) and value.value else value.name.lower()
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value) or '""'
