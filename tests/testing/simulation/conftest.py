"""How long each fault took to be recovered from: `pytest tests/testing/simulation -v` prints the table in the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

from kwire.testing.simulation.script import TimeToRecover

Note: TypeAlias = Callable[[Sequence[TimeToRecover]], None]
RECOVERIES = pytest.StashKey[list[tuple[str, TimeToRecover]]]()


@pytest.fixture
def recoveries(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Note:
    """Takes what a scenario has measured: into the table, and into the report for machines."""

    def note(found: Sequence[TimeToRecover]) -> None:
        told = request.config.stash.setdefault(RECOVERIES, [])
        for recovery in found:
            told.append((request.node.name, recovery))
            record_property("recovered in, within (ms)", f"{recovery.took_ms:.1f}, {recovery.within_ms:.0f}")

    return note


@pytest.fixture
def without_logs() -> Iterator[None]:
    """Worlds in which much goes wrong log much, and nobody reads it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    told = config.stash.get(RECOVERIES, [])
    if not told or config.get_verbosity() < 1:
        return
    slowest: dict[str, tuple[TimeToRecover, int]] = {}
    for name, recovery in told:
        worst, count = slowest.get(name, (recovery, 0))
        slowest[name] = max(worst, recovery, key=lambda each: each.took_ms / each.within_ms), count + 1
    terminalreporter.section("recovered in (the slowest of so many), and the bound, in virtual ms")
    for name, (recovery, count) in sorted(slowest.items()):
        terminalreporter.write_line(f"{recovery.took_ms:10.1f} {recovery.within_ms:8.0f} {count:4}  {name}")
