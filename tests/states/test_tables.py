"""What every transition table promises, and what the classic group's table says of the group protocol."""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import TypeAlias

import pytest

from kwire.errors import IllegalTransitionError
from kwire.states.classic_group import CLASSIC_GROUP, FACTS, ClassicEffect, ClassicEvent, ClassicState
from kwire.states.consumer_group import CONSUMER_GROUP, MemberEffect, MemberEvent, MemberState
from kwire.states.machine import Machine, Row, Table
from kwire.states.partition import PARTITION, STATE_REASONS, PartitionEffect, PartitionEvent, PartitionState
from kwire.states.telemetry import TELEMETRY, TelemetryEffect, TelemetryEvent, TelemetryState

AnyTable: TypeAlias = Table[Enum, Enum, Enum]
Enums: TypeAlias = tuple[type[Enum], type[Enum], type[Enum]]

TABLES: dict[str, tuple[AnyTable, Enums]] = {
    "classic group": (CLASSIC_GROUP, (ClassicState, ClassicEvent, ClassicEffect)),  # type: ignore[dict-item]  # a
    "consumer group": (CONSUMER_GROUP, (MemberState, MemberEvent, MemberEffect)),  # type: ignore[dict-item]  # table
    "partition": (PARTITION, (PartitionState, PartitionEvent, PartitionEffect)),  # type: ignore[dict-item]  # is invariant
    "telemetry": (TELEMETRY, (TelemetryState, TelemetryEvent, TelemetryEffect)),  # type: ignore[dict-item]  # as well
}
every_table = pytest.mark.parametrize(("table", "enums"), TABLES.values(), ids=list(TABLES))
S, E, F = ClassicState, ClassicEvent, ClassicEffect


