"""What a classic member says at the end of its consumer (KIP-345, KIP-1092)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.managers.leaving import PATIENCE_MS
from kwire.managers.unsent import Channel
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

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


# --- while the first join is open: the broker has made a member, whose id is still on its way ---------------------


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED])
def test_the_end_waits_for_the_id_of_the_member_that_an_open_join_makes(scenario: Scenario, code: ErrorCode) -> None:
    """All the others' next rebalance waited for that member until its session timed out, 45 s."""
    scenario.start_joining("orders")
    leaving = scenario.managers.membership.leaving
    assert farewell(scenario, None) == []
    assert not leaving.idle
    scenario.answer(JoinGroupRequest, JoinGroupResponse(error_code=code, generation_id=1, member_id="member-x"))
    assert [member.member_id for member in scenario.written_for(LeaveGroupRequest, 5).members] == ["member-x"]
    assert not leaving.idle
    scenario.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert leaving.idle


def test_the_end_waits_too_if_the_application_has_unsubscribed_before(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    scenario.unsubscribe()
    farewell(scenario, None)
    assert not scenario.managers.membership.leaving.idle


def test_the_end_does_not_wait_long_for_an_id(scenario: Scenario) -> None:
    """Brokers before 2.2 make a member without asking it to join again: their answer waits for the other members."""
    scenario.start_joining("orders")
    farewell(scenario, None)
    scenario.turn()
    scenario.advance(PATIENCE_MS - 1)
    assert not scenario.managers.membership.leaving.idle
    scenario.advance(1)
    assert scenario.managers.membership.leaving.idle


def test_the_end_does_not_wait_for_an_id_that_does_not_come(scenario: Scenario) -> None:
    scenario.start_joining("orders")
    farewell(scenario, None)
    scenario.fail(JoinGroupRequest)
    assert scenario.managers.membership.leaving.idle


@pytest.mark.parametrize(("instance_id", "leave_group"), [(None, False), ("i1", None)])
def test_who_keeps_its_place_does_not_wait_for_its_id(
    make_scenario: MakeScenario, instance_id: str | None, leave_group: bool | None
) -> None:
    scenario = make_scenario(group_instance_id=instance_id)
    scenario.start_joining("orders")
    assert farewell(scenario, leave_group) == []
    assert scenario.managers.membership.leaving.idle
