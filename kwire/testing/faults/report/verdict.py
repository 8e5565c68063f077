"""The report's first sentence: whether the client has passed, and why."""

from __future__ import annotations

from collections import Counter

from kwire.testing.faults.report.figures import count, counted, duration
from kwire.testing.faults.report.summary import Summary


def verdict(summary: Summary) -> str:
    """One sentence, as plain text."""
    records = summary.records
    ran = f"{counted(len(summary.recoveries), 'fault')} in {duration(summary.duration_ms)}"
    if summary.has_passed:
        return f"{summary.name} passed: {_came(summary)}; {ran}{_slowest(summary)}."
    wrong = [
        *([] if records.sent else ["nothing was sent"]),
        *([_violated(summary)] if summary.violations else []),
        *([f"{counted(records.lost, 'record')} lost"] if records.lost else []),
        *([f"{counted(len(summary.stuck), 'partition')} stuck"] if summary.stuck else []),
        *([f"{counted(len(summary.late), 'recovery', 'recoveries')} past the bound"] if summary.late else []),
    ]
    return f"{summary.name} failed: {'; '.join(wrong)}; {ran}."


def _came(summary: Summary) -> str:
    records = summary.records
    came = f"{count(records.sent)} records sent, none lost"
    if not records.duplicates:
        return f"{came}, none twice"
    unexplained = f", {count(records.unexplained)} of them unexplained" if records.unexplained else ", all explained"
    return f"{came}, {count(records.duplicates)} came again{unexplained}"


def _violated(summary: Summary) -> str:
    rules = Counter(violation.rule for violation in summary.violations)
    told = ", ".join(f"{rule} ({number})" for rule, number in rules.most_common())
    return f"{counted(len(summary.violations), 'violation')}: {told}"


def _slowest(summary: Summary) -> str:
    if summary.recovery_max_ms is None:
        return ""
    return f", slowest recovery {duration(summary.recovery_max_ms)}"
