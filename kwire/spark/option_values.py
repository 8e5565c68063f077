"""Values of options: Spark hands all of them over as text, and reads them as Scala does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kwire.spark.errors import OptionError

_INT = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DURATION = re.compile(r"(-?[0-9]+)([a-z]*)")
_UNITS_MS = {"": 1.0, "us": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "min": 60e3, "h": 3600e3, "d": 86400e3}


class GivenOptions(Mapping[str, str]):
    """What the user gave, by names in any case. Spark hands over a mapping of such a kind, and tests a dictionary."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def __getitem__(self, name: str) -> str:
        return self._options[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def flag(self, name: str, *, default: bool) -> bool:
        """true or false. Raises: OptionError."""
        if name not in self:
            return default
        text = self[name].lower()
        if text not in ("true", "false"):
            raise OptionError(f"Option '{name}': For input string: \"{self[name]}\"; it is either true or false")
        return text == "true"

    def integer(self, name: str) -> int | None:
        """An integer of 32 bits, None if it is not given. Raises: OptionError."""
        return self._number(name, _INT)

    def long(self, name: str) -> int | None:
        """An integer of 64 bits, None if it is not given. Raises: OptionError."""
        return self._number(name, _LONG)

    def _number(self, name: str, valid: range) -> int | None:
        if name not in self:
            return None
        text = self[name]
        if not _INTEGER.fullmatch(text) or int(text) not in valid:
            raise OptionError(f"Option '{name}': For input string: \"{text}\"; it is an integer up to {valid[-1]}")
        return int(text)

    def duration_ms(self, name: str, *, default_ms: float) -> float:
        """A duration as Spark writes them: 15m, 100ms, 250us; without a unit, milliseconds. Raises: OptionError."""
        if name not in self:
            return default_ms
        found = _DURATION.fullmatch(self[name].strip().lower())
        if found is None or found[2] not in _UNITS_MS:
            raise OptionError(
                f"Option '{name}': Failed to parse time string: {self[name]}. Time must be specified as seconds (s), "
                "milliseconds (ms), microseconds (us), minutes (m or min), hour (h), or day (d). "
                "E.g. 50s, 100ms, or 250us."
            )
        return int(found[1]) * _UNITS_MS[found[2]]
