"""The table of faults, row by row, as schedules against a real Kafka: `scenarios()["row-01"]`.

Each row that a real cluster and its proxies can reproduce, and that is about a feature of kwire, is a schedule with
bounds of recovery; the data is in `scenario_rows.py`. Called by the command line and the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kwire.testing.faults.scenario_rows import ROWS, Expectation, FaultRow
from kwire.testing.faults.schedule import Schedule
from kwire.testing.faults.schedule_text import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScenario:
    """One row as a schedule, whose title says what the row is about."""

    row: FaultRow
    schedule: Schedule

    @property
    def name(self) -> str:
        return f"row-{self.row.number:02}"

    @property
    def expects(self) -> tuple[Expectation, ...]:
        """The expectations beside the invariants."""
        return self.row.expects

    def bounds_ms(self) -> Mapping[str, int]:
        """The bound of recovery by fault, counted from the step's `recovers_from_ms`."""
        own = {fault: bound.in_ms(self.schedule.settings) for fault, bound in self.row.bounds.items()}
        return {**self.schedule.bounds_ms(), **own}

    @property
    def within_ms(self) -> int:
        """The longest of the bounds."""
        return max(self.bounds_ms().values())


def scenarios() -> Mapping[str, RowScenario]:
    """All scenarios by name."""
    return {scenario.name: scenario for scenario in map(_scenario, ROWS)}


def _scenario(row: FaultRow) -> RowScenario:
    return RowScenario(row=row, schedule=replace(parse(row.text), title=f"row {row.number}: {row.title}"))
