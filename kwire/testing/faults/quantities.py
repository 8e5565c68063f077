"""Quantities with their units, as schedules write them: `15s`, `100ms`, `64KiB`, `3000kbit`, `30%`, `500/s`.

Every quantity is a whole number of its smallest unit, so that what was written is read back exactly. Called where
schedules are read or written.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum

MS_PER_SECOND = 1_000
NUMBER_AND_UNIT = re.compile(r"(-?\d+(?:\.\d+)?)(\D*)", re.ASCII)
# No quantity is as large; longer numbers are typing errors.
MAX_CHARACTERS = 24


class Quantity(Enum):
    """A kind of quantity: its name in messages, an example, and its units from the smallest up, with their sizes."""

    DURATION_MS = ("a duration", "15s", (("ms", 1), ("s", MS_PER_SECOND), ("min", 60 * MS_PER_SECOND)))
    DURATION_US = ("a duration", "50us", (("us", 1), ("ms", 1_000), ("s", 1_000_000)))
    CLOCK_STEP_MS = (
        "a step of a clock",
        "-3600s",
        (("ms", 1), ("s", MS_PER_SECOND), ("min", 60 * MS_PER_SECOND), ("h", 3_600 * MS_PER_SECOND)),
    )
    BYTES = ("a size", "64KiB", (("B", 1), ("KiB", 1024), ("MiB", 1024 * 1024)))
    KBITS_PER_SECOND = ("a bandwidth", "3000kbit", (("kbit", 1), ("Mbit", 1_000)))
    PER_SECOND = ("a rate", "500/s", (("/s", 1),))
    PERCENT = ("a share", "30%", (("%", 1),))
    COUNT = ("a number", "3", (("", 1),))

    def __init__(self, words: str, example: str, units: tuple[tuple[str, int], ...]) -> None:
        self.words = words
        self.example = example
        self.units = units

    def parse(self, word: str) -> int:
        """Parse a quantity. Returns it in the smallest unit.

        Raises:
            ValueError: the word is no quantity of this kind, or no whole number of the smallest unit; the message says
                what is allowed.
        """
        found = NUMBER_AND_UNIT.fullmatch(word) if len(word) <= MAX_CHARACTERS else None
        size = dict(self.units).get(found[2]) if found else None
        if found is None or size is None:
            raise ValueError(f"{self.words} is wanted, as in {self.example}{self._allowed_units()}")
        return self._whole(found[1], size)

    def render(self, value: int) -> str:
        """The quantity as short text without loss: `17.5s`, but `9534B`.

        Minutes and hours are parsed and never written: 90s are easier to compare with 15s than 1.5min.
        """
        if dict(self.units).get("ms") == 1 and abs(value) >= MS_PER_SECOND:
            return f"{(Decimal(value) / MS_PER_SECOND).normalize():f}s"
        fitting = [(unit, size) for unit, size in self.units if value and value % size == 0]
        unit, size = fitting[-1] if fitting else self.units[0]
        return f"{value // size}{unit}"

    def _whole(self, number: str, size: int) -> int:
        value = Decimal(number) * size
        if value != int(value):
            raise ValueError(f"{self.words} is wanted in whole {self.units[0][0] or 'numbers'}")
        return int(value)

    def _allowed_units(self) -> str:
        names = [unit for unit, _size in self.units if unit]
        return f"; units: {', '.join(names)}" if len(names) > 1 else ""
