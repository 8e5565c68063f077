"""The count of fired rows, which has to notice what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.states.coordinator import COORDINATOR, CoordinatorEvent
from kwire.states.machine import Machine

if TYPE_CHECKING:
    from tests.row_coverage import Cell, RowCoverage, all_rows, watch_machines
else:
    from row_coverage import Cell, RowCoverage, all_rows, watch_machines


def rows_of_the_coordinator() -> dict[Cell, str]:
    return {cell: text for cell, text in all_rows().items() if cell.table == COORDINATOR.name}


def test_every_row_of_every_table_is_wanted() -> None:
    assert {cell.table for cell in all_rows()} >= {"classic group", "consumer group", "connection", "partition"}
    assert len(rows_of_the_coordinator()) == len(COORDINATOR.rows)


def test_what_was_not_fired_is_missing_and_a_dropped_event_is_no_row() -> None:
    coverage = RowCoverage(rows_of_the_coordinator(), is_wanted=False)
    stop = watch_machines(coverage.on_fired)
    try:
        machine = Machine(COORDINATOR)
        for event in (CoordinatorEvent.LOST, CoordinatorEvent.NEEDED, CoordinatorEvent.LOOKUP_SENT):
            machine.fire(event)
    finally:
        stop()
    machine.fire(CoordinatorEvent.FOUND)
    assert len(coverage.missing) == len(COORDINATOR.rows) - 2
    assert "coordinator: DISCOVERING --FOUND--> STABLE" in coverage.missing
    assert "coordinator: DOWN --NEEDED--> INITIALIZED" not in coverage.missing
