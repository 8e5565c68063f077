"""Times as people type them."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from kwire.cli.times import moment_text, parse_time_ms
from kwire.errors import ConfigError

NOW_MS = 1_763_000_000_000


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cli.times.wall_clock_ms", lambda: NOW_MS)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("now", NOW_MS),
        ("-1h", NOW_MS - 3_600_000),
        ("-1h30m", NOW_MS - 5_400_000),
        ("-2D", NOW_MS - 172_800_000),
        ("-1w", NOW_MS - 604_800_000),
        ("-90s", NOW_MS - 90_000),
        ("+10m", NOW_MS + 600_000),
        ("-9999w", 0),
        ("@5", 5),
        ("1970-01-01T01:00+01:00", 0),
    ],
)
def test_times(text: str, timestamp_ms: int) -> None:
    assert parse_time_ms("--from", text) == timestamp_ms


@pytest.mark.parametrize("text", ["", "-h", "-1x", "-1h30", "1h", "-1 h", "@-1", "yesterday", "-1h-2m"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--until .*: not understood\. 2026-11-21T08:00"):
        parse_time_ms("--until", text)


def test_times_as_text() -> None:
    assert moment_text(NOW_MS) == "2025-11-13T02:13:20.000Z"
    assert moment_text(NOW_MS, timezone(timedelta(hours=1))) == "2025-11-13T03:13:20.000+01:00"


@pytest.mark.parametrize("text", [f"@{1 << 63}", "+99999999999999w"])
def test_a_time_that_no_record_can_have_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--at .*: above 9223372036854775807 milliseconds"):
        parse_time_ms("--at", text)


@pytest.mark.parametrize("timestamp_ms", [9_000_000_000_123, 253_402_300_700_123, -1])
def test_milliseconds_are_exact_however_far_off(timestamp_ms: int) -> None:
    assert moment_text(timestamp_ms).endswith(f".{timestamp_ms % 1000:03}Z")


@pytest.mark.parametrize("timestamp_ms", [1 << 62, -(1 << 62)])
def test_a_time_that_no_calendar_has_is_its_number(timestamp_ms: int) -> None:
    assert moment_text(timestamp_ms, UTC) == f"@{timestamp_ms}"
