"""The text forms of times, sizes and counts in the report."""

from __future__ import annotations

NONE = "\N{EN DASH}"
_MIB = 1024 * 1024


def duration(ms: float | None) -> str:
    """As short as it stays telling: "0 ms", "850 ms", "9.8 s", "2:05 min"."""
    if ms is None:
        return NONE
    if round(ms) < 1_000:
        return f"{round(ms)} ms"
    if round(ms, -2) < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    return f"{seconds // 60}:{seconds % 60:02} min"


def moment(ms: float) -> str:
    """A time of the run: "0:07.3"."""
    tenths = round(ms / 100)
    return f"{tenths // 600}:{tenths // 10 % 60:02}.{tenths % 10}"


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """With its noun: "1 fault", "2 faults"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number_bytes: int) -> str:
    return f"{number_bytes / _MIB:,.1f} MiB"
