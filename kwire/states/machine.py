"""The engine of the tables: rows, tables, machines.

A `Row` says: in this state, on this event, go to that state and perform these effects. There are no guards: a
condition becomes a more precise event, named before it is fired. A `Table` has at most one row for a (state, event)
pair and gives a reason for every pair without a row: IMPOSSIBLE (a bug if it happens) or DROPPED (legal and ignored). A
`Machine` is the only place in the project where such a state is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from kwire.errors import IllegalTransitionError

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)
F = TypeVar("F", bound=Enum)


class Row(NamedTuple, Generic[S, E, F]):
    """One transition."""

    source: S
    event: E
    target: S
    effects: tuple[F, ...] = ()
    why: str = ""

    def __str__(self) -> str:
        effects = f" [{', '.join(effect.name for effect in self.effects)}]" if self.effects else ""
        return f"{self.source.name} --{self.event.name}--> {self.target.name}{effects}"


Cells = Mapping[tuple[S, E], str]


class Table(Generic[S, E, F]):
    """All rows of one machine; immutable; refuses two answers to one (state, event)."""

    def __init__(
        self,
        name: str,
        initial: S,
        rows: Iterable[Row[S, E, F]],
        *,
        dropped: Cells[S, E] | None = None,
        impossible: Cells[S, E] | None = None,
    ) -> None:
        self.name = name
        self.initial = initial
        self.rows = tuple(rows)
        self.dropped: Cells[S, E] = dict(dropped or {})
        self.impossible: Cells[S, E] = dict(impossible or {})
        self._cells = {(row.source, row.event): row for row in self.rows}
        answers = [*((row.source, row.event) for row in self.rows), *self.dropped, *self.impossible]
        if len(answers) != len(set(answers)):
            twice = {f"({state.name}, {event.name})" for state, event in answers if answers.count((state, event)) > 1}
            raise ValueError(f"table {name} answers a cell twice: {', '.join(sorted(twice))}")

    def row(self, state: S, event: E) -> Row[S, E, F] | None:
        """The row of this cell, or None when the event is to be dropped.

        Raises:
            IllegalTransitionError: the cell is impossible, or no reason is given for it.
        """
        row = self._cells.get((state, event))
        if row is None and (state, event) not in self.dropped:
            why = self.impossible.get((state, event), "no row")
            raise IllegalTransitionError(f"{self.name}: {event.name} in {state.name}: {why}")
        return row


OnRow = Callable[[str, Row[S, E, F]], None]


class Machine(Generic[S, E, F]):
    """A table with a current state. `on_row` sees every row that was fired: for logs, metrics and tests."""

    __slots__ = ("_on_row", "_state", "_table")

    def __init__(self, table: Table[S, E, F], on_row: OnRow[S, E, F] | None = None) -> None:
        self._table = table
        self._state = table.initial
        self._on_row = on_row

    @property
    def state(self) -> S:
        return self._state

    def fire(self, event: E) -> tuple[F, ...]:
        """Take the transition and return the effects to perform, in order. An illegal event changes nothing."""
        row = self._table.row(self._state, event)
        if row is None:
            return ()
        self._state = row.target
        if self._on_row is not None:
            self._on_row(self._table.name, row)
        return row.effects

    def __repr__(self) -> str:
        return f"<{self._table.name} {self._state.name}>"
