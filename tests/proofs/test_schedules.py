"""Proofs that are schedules of the fault harness: what they would do to whom, before Kafka is started."""

from __future__ import annotations

import pytest

from kwire.testing.faults.order import RunOrder
from kwire.testing.faults.rules import check
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import OneMember
from proofs.schedules import ASSIGNORS, PROTOCOLS, catching_up, mixed_group, rolling

ROUNDS = (1, 5)
CHANGES = (2, 20, 60)


def orders() -> list[RunOrder]:
    return [
        *(mixed_group(name, changes, 12) for name in ASSIGNORS for changes in CHANGES),
        *(
            rolling(protocol, rounds, static=is_static)
            for protocol in PROTOCOLS
            for rounds in ROUNDS
            for is_static in (False, True)
        ),
        *(catching_up(protocol, rounds) for protocol in PROTOCOLS for rounds in ROUNDS),
    ]


@pytest.mark.parametrize("order", orders(), ids=lambda order: order.schedule.title)
def test_they_make_sense_to_the_harness(order: RunOrder) -> None:
    check(order.schedule)


@pytest.mark.parametrize("name", ASSIGNORS)
def test_each_client_of_a_mixed_group_is_closed_and_killed(name: str) -> None:
    schedule = mixed_group(name, 20, 12).schedule
    assert len(schedule.steps) == 10
    assert {(schedule.members_of(number_of(step)).client, step.fault) for step in schedule.steps} == {
        (client, fault) for client in ASSIGNORS[name] for fault in ("consumer-close", "consumer-kill")
    }


def number_of(step: Step) -> int:
    assert isinstance(step.target, OneMember)
    return step.target.number
