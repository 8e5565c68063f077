"""A ledger's lines become the events they were made of."""

from __future__ import annotations

import pytest

from kwire.errors import InvalidArgumentError
from kwire.testing.invariants.lines import event_of, events_of
from kwire.testing.simulation.run import simulate


@pytest.mark.slow
@pytest.mark.parametrize("processing", [False, True])
def test_lines_become_the_same_events(processing: bool) -> None:
    ledger = simulate(2, processing=processing).ledger
    assert list(events_of([*ledger.lines(), "\n"])) == ledger.events


@pytest.mark.parametrize(
    "line", ["no JSON", "[]", '{"event":"Ate"}', '{"event":"Ended"}', '{"event":"Assigned","partitions":[1]}']
)
def test_a_line_that_is_none_is_quoted(line: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no event of a history"):
        event_of(line)
