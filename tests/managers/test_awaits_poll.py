"""When the network thread has to be told of polls. (That it misses none it has to hear of, all other tests here prove:
their application tells it of those alone.)"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.errors import NoOffsetForPartitionError
from kwire.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)


def test_where_records_just_flow_no_poll_is_waited_for(make_scenario: Callable[..., Scenario]) -> None:
    """Each poll that found nothing used to cost the network thread a turn: half of its work at a record a
    millisecond."""
    scenario = make_scenario(group_id=None)
    assert scenario.managers.awaits_poll, "nobody has polled yet"
    scenario.start_fetching(O0)
    scenario.poll()
    assert not scenario.managers.awaits_poll


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_joined_by_a_poll(make_scenario: Callable[..., Scenario], protocol: str) -> None:
    scenario = make_scenario(group_protocol=protocol)
    scenario.subscribe("orders")
    assert scenario.managers.awaits_poll
    scenario.poll()
    assert not scenario.managers.awaits_poll


def test_a_member_that_has_not_polled_in_time_waits_for_the_next_poll(make_scenario: Callable[..., Scenario]) -> None:
    scenario = make_scenario(max_poll_interval_ms=60_000)
    scenario.become_stable(O0)
    assert not scenario.managers.awaits_poll
    scenario.advance(60_001)
    assert scenario.managers.awaits_poll


def test_an_error_that_stays_true_waits_for_the_next_poll(make_scenario: Callable[..., Scenario]) -> None:
    scenario = make_scenario(auto_offset_reset="none")
    scenario.assign(O0)
    scenario.poll()
    scenario.serve()
    scenario.answer_committed({O0: -1})
    scenario.take_error(NoOffsetForPartitionError)
    assert scenario.managers.awaits_poll
    scenario.seek(O0, 5)
    scenario.poll()
    assert not scenario.managers.awaits_poll
