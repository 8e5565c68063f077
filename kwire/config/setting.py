"""A setting: the type and default of a dataclass field, with its doc and its parser in the field's metadata."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from kwire.config.parsers import LOOKS_SECRET, BadValueError, Parser, looks_secret
from kwire.errors import ConfigError

T = TypeVar("T")

_KEY = "kwire.setting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What there is to know of a setting beside its type. `shown_default` is shown if the default depends on others."""

    name: str = ""
    default: object
    doc: str
    parser: Parser[object]
    shown_default: str | None = None
    is_secret: bool = False

    @property
    def java_name(self) -> str:
        """The name in the Java client's properties: dots for underscores, without exception."""
        return self.name.replace("_", ".")

    def parse(self, value: object) -> object:
        """Raises: ConfigError, which names the setting, the value, the reason and what is valid."""
        try:
            return self.parser.read(value)
        except BadValueError as error:
            hides = self.is_secret or error.may_be_secret
            why = LOOKS_SECRET if looks_secret(value) and not hides else str(error)
            shown = "<secret>" if hides or looks_secret(value) else _show(value)
            raise ConfigError(f"{self.name}={shown}: {why}; valid: {self.parser.valid}") from None


def setting(default: T, doc: str, parser: Parser[T], *, shown_default: str | None = None, is_secret: bool = False) -> T:
    """Declares a field of a config dataclass. Typed as its default, so that mypy checks it against the annotation."""
    found = Setting(default=default, doc=doc, parser=_widen(parser), shown_default=shown_default, is_secret=is_secret)
    return field(default=default, metadata={_KEY: found})


def settings_of(config_class: type) -> Mapping[str, Setting]:
    """The settings a config dataclass declares, by name: its own in their order, then those it inherits."""
    own = config_class.__annotations__
    ordered = sorted(fields(config_class), key=lambda found: found.name not in own)
    return {found.name: replace(found.metadata[_KEY], name=found.name) for found in ordered}


def _widen(parser: Parser[T]) -> Parser[object]:
    return Parser(parser.read, parser.valid)


def _show(value: object) -> str:
    return reprlib.repr(value)