def reachable(table: AnyTable, start: Enum) -> set[Enum]:
    targets: defaultdict[Enum, set[Enum]] = defaultdict(set)
    for row in table.rows:
        targets[row.source].add(row.target)
    seen, todo = {start}, [start]
    while todo:
        new = targets[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


@every_table
def test_every_cell_has_exactly_one_answer(table: AnyTable, enums: Enums) -> None:
    states, events, _ = enums
    cells = {(state, event) for state in states for event in events}
    rows = {(row.source, row.event) for row in table.rows}
    parts = [rows, set(table.dropped), set(table.impossible)]
    assert set().union(*parts) == cells
    assert sum(map(len, parts)) == len(cells)


@every_table
def test_every_cell_without_a_row_has_a_reason(table: AnyTable, enums: Enums) -> None:
    reasons = {**table.dropped, **table.impossible}
    assert all(len(reason.split()) >= 2 for reason in reasons.values())


@every_table
def test_every_state_can_be_reached(table: AnyTable, enums: Enums) -> None:
    assert reachable(table, table.initial) == set(enums[0])


@every_table
def test_every_event_and_every_effect_is_used(table: AnyTable, enums: Enums) -> None:
    _, events, effects = enums
    assert {row.event for row in table.rows} == set(events)
    assert {effect for row in table.rows for effect in row.effects} == set(effects)


@every_table
def test_every_cell_does_what_the_table_says_and_nothing_else(table: AnyTable, enums: Enums) -> None:
    """Rows move and return their effects, dropped events do nothing, impossible ones raise and change nothing."""
    states, events, _ = enums
    rows = {(row.source, row.event): row for row in table.rows}
    for state in states:
        for event in events:
            fired: list[Row[Enum, Enum, Enum]] = []
            machine = in_state(table, state, fired)
            if (state, event) in table.impossible:
                with pytest.raises(IllegalTransitionError, match=f"{event.name} in {state.name}"):
                    machine.fire(event)
                assert (machine.state, fired) == (state, [])
            elif (state, event) in table.dropped:
                assert machine.fire(event) == ()
                assert (machine.state, fired) == (state, [])
            else:
                row = rows[state, event]
                assert machine.fire(event) == row.effects
                assert (machine.state, fired) == (row.target, [row])


def in_state(table: AnyTable, state: Enum, fired: list[Row[Enum, Enum, Enum]]) -> Machine[Enum, Enum, Enum]:
    """A machine that was brought to a state by rows of its table."""
    path: dict[Enum, tuple[Enum, ...]] = {table.initial: ()}
    todo = [table.initial]
    while todo:
        source = todo.pop(0)
        for row in table.rows:
            if row.source is source and row.target not in path:
                path[row.target] = (*path[source], row.event)
                todo.append(row.target)
    machine: Machine[Enum, Enum, Enum] = Machine(table, lambda _, row: fired.append(row))
    for event in path[state]:
        machine.fire(event)
    fired.clear()
    return machine


def test_a_partition_that_is_not_fetched_says_why() -> None:
    assert set(STATE_REASONS) == set(PartitionState) - {PartitionState.FETCHING}


# --- the classic group --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("goal", [S.STABLE, S.UNJOINED])
def test_stable_and_unjoined_can_be_reached_from_every_state(state: ClassicState, goal: ClassicState) -> None:
    assert goal in reachable(TABLES["classic group"][0], state)


@pytest.mark.parametrize("state", S)
def test_every_state_says_what_it_waits_for(state: ClassicState) -> None:
    assert FACTS[state].waits_for


def test_only_an_open_join_and_no_membership_keep_heartbeats_and_the_poll_timer_away() -> None:
    silent = {state for state in S if not FACTS[state].heartbeats}
    assert silent == {S.UNJOINED, S.PREPARE_REBALANCE}
    assert silent == {state for state in S if not FACTS[state].poll_timer}


OWNING = {S.REVOKING_PARTITIONS, S.ASSIGNING_PARTITIONS, S.PARTITIONS_ASSIGNED, S.STABLE}
CALLS_BACK = {F.CALL_REVOKED, F.CALL_LOST}


def test_partitions_are_only_given_up_after_a_callback() -> None:
    """A row that drops partitions comes from REVOKING_PARTITIONS, or leaves, for which the application has run the
    callback before; and a row that enters REVOKING_PARTITIONS asks for the callback."""
    for row in CLASSIC_GROUP.rows:
        if F.DROP_PARTITIONS in row.effects:
            assert row.source is S.REVOKING_PARTITIONS or row.event is E.LEAVE_WANTED
        if row.target is S.REVOKING_PARTITIONS and row.source is not S.REVOKING_PARTITIONS:
            assert CALLS_BACK & set(row.effects)
        if row.source in OWNING and row.target not in OWNING:
            assert F.DROP_PARTITIONS in row.effects or row.event is E.REJOIN_KEEPING


def test_fetching_stops_before_the_callback_is_asked_for() -> None:
    for row in CLASSIC_GROUP.rows:
        for call in CALLS_BACK & set(row.effects):
            assert row.effects.index(F.STOP_FETCHING) < row.effects.index(call)


def test_the_leave_is_sent_while_the_member_is_still_known() -> None:
    for row in CLASSIC_GROUP.rows:
        if F.SEND_LEAVE in row.effects:
            assert row.effects.index(F.SEND_LEAVE) < row.effects.index(F.FORGET_MEMBER)


def test_a_member_that_loses_its_partitions_is_told_so_and_one_that_rebalances_is_asked_to_give_them_back() -> None:
    for row in CLASSIC_GROUP.rows:
        if F.CALL_LOST in row.effects:
            assert row.event in (E.MEMBERSHIP_LOST, E.POLL_OVERDUE, E.PARTITIONS_LOST)
            assert F.FORGET_MEMBER in row.effects or row.event is E.PARTITIONS_LOST
        if F.CALL_REVOKED in row.effects:
            assert row.event in (E.REJOIN_NEEDED, E.SYNCED_GIVING_UP)
            assert F.FORGET_MEMBER not in row.effects


@pytest.mark.parametrize("join", [E.JOINED_AS_LEADER, E.JOINED_AS_FOLLOWER])
def test_a_rebalance_takes_the_steps_of_the_java_client_in_their_order(join: ClassicEvent) -> None:
    """Eager: commit and revoke, join, (assign), sync, assigned callback, positions."""
    machine = Machine(CLASSIC_GROUP)
    for event in (E.JOIN_WANTED, E.JOIN_SENT, E.JOINED_AS_FOLLOWER, E.SYNCED, E.ASSIGNED, E.POSITIONS_KNOWN):
        machine.fire(event)
    steps: list[tuple[ClassicState, tuple[ClassicEffect, ...]]] = []
    for event in (E.REJOIN_NEEDED, E.RELEASED, E.JOIN_SENT, join, E.SYNCED, E.ASSIGNED, E.POSITIONS_KNOWN):
        effects = machine.fire(event)
        steps.append((machine.state, effects))
    assert steps == [
        (S.REVOKING_PARTITIONS, (F.STOP_FETCHING, F.CALL_REVOKED)),
        (S.PARTITIONS_REVOKED, (F.DROP_PARTITIONS,)),
        (S.PREPARE_REBALANCE, ()),
        (S.COMPLETING_REBALANCE, ()),
        (S.ASSIGNING_PARTITIONS, (F.ADOPT_ASSIGNMENT, F.CALL_ASSIGNED)),
        (S.PARTITIONS_ASSIGNED, (F.START_FETCHING,)),
        (S.STABLE, ()),
    ]
