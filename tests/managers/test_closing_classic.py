"""What a classic member says at the end of its consumer (KIP-345, KIP-1092)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.managers.unsent import Channel
from kwire.model import TopicPartition
from kwire.protocol.messages.leave_group import LeaveGroupRequest

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)
MakeScenario = Callable[..., "Scenario"]


def farewell(scenario: Scenario, leave_group: bool | None) -> list[LeaveGroupRequest]:
    sent = scenario.leave_at_the_end(leave_group)
    newest = 5
    requests = [unsent.for_version(newest) if unsent.for_version else unsent.request for unsent in sent]
    return [request for request in requests if isinstance(request, LeaveGroupRequest)]


@pytest.mark.parametrize(
    ("instance_id", "leave_group", "says_so"),
    [
        (None, None, True),
        (None, True, True),
        (None, False, False),
        ("i1", None, False),
        ("i1", True, True),
        ("i1", False, False),
    ],
)
def test_what_is_said_at_the_end(
    make_scenario: MakeScenario, instance_id: str | None, leave_group: bool | None, says_so: bool
) -> None:
    """Java's LEAVE_GROUP, REMAIN_IN_GROUP and DEFAULT are True, False and None."""
    scenario = make_scenario(group_instance_id=instance_id)
    scenario.become_stable(O0)
    leaving = farewell(scenario, leave_group)
    assert [[(m.member_id, m.group_instance_id) for m in leave.members] for leave in leaving] == (
        [[("member-a", instance_id)]] if says_so else []
    )


@pytest.mark.parametrize("leave_group", [None, True, False])
def test_who_never_joined_says_nothing(scenario: Scenario, leave_group: bool | None) -> None:
    assert farewell(scenario, leave_group) == []


def test_who_leaves_while_a_join_is_open_goes_around_it(scenario: Scenario) -> None:
    """The broker answers nothing else on that connection until the others are in."""
    scenario.become_stable(O0)
    scenario.managers.membership.rejoin_needed("for a test")
    scenario.run_callback()
    sent = scenario.leave_at_the_end(None)
    assert [unsent.destination.channel for unsent in sent] == [Channel.CONTROL]


def test_a_static_member_that_is_overdue_keeps_its_place(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(group_instance_id="i1", max_poll_interval_ms=1_000)
    scenario.become_stable(O0)
    scenario.advance(1_500)
    assert not scenario.pending(LeaveGroupRequest)
    scenario.serve()
