"""`auto_offset_reset`: where to begin without a committed offset, or when the position is outside the log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from kwire.config.parsers import BadValueError, Parser

VALID = "earliest, latest, none, by_duration:PnDTnHnMn.nS (an ISO 8601 duration, such as by_duration:PT1H30M)"

_BY_DURATION = "by_duration:"

# librdkafka's words for the same.
_OTHER_WORDS = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}

# The subset of ISO 8601 that Java's Duration.parse reads: days to seconds, each may carry a sign.
_DURATION = re.compile(
    r"(?P<sign>[+-])?P(?:(?P<days>[+-]?\d{1,18})D)?"
    r"(?:T(?=[\d+-])(?:(?P<hours>[+-]?\d{1,18})H)?(?:(?P<minutes>[+-]?\d{1,18})M)?"
    r"(?:(?P<seconds>[+-]?\d{1,18})(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_UNITS_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


class ResetKind(Enum):
    """The policies."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A policy. `duration_ms` counts back from now, and is there for BY_DURATION alone (KIP-1106). `text` is what the
    user wrote for that: only so is it found again in a program or a file."""

    kind: ResetKind
    duration_ms: int | None = None
    text: str | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        return self.kind.value if self.duration_ms is None else f"{_BY_DURATION}PT{self.duration_ms / 1000:.12g}S"


def offset_reset() -> Parser[OffsetReset]:
    return Parser(_read, VALID)


def parse_duration_ms(text: str) -> int:
    """Milliseconds of an ISO 8601 duration, rounded down. Raises: BadValueError."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found[unit] for unit in _UNITS_MS):
        raise BadValueError("not an ISO 8601 duration")
    total_ms = sum(int(found[unit] or 0) * unit_ms for unit, unit_ms in _UNITS_MS.items())
    fraction_ns = int((found["fraction"] or "").ljust(9, "0"))
    if (found["seconds"] or "").startswith("-"):
        fraction_ns = -fraction_ns
    total_ns = total_ms * 1_000_000 + fraction_ns
    if found["sign"] == "-":
        total_ns = -total_ns
    if total_ns < 0:
        raise BadValueError("a negative duration")
    return total_ns // 1_000_000


def _read(value: object) -> OffsetReset:
    if isinstance(value, OffsetReset):
        return value
    if not isinstance(value, str):
        raise BadValueError("not text")
    wanted = value.strip().lower()
    if wanted.startswith(_BY_DURATION):
        return OffsetReset(ResetKind.BY_DURATION, parse_duration_ms(wanted.removeprefix(_BY_DURATION)), value.strip())
    wanted = _OTHER_WORDS.get(wanted, wanted)
    if wanted in ("earliest", "latest", "none"):
        return OffsetReset(ResetKind(wanted))
    raise BadValueError("no such policy")
