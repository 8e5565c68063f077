"""The count of fired rows, which has to notice what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.states.machine import Machine
from kwire.states.partition import PARTITION, PartitionEvent

if TYPE_CHECKING:
    from tests.row_coverage import Cell, RowCoverage, all_rows, watch_machines
else:
    from row_coverage import Cell, RowCoverage, all_rows, watch_machines


def rows_of_a_partition() -> dict[Cell, str]:
    return {cell: text for cell, text in all_rows().items() if cell.table == PARTITION.name}


def test_every_row_of_every_table_is_wanted() -> None:
    assert {cell.table for cell in all_rows()} == {"classic group", "consumer group", "partition", "telemetry"}
    assert len(rows_of_a_partition()) == len(PARTITION.rows)


def test_what_was_not_fired_is_missing_and_a_dropped_event_is_no_row() -> None:
    coverage = RowCoverage(rows_of_a_partition(), is_wanted=False)
    stop = watch_machines(coverage.on_fired)
    try:
        machine = Machine(PARTITION)
        for event in (PartitionEvent.SEEK, PartitionEvent.COMMITTED_OFFSET_FOUND, PartitionEvent.VALIDATION_WANTED):
            machine.fire(event)
    finally:
        stop()
    machine.fire(PartitionEvent.VALIDATED)
    assert len(coverage.missing) == len(PARTITION.rows) - 2
    assert "partition: AWAIT_VALIDATION --VALIDATED--> FETCHING" in coverage.missing
    assert "partition: INITIALIZING --SEEK--> FETCHING [SET_POSITION]" not in coverage.missing


def test_what_another_process_has_fired_counts() -> None:
    mine, theirs = (RowCoverage(rows_of_a_partition(), is_wanted=False) for _ in range(2))
    first, *others = rows_of_a_partition()
    mine.on_fired(first)
    for cell in others:
        theirs.on_fired(cell)
    assert mine.missing == [rows_of_a_partition()[cell] for cell in others]
    mine.hear(theirs.told())
    assert mine.missing == []


SUITE = """
from kwire.states.machine import Machine
from kwire.states.partition import PARTITION, PartitionEvent

def test_one_row():
    Machine(PARTITION).fire(PartitionEvent.SEEK)

def test_a_dropped_event():
    machine = Machine(PARTITION)
    machine.fire(PartitionEvent.RESET_WANTED)
    machine.fire(PartitionEvent.COMMITTED_OFFSET_FOUND)
"""
PLUGIN = """
import pathlib
import row_coverage
from row_coverage import RowCoverage, all_rows

row_coverage.HERE = pathlib.Path(__file__).parent
ROWS = {cell: text for cell, text in all_rows().items() if (cell.state.name, cell.event.name) in ROWS_WANTED}

def pytest_configure(config):
    config.pluginmanager.register(RowCoverage(ROWS, is_wanted=False), "row coverage")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "code"),
    [([("INITIALIZING", "SEEK")], 0), ([("INITIALIZING", "SEEK"), ("AWAIT_VALIDATION", "VALIDATED")], 1)],
)
def test_a_run_of_two_processes_fails_over_what_neither_has_fired(
    wanted: list[tuple[str, str]], code: int, tmp_path: Path
) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text(f"ROWS_WANTED = {wanted}\n{PLUGIN}")
    command = [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "--numprocesses", "2"]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert ("NEVER FIRED partition: AWAIT_VALIDATION --VALIDATED--> FETCHING" in ran.stdout) == bool(code)
