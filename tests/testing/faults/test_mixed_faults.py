"""The ten minutes of mixed faults that the documents quote: each client that is compared can go through them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.testing.faults.kind import Need
from kwire.testing.faults.member_plan import MemberPlan
from kwire.testing.faults.rules import check
from kwire.testing.faults.schedule import NAMED_CLIENTS, Schedule
from kwire.testing.faults.schedule_text import parse

FILE = Path(__file__).parents[3] / "docs" / "mixed-faults.txt"
# Of the catalogue's forty; the others change what is in the logs, or need members that take orders.
MIN_KINDS = 25


@pytest.fixture(scope="module")
def schedule() -> Schedule:
    return parse(FILE.read_text())


def test_they_last_for_ten_minutes_and_are_of_many_kinds(schedule: Schedule) -> None:
    assert schedule.end_ms == 600_000
    assert len({step.fault for step in schedule.steps}) >= MIN_KINDS


@pytest.mark.parametrize("client", NAMED_CLIENTS)
def test_any_client_can_take_part(schedule: Schedule, client: str) -> None:
    its_own = schedule.with_client(client)
    check(its_own)
    plan = MemberPlan.of(0, its_own)
    assert plan.topics == ("orders",)  # Java's program reads one
    assert not plan.may_be_slow


def test_nothing_depends_on_the_machine(schedule: Schedule) -> None:
    assert Need.LIBFAKETIME not in {need for step in schedule.steps for need in step.kind.needs}
