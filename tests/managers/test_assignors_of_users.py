"""What becomes of a plan that an assignor of the user's own makes, under each rebalance protocol."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import pytest

from kwire.assignors.base import NO_RACKS, Assignor, MemberSubscription, PartitionRacks, RebalanceProtocol
from kwire.errors import AssignorError
from kwire.model import TopicPartition
from kwire.protocol.consumer_protocol import decode_assignment, encode_subscription
from kwire.protocol.messages import consumer_protocol as wire
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
MakeScenario = Callable[..., "Scenario"]


class AllToTheLeader(Assignor):
    """Gives all partitions to the leader, whoever owns them."""

    name = "all-to-the-leader"

    def __init__(self, protocol: RebalanceProtocol, error: Exception | None = None) -> None:
        self._protocol = protocol
        self._error = error

    @property
    def protocols(self) -> Collection[RebalanceProtocol]:
        return (self._protocol,)

    def assign(
        self,
        partitions_per_topic: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        *,
        partition_racks: PartitionRacks = NO_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        if self._error is not None:
            raise self._error
        return {"member-a": [O0, O1], "member-b": []}


def lead(scenario: Scenario) -> None:
    """The other member says that it has partition 1."""
    owned = [wire.TopicPartition(topic="orders", partitions=[1])]
    wanted = {
        "member-a": wire.ConsumerProtocolSubscription(topics=["orders"]),
        "member-b": wire.ConsumerProtocolSubscription(topics=["orders"], owned_partitions=owned, generation_id=1),
    }
    members = [JoinGroupResponseMember(member_id=id_, metadata=encode_subscription(3, w)) for id_, w in wanted.items()]
    scenario.start_joining("orders")
    joined = JoinGroupResponse(
        generation_id=2, protocol_name="all-to-the-leader", leader="member-a", member_id="member-a", members=members
    )
    scenario.answer(JoinGroupRequest, joined)


def test_an_eager_plan_may_give_anything_to_anybody_for_nobody_has_anything(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(partition_assignment_strategy=[AllToTheLeader(RebalanceProtocol.EAGER)])
    lead(scenario)
    plan = {
        entry.member_id: decode_assignment(entry.assignment).assigned_partitions
        for entry in scenario.request(SyncGroupRequest).assignments
    }
    assert plan == {"member-a": [wire.TopicPartition(topic="orders", partitions=[0, 1])], "member-b": []}


def test_a_cooperative_plan_may_not_give_away_what_somebody_has(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(partition_assignment_strategy=[AllToTheLeader(RebalanceProtocol.COOPERATIVE)])
    lead(scenario)
    assert "orders-1" in str(scenario.take_error(AssignorError))
    assert not scenario.pending(SyncGroupRequest)


@pytest.mark.parametrize("protocol", list(RebalanceProtocol))
def test_an_assignor_that_fails_is_an_error_of_the_poll(
    make_scenario: MakeScenario, protocol: RebalanceProtocol
) -> None:
    scenario = make_scenario(partition_assignment_strategy=[AllToTheLeader(protocol, RuntimeError("no idea"))])
    lead(scenario)
    assert "failed: RuntimeError: no idea" in str(scenario.take_error(AssignorError))
    assert not scenario.pending(SyncGroupRequest)
