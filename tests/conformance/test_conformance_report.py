"""Reports: what people read, what machines read, and that both say the same."""

from __future__ import annotations

import json

from kwire.conformance.report import CaseStatus, Report, Result, spans


def result(api: str, version: int, status: CaseStatus, *, check: str = "does it", reason: str = "") -> Result:
    keys = {"Produce": 0, "Fetch": 1, "Heartbeat": 12}
    return Result(
        api=api, api_key=keys[api], version=version, area="area", check=check, status=status, reason=reason, seconds=0.5
    )


REPORT = Report(
    bootstrap="broker:9092",
    prefix="kwire-conformance-1",
    seconds=1.5,
    results=(
        result("Produce", 12, CaseStatus.NOT_OFFERED, reason="the broker offers versions 0 to 11"),
        result("Produce", 13, CaseStatus.NOT_OFFERED, reason="the broker offers versions 0 to 11"),
        result("Fetch", 4, CaseStatus.PASSED),
        result("Fetch", 4, CaseStatus.PASSED, check="does more"),
        result("Fetch", 5, CaseStatus.FAILED, reason="it was late"),
        result("Fetch", 6, CaseStatus.FAILED, reason="it was late"),
        result("Fetch", 8, CaseStatus.FAILED, reason="it was late"),
        result("Heartbeat", 0, CaseStatus.PASSED),
    ),
    leftovers=("topic t: NOT_CONTROLLER",),
)


def test_the_table_counts_by_api() -> None:
    lines = [line.split() for line in REPORT.to_text().splitlines()]
    assert ["0", "Produce", "-", "0", "2"] in lines
    assert ["1", "Fetch", "4-6,8", "2", "3"] in lines
    assert ["12", "Heartbeat", "0", "1"] in lines


def test_failures_that_are_alike_are_told_once_with_their_versions() -> None:
    text = REPORT.to_text()
    assert text.count("it was late") == 1
    assert "FAILED  Fetch v5-6,8: does it  [area]" in text


def test_what_is_not_offered_is_told_with_the_reason() -> None:
    assert "not offered  Produce v12-13: the broker offers versions 0 to 11" in REPORT.to_text()


def test_what_was_left_behind_is_told() -> None:
    assert "left behind: topic t: NOT_CONTROLLER" in REPORT.to_text()


def test_verbose_shows_every_case() -> None:
    assert "Fetch v4: does more" not in REPORT.to_text()
    assert "Fetch v4: does more" in REPORT.to_text(verbose=True)


def test_only_versions_in_which_something_passed_count_as_spoken() -> None:
    assert REPORT.api_versions() == {"Fetch": [4], "Heartbeat": [0]}
    assert "3 passed, 3 failed, 2 not offered; 2 versions of 2 APIs spoken" in REPORT.summary()


def test_a_report_is_ok_unless_something_failed() -> None:
    assert not REPORT.ok
    assert Report(bootstrap="b:1", prefix="p", seconds=0, results=REPORT.results[:4]).ok


def test_json_says_the_same() -> None:
    found = json.loads(REPORT.to_json())
    assert (found["passed"], found["failed"], found["not_offered"]) == (3, 3, 2)
    assert found["api_versions"] == {"Fetch": [4], "Heartbeat": [0]}
    assert found["leftovers"] == ["topic t: NOT_CONTROLLER"]
    assert found["results"][4] == {
        "api": "Fetch",
        "api_key": 1,
        "version": 5,
        "area": "area",
        "check": "does it",
        "status": "failed",
        "reason": "it was late",
        "seconds": 0.5,
    }


def test_spans_draw_runs_together() -> None:
    assert spans([9, 3, 4, 5, 7, 4]) == "3-5,7,9"
    assert spans([]) == ""
