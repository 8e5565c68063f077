"""The engine of the tables."""

from __future__ import annotations

from enum import Enum, auto

import pytest

from kwire.errors import IllegalTransitionError
from kwire.states.machine import Machine, Row, Table


class Door(Enum):
    OPEN = auto()
    SHUT = auto()


class Push(Enum):
    PUSH = auto()
    PULL = auto()


class Noise(Enum):
    BANG = auto()


def table() -> Table[Door, Push, Noise]:
    return Table(
        "door",
        Door.OPEN,
        [Row(Door.OPEN, Push.PUSH, Door.SHUT, (Noise.BANG,)), Row(Door.SHUT, Push.PULL, Door.OPEN)],
        dropped={(Door.OPEN, Push.PULL): "it is open already"},
        impossible={(Door.SHUT, Push.PUSH): "it opens to the other side"},
    )


def test_a_machine_begins_in_the_initial_state() -> None:
    assert Machine(table()).state is Door.OPEN


def test_firing_moves_and_returns_the_effects_and_tells_the_hook() -> None:
    seen: list[str] = []
    machine = Machine(table(), lambda name, row: seen.append(f"{name}: {row}"))
    assert machine.fire(Push.PUSH) == (Noise.BANG,)
    assert machine.state is Door.SHUT
    assert seen == ["door: OPEN --PUSH--> SHUT [BANG]"]


def test_a_dropped_event_changes_nothing() -> None:
    machine = Machine(table())
    assert machine.fire(Push.PULL) == ()
    assert machine.state is Door.OPEN


def test_an_impossible_event_raises_with_the_reason_and_changes_nothing() -> None:
    machine = Machine(table())
    machine.fire(Push.PUSH)
    with pytest.raises(IllegalTransitionError, match="door: PUSH in SHUT: it opens to the other side"):
        machine.fire(Push.PUSH)
    assert machine.state is Door.SHUT


def test_a_cell_nobody_thought_of_raises() -> None:
    unfinished: Table[Door, Push, Noise] = Table("door", Door.OPEN, [])
    with pytest.raises(IllegalTransitionError, match="no row"):
        Machine(unfinished).fire(Push.PUSH)


def test_a_table_refuses_two_answers_to_one_cell() -> None:
    rows = [Row[Door, Push, Noise](Door.OPEN, Push.PUSH, target) for target in Door]
    with pytest.raises(ValueError, match=r"\(OPEN, PUSH\)"):
        Table("door", Door.OPEN, rows)
    with pytest.raises(ValueError, match=r"\(OPEN, PUSH\)"):
        Table("door", Door.OPEN, rows[:1], dropped={(Door.OPEN, Push.PUSH): "why not"})


def test_machine_and_row_say_what_they_are() -> None:
    assert repr(Machine(table())) == "<door OPEN>"
    assert str(table().rows[1]) == "SHUT --PULL--> OPEN"
