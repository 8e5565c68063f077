"""Row coverage: which rows of the tables in `kwire/states/` the tests have fired. Registered by `conftest.py`.

Each row is a decision, and the cell test of the tables (`tests/states/`) only reads the decision back. So each must
also be fired by a test in which something happens, to a manager or to the whole consumer. A full run fails over rows
that nobody fired; a part of the suite lists them when asked: `scripts/test tests/managers --rows`. Processes that share
a run (`-n`) each tell what they have fired, and the one that started them adds it up.
"""

from __future__ import annotations

import importlib
import pkgutil
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import pytest

import kwire.states
from kwire.states.machine import Machine, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

HERE = Path(__file__).parent
CELL_TESTS = HERE / "states"
TOLD = "row coverage"


class Told(TypedDict):
    """What one process tells another, in what a channel between them can carry: rows go by their number."""

    is_whole: bool
    fired: list[int]


class Cell(NamedTuple):
    table: str
    state: Enum
    event: Enum


def all_rows() -> dict[Cell, str]:
    """Every row of every table, and how it reads."""
    names = [f"kwire.states.{found.name}" for found in pkgutil.iter_modules(kwire.states.__path__)]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    tables = [value for value in values if isinstance(value, Table)]
    return {Cell(table.name, row.source, row.event): f"{table.name}: {row}" for table in tables for row in table.rows}


def watch_machines(on_fired: Callable[[Cell], object]) -> Callable[[], None]:
    """Hear of every event that a machine takes, on whatever thread; the answer stops it."""
    fire = Machine.fire

    def watched(machine: Machine[Enum, Enum, Enum], event: Enum) -> tuple[Enum, ...]:
        cell = Cell(machine._table.name, machine.state, event)
        effects = fire(machine, event)
        on_fired(cell)
        return effects

    def stop() -> None:
        Machine.fire = fire  # type: ignore[method-assign]  # as it was

    Machine.fire = watched  # type: ignore[assignment,method-assign]  # the tests' alone: a hook would cost each consumer
    return stop


class RowCoverage:
    """A plugin of pytest.

    Args:
        rows: what has to be fired, and how it reads.
        is_wanted: whether to report a part of the suite as well.
    """

    def __init__(self, rows: Mapping[Cell, str], *, is_wanted: bool) -> None:
        self._rows = rows
        self._is_wanted = is_wanted
        self._is_whole = True
        self._is_cell_test = False
        self._fired: set[Cell] = set()

    def on_fired(self, cell: Cell) -> None:
        if not self._is_cell_test:
            self._fired.add(cell)

    @property
    def missing(self) -> list[str]:
        return [text for cell, text in self._rows.items() if cell not in self._fired]

    # --- processes that share a run -------------------------------------------------------------------------

    def told(self) -> Told:
        """What this process knows."""
        return {"is_whole": self._is_whole, "fired": [i for i, cell in enumerate(self._rows) if cell in self._fired]}

    def hear(self, told: Told) -> None:
        """What another one knows."""
        cells = list(self._rows)
        self._is_whole &= told["is_whole"]
        self._fired.update(cells[i] for i in told["fired"])

    # --- the hooks of pytest --------------------------------------------------------------------------------

    def pytest_deselected(self) -> None:
        self._is_whole = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._is_whole &= {item.path for item in session.items} >= set(HERE.rglob("test_*.py"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        stop = watch_machines(self.on_fired)
        try:
            return (yield)
        finally:
            stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._is_cell_test = CELL_TESTS in item.path.parents
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A run that failed or stopped early has fired less than it could: its rows say nothing."""
        self._is_whole &= exitstatus == pytest.ExitCode.OK
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[TOLD] = self.told()
        elif self._is_whole and self.missing:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """One of the processes has ended; one that has died tells nothing, and the run has failed."""
        output: dict[str, Told] = getattr(node, "workeroutput", {})
        if TOLD in output:
            self.hear(output[TOLD])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        missing = self.missing
        if not (self._is_wanted or (self._is_whole and missing)):
            return
        terminalreporter.section("row coverage")
        terminalreporter.line(
            f"{len(self._rows) - len(missing)} of {len(self._rows)} rows were fired outside tests/states"
        )
        for text in missing:
            terminalreporter.line(f"NEVER FIRED {text}")
