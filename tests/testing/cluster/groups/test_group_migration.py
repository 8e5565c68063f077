"""A running group goes from the classic protocol to the consumer protocol and back, member by member (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.protocol.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kwire.protocol.messages.leave_group import MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.testing.cluster.groups import classic_in_consumer, classic_sync
from kwire.testing.cluster.groups.classic import ClassicGroup
from kwire.testing.cluster.groups.consumer import ConsumerGroup
from kwire.testing.cluster.groups.refusal import GroupRefusal
from tests.testing.cluster.groups.coordinator_model import CLIENT, GROUP, Consumer, Coordinator, settle

if TYPE_CHECKING:
    from kwire.protocol.messages.sync_group import SyncGroupResponse

SESSION_TIMEOUT_MS = 30_000
REBALANCE_TIMEOUT_MS = 60_000


class ClassicMember:
    """A member of the classic protocol, cooperative: it tells what it owns when it joins."""

    def __init__(self, coordinator: Coordinator, instance_id: str | None = None) -> None:
        self.coordinator = coordinator
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] = []

    def join(self, topic: str = "a") -> JoinGroupResponse | None:
        """One JoinGroup; None while others have to join, too."""
        subscription = ConsumerProtocolSubscription(
            topics=[topic], owned_partitions=[TopicPartition(topic="a", partitions=self.owned)]
        )
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="cooperative-sticky", metadata=encode_subscription(1, subscription))
            ],
        )
        return self._take(self._ask(request))

    def _ask(self, request: JoinGroupRequest) -> JoinGroupResponse | None:
        groups, now_ms = self.coordinator.cluster.groups, self.coordinator.now_ms
        found = groups.get(GROUP)
        if isinstance(found, ConsumerGroup) and not found.is_empty:
            return classic_in_consumer.join(self.coordinator.cluster, found, request, CLIENT, now_ms)
        return groups.join(request, CLIENT, now_ms).value

    def _take(self, answer: JoinGroupResponse | None) -> JoinGroupResponse | None:
        if answer is not None and answer.error_code == ErrorCode.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, assignments: dict[str, list[int]] | None = None) -> SyncGroupResponse | None:
        """One SyncGroup."""
        given = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encoded(partitions))
            for member_id, partitions in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="cooperative-sticky",
            assignments=given,
        )
        found = self.coordinator.cluster.groups.get(GROUP)
        now_ms = self.coordinator.now_ms
        if isinstance(found, ConsumerGroup):
            answer: SyncGroupResponse | None = classic_in_consumer.sync(found, request, now_ms)
        else:
            assert isinstance(found, ClassicGroup)
            answer = classic_sync.sync(found, request, now_ms).value
        if answer is not None and answer.error_code == ErrorCode.NONE:
            read = decode_assignment(answer.assignment).assigned_partitions
            self.owned = sorted(partition for entry in read for partition in entry.partitions)
        return answer

    def beat(self) -> ErrorCode:
        """One Heartbeat to a consumer group."""
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return classic_in_consumer.heartbeat(self.coordinator.group, request, self.coordinator.now_ms)

    def follow(self) -> None:
        """Join again for as long as a heartbeat asks for it."""
        while self.beat() is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            self.sync()


def encoded(partitions: list[int], user_data: bytes | None = None) -> bytes:
    entries = [TopicPartition(topic="a", partitions=partitions)]
    return encode_assignment(1, ConsumerProtocolAssignment(assigned_partitions=entries, user_data=user_data))


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    made.topic("a", 4)
    return made


def classic_member(coordinator: Coordinator, instance_id: str | None = None) -> ClassicMember:
    """The first member of a classic group, which is stable and has everything."""
    made = ClassicMember(coordinator, instance_id)
    made.join()
    made.sync({made.member_id: [0, 1, 2, 3]})
    assert made.owned == [0, 1, 2, 3]
    return made


def test_a_consumer_member_takes_the_classic_group_over(coordinator: Coordinator) -> None:
    old = classic_member(coordinator)
    new = Consumer(coordinator, "new", ["a"])
    new.join()
    assert coordinator.group.members[old.member_id].is_classic
    assert new.partitions == []
    old.follow()
    assert len(old.owned) == 2
    settle(new)
    old.follow()
    assert sorted(old.owned + new.partitions) == [0, 1, 2, 3]
    assert coordinator.group.state_name == "Stable"


def test_a_classic_member_joins_a_consumer_group(coordinator: Coordinator) -> None:
    new = Consumer(coordinator, "new", ["a"])
    new.join()
    late = ClassicMember(coordinator)
    late.member_id = "late"
    answer = late.join()
    assert answer is not None
    assert answer.protocol_name == "cooperative-sticky"
    late.sync()
    settle(new)
    late.follow()
    assert sorted(late.owned + new.partitions) == [0, 1, 2, 3]
    assert len(late.owned) == 2


def test_the_group_is_classic_again_when_the_last_consumer_member_leaves(coordinator: Coordinator) -> None:
    old = classic_member(coordinator)
    new = Consumer(coordinator, "new", ["a"])
    new.join()
    old.follow()
    settle(new)
    epoch = coordinator.group.epoch
    new.leave()
    found = coordinator.cluster.groups.get(GROUP)
    assert isinstance(found, ClassicGroup)
    assert found.generation == epoch
    assert found.state_name == "PreparingRebalance"
    assert list(found.members) == [old.member_id]
    old.join()
    old.sync({old.member_id: [0, 1, 2, 3]})
    assert old.owned == [0, 1, 2, 3]


def test_a_consumer_member_whose_session_ends_leaves_a_classic_group_behind(coordinator: Coordinator) -> None:
    old = classic_member(coordinator)
    new = Consumer(coordinator, "new", ["a"])
    new.join()
    for _ in range(3):
        old.follow()
        coordinator.pass_time(15_000)
    assert isinstance(coordinator.cluster.groups.get(GROUP), ClassicGroup)


def test_a_static_member_goes_over_in_place(coordinator: Coordinator) -> None:
    """Up with a heartbeat under its instance id, down with a JoinGroup: nobody else has to move."""
    old = classic_member(coordinator, "i")
    new = Consumer(coordinator, "new", ["a"], instance_id="i")
    new.join()
    assert new.partitions == [0, 1, 2, 3]
    assert list(coordinator.group.members) == ["new"]
    back = ClassicMember(coordinator, "i")
    back.join()
    found = coordinator.cluster.groups.get(GROUP)
    assert isinstance(found, ClassicGroup)
    assert found.state_name == "Stable"
    assert back.member_id not in {"", old.member_id, "new"}
    back.sync()
    assert back.owned == [0, 1, 2, 3]


def test_a_classic_member_that_does_not_join_again_is_out(coordinator: Coordinator) -> None:
    old = classic_member(coordinator)
    new = Consumer(coordinator, "new", ["a"])
    new.join()
    for _ in range(REBALANCE_TIMEOUT_MS // 20_000):
        assert old.beat() is ErrorCode.REBALANCE_IN_PROGRESS
        coordinator.pass_time(20_000)
        new.beat()
    assert list(coordinator.group.members) == ["new"]
    settle(new)
    assert new.partitions == [0, 1, 2, 3]


def test_a_classic_member_that_never_syncs_is_out(coordinator: Coordinator) -> None:
    new = Consumer(coordinator, "new", ["a"])
    new.join()
    late = ClassicMember(coordinator)
    late.member_id = "late"
    late.join()
    for _ in range(REBALANCE_TIMEOUT_MS // 20_000):
        late.beat()
        coordinator.pass_time(20_000)
        new.beat()
    assert list(coordinator.group.members) == ["new"]


def test_refusals_of_classic_requests_in_a_consumer_group(coordinator: Coordinator) -> None:
    new = Consumer(coordinator, "new", ["a"])
    new.join()
    late = ClassicMember(coordinator)
    late.member_id = "late"
    late.join()
    late.generation += 1
    assert late.beat() is ErrorCode.ILLEGAL_GENERATION
    refused = late.sync()
    assert refused is not None
    assert refused.error_code == ErrorCode.ILLEGAL_GENERATION
    late.member_id = "new"
    assert late.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_group_removes_members_of_both_protocols(coordinator: Coordinator) -> None:
    new = Consumer(coordinator, "new", ["a"], instance_id="i")
    new.join()
    group = coordinator.group
    identities = [
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id="other", group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="i"),
    ]
    answers = classic_in_consumer.leave(group, identities, coordinator.now_ms)
    codes = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE]
    assert [answer.error_code for answer in answers] == codes
    assert group.is_empty


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_classic_group_stays_one_where_upgrades_are_not_allowed(policy: str) -> None:
    coordinator = Coordinator({"group_consumer_migration_policy": policy})
    coordinator.topic("a", 4)
    classic_member(coordinator)
    with pytest.raises(GroupRefusal) as caught:
        Consumer(coordinator, "new", ["a"]).join()
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(coordinator.cluster.groups.get(GROUP), ClassicGroup)


def test_assignors_that_keep_data_with_members_cannot_be_upgraded(coordinator: Coordinator) -> None:
    old = classic_member(coordinator)
    found = coordinator.cluster.groups.get(GROUP)
    assert isinstance(found, ClassicGroup)
    found.members[old.member_id].assignment = encoded([0], user_data=b"mine")
    with pytest.raises(GroupRefusal) as caught:
        Consumer(coordinator, "new", ["a"]).join()
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_classic_members_are_kept_out_where_migration_is_disabled() -> None:
    coordinator = Coordinator({"group_consumer_migration_policy": "disabled"})
    coordinator.topic("a", 4)
    Consumer(coordinator, "new", ["a"]).join()
    late = ClassicMember(coordinator)
    late.member_id = "late"
    answer = late.join()
    assert answer is not None
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_timers_of_a_group_that_a_timer_made_classic_are_seen_at_once(coordinator: Coordinator) -> None:
    """The timer that fenced the last consumer member put a new group in place; its own deadlines count from then on."""
    old = classic_member(coordinator)
    Consumer(coordinator, "new", ["a"]).join()
    for _ in range(2):
        old.follow()
        coordinator.pass_time(20_000)
    old.follow()
    coordinator.now_ms += 5_000
    next_ms = coordinator.cluster.groups.expire(coordinator.now_ms)
    assert isinstance(coordinator.cluster.groups.get(GROUP), ClassicGroup)
    assert next_ms == coordinator.now_ms + SESSION_TIMEOUT_MS
