"""Times as text: `--from`, `--until`, `--times`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum

from kwire.clock import wall_clock_ms
from kwire.config.parsers import MAX_LONG
from kwire.consumer.arguments import EPOCH, milliseconds_of
from kwire.errors import ConfigError
from kwire.model import NO_TIMESTAMP

HELP = "2026-11-21T08:00 (UTC unless it names a zone), @MILLISECONDS since 1970, now, or 1h30m ago: -1h30m (w d h m s)"

_UNIT_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DURATION = re.compile(r"(?:\d+[wdhms])+")
_PART = re.compile(r"(\d+)([wdhms])")


class Times(Enum):
    """How times of records are written, by the names of `--times`."""

    MS = "ms"
    UTC = "utc"
    LOCAL = "local"


def parse_time_ms(option: str, text: str, help_text: str = HELP) -> int:
    """Parse a time as milliseconds since 1970. Raises: ConfigError, if it is no time, or none that a record can
    have."""
    timestamp_ms = _time_ms(option, text, help_text)
    if timestamp_ms > MAX_LONG:
        raise ConfigError(f"{option} {text}: above {MAX_LONG} milliseconds, the latest that Kafka has")
    return timestamp_ms


def _time_ms(option: str, text: str, help_text: str) -> int:
    word = text.strip()
    if word.lower() == "now":
        return wall_clock_ms()
    if word[:1] in ("-", "+") and _DURATION.fullmatch(word[1:].lower()):
        ahead_ms = _duration_ms(word[1:].lower())
        return max(0, wall_clock_ms() + (ahead_ms if word[0] == "+" else -ahead_ms))
    if word[:1] == "@" and word.isascii() and word[1:].isdecimal():
        return int(word[1:])
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise ConfigError(f"{option} {text}: not understood. {help_text}") from None
    timestamp_ms = milliseconds_of(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    if timestamp_ms < 0:
        raise ConfigError(f"{option} {text}: before 1970")
    return timestamp_ms


def _duration_ms(text: str) -> int:
    return sum(int(number) * _UNIT_MS[unit] for number, unit in _PART.findall(text))


def time_writer(times: Times) -> Callable[[int], str]:
    """The function that formats a timestamp. A missing one is empty as a date, and -1 in milliseconds."""
    if times is Times.MS:
        return str
    zone = UTC if times is Times.UTC else None

    def write(timestamp_ms: int) -> str:
        return "" if timestamp_ms == NO_TIMESTAMP else moment_text(timestamp_ms, zone)

    return write


def moment_text(timestamp_ms: int, zone: timezone | None = UTC) -> str:
    """A time such as 2026-11-25T18:03:38.123Z. A number that is no date, which a producer may write, is shown as it
    is."""
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
        local = moment if zone is UTC else moment.astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return f"@{timestamp_ms}"
    return local.isoformat(timespec="milliseconds").replace("+00:00", "Z")
