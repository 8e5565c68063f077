"""ConsumerGroupHeartbeat and ConsumerGroupDescribe as a broker answers them: what it refuses, and what it tells."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.testing.cluster.call import Call
from kwire.testing.cluster.handlers import consumer_group_describe, consumer_group_heartbeat
from kwire.testing.cluster.request_context import ConnectionSession
from kwire.testing.cluster.state import ClusterState

NOT_ASKED_FOR = -2147483648


@pytest.fixture
def cluster() -> ClusterState:
    made = ClusterState(2, now_s=lambda: 0.0)
    made.create_topic("a", 2)
    return made


def call(cluster: ClusterState, version: int = 1, *, elsewhere: bool = False) -> Call:
    """A call to the coordinator of the group "g", or to the other broker."""
    here = [cluster.group_error("g", broker) is ErrorCode.NONE for broker in cluster.brokers.values()]
    broker = cluster.brokers[here.index(not elsewhere)]
    return Call(cluster=cluster, broker=broker, version=version, client_id="c", session=ConnectionSession("/127.0.0.1"))


def heartbeat(cluster: ClusterState, version: int = 1, /, **fields: object) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat that joins, but for these fields."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1, subscribed_topic_names=["a"], topic_partitions=[]
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return trio.run(partial(consumer_group_heartbeat.handle, request, call(cluster, version)))


def describe(cluster: ClusterState, group_id: str, *, elsewhere: bool = False) -> DescribedGroup:
    """What is told of one group."""
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)
    answer: ConsumerGroupDescribeResponse = trio.run(
        consumer_group_describe.handle, request, call(cluster, elsewhere=elsewhere)
    )
    return answer.groups[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": " "},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"subscribed_topic_names": None},
        {"member_epoch": -2},
        {"member_epoch": -3, "instance_id": "i"},
    ],
)
def test_heartbeats_that_contradict_themselves_are_invalid(cluster: ClusterState, fields: dict[str, object]) -> None:
    answer = heartbeat(cluster, **fields)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message
    assert cluster.groups.get("g") is None


def test_the_broker_makes_the_member_id_where_the_member_cannot(cluster: ClusterState) -> None:
    answer = heartbeat(cluster, 0, member_id="")
    assert answer.error_code == ErrorCode.NONE
    assert answer.member_id


def test_an_assignor_that_the_broker_has_not_is_refused(cluster: ClusterState) -> None:
    answer = heartbeat(cluster, server_assignor="sticky")
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR


def test_what_the_group_refuses_is_told_with_a_reason(cluster: ClusterState) -> None:
    answer = heartbeat(cluster, member_epoch=3)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == "Consumer group g not found."


def test_a_group_is_described_with_its_members_and_their_shares(cluster: ClusterState) -> None:
    heartbeat(cluster, instance_id="i", rack_id="r", server_assignor="range")
    group = describe(cluster, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable",
        2,
        2,
        "range",
    )
    assert group.authorized_operations != NOT_ASKED_FOR
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    assert (member.client_id, member.client_host, member.member_type) == ("c", "/127.0.0.1", 1)
    for assignment in (member.assignment, member.target_assignment):
        assert [(entry.topic_name, entry.partitions) for entry in assignment.topic_partitions] == [("a", [0, 1])]


def test_a_topic_that_is_gone_is_not_described(cluster: ClusterState) -> None:
    heartbeat(cluster)
    cluster.delete_topic("a")
    assert describe(cluster, "g").members[0].assignment.topic_partitions == []


def test_groups_that_are_not_there_or_elsewhere(cluster: ClusterState) -> None:
    assert describe(cluster, "g").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(cluster, "g", elsewhere=True).error_code == ErrorCode.NOT_COORDINATOR
    assert describe(cluster, " ").error_code == ErrorCode.INVALID_GROUP_ID
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1, subscribed_topic_names=["a"], topic_partitions=[]
    )
    answer = trio.run(consumer_group_heartbeat.handle, request, call(cluster, elsewhere=True))
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
