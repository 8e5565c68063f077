"""Committed offsets of the in-process cluster: what is kept, for whom, and what open transactions hide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.protocol.consumer_protocol import encode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest
from kwire.testing.cluster.call import Call
from kwire.testing.cluster.groups.offsets import CommittedOffset, OffsetStore
from kwire.testing.cluster.handlers import handlers
from kwire.testing.cluster.request_context import ConnectionSession
from kwire.testing.cluster.state import ClusterState

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import TypeVar

    from kwire.protocol.schema import Message, Request

    R = TypeVar("R", bound=Message)

GROUP, TOPIC = "billing", "orders"
O0, O1, R0 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1), TopicPartition("refunds", 0)
PRODUCER = 7
HANDLERS = handlers()  # loaded here, so that the first test does not have to


class World:
    """A cluster whose handlers are called without a connection, at a time that the test sets."""

    def __init__(self, brokers: int = 1) -> None:
        self.now_s = 0.0
        self.state = ClusterState(brokers, now_s=lambda: self.now_s)
        self.state.create_topic(TOPIC, partitions=2)

    def ask(self, request: Request[R], version: int | None = None, *, broker: int | None = None) -> R:
        """The answer of a handler that has not to wait for it."""
        call = Call(
            cluster=self.state,
            broker=self.state.brokers[self.coordinator() if broker is None else broker],
            version=request.max_version if version is None else version,
            client_id="client",
            session=ConnectionSession("/127.0.0.1"),
        )
        running: Coroutine[object, None, R] = HANDLERS[type(request)](request, call)  # type: ignore[assignment]
        try:
            running.send(None)
        except StopIteration as answered:
            answer: R = answered.value
            return answer
        running.close()
        raise AssertionError(f"{type(request).__name__} waits")

    def coordinator(self) -> int:
        """The broker that has the group."""
        ids = [i for i, broker in self.state.brokers.items() if self.state.group_error(GROUP, broker) == ErrorCode.NONE]
        return ids[0]

    def commit(
        self, offset: int, metadata: str = "", *, index: int = 0, topic: str = TOPIC, broker: int | None = None
    ) -> int:
        """One OffsetCommit of nobody in particular; the partition's code."""
        position = OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=3, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=GROUP, topics=[OffsetCommitRequestTopic(name=topic, partitions=[position])]
        )
        return self.ask(request, 9, broker=broker).topics[0].partitions[0].error_code

    def fetch(self, *, require_stable: bool = False) -> tuple[int, int]:
        """OffsetFetch of the first partition: its code and offset."""
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
        answer = self.ask(OffsetFetchRequest(groups=groups, require_stable=require_stable), 9).groups[0]
        found = answer.topics[0].partitions[0]
        return found.error_code, found.committed_offset

    def stable_member(self) -> str:
        """A group with one member that reads the topic; its id."""
        metadata = encode_subscription(0, ConsumerProtocolSubscription(topics=[TOPIC]))
        join = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        member_id = self.ask(join, 3).member_id
        sync = SyncGroupRequest(
            group_id=GROUP, generation_id=1, member_id=member_id, protocol_type="consumer", protocol_name="range"
        )
        assert self.ask(sync).error_code == ErrorCode.NONE
        return member_id


@pytest.fixture
def store() -> OffsetStore:
    return OffsetStore()


def test_the_last_commit_counts_even_if_it_goes_back(store: OffsetStore) -> None:
    store.put(GROUP, O0, CommittedOffset(9))
    store.put(GROUP, O0, CommittedOffset(4, 2, "why"))
    assert store.of_group(GROUP) == {O0: CommittedOffset(4, 2, "why")}


def test_whoever_wants_to_know_is_told_of_commits(store: OffsetStore) -> None:
    told: list[tuple[str, TopicPartition, CommittedOffset]] = []
    store.on_put = lambda *commit: told.append(commit)
    store.put(GROUP, O0, CommittedOffset(9))
    store.put_pending(PRODUCER, GROUP, O0, CommittedOffset(11))
    assert told == [(GROUP, O0, CommittedOffset(9))]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transactions_positions_count_once_it_is_committed(store: OffsetStore, is_committed: bool) -> None:
    store.put(GROUP, O0, CommittedOffset(1))
    store.put_pending(PRODUCER, GROUP, O0, CommittedOffset(5))
    assert (store.get(GROUP, O0), store.is_pending(GROUP, O0)) == (CommittedOffset(1), True)
    store.end_transaction(PRODUCER, committed=is_committed)
    assert (store.get(GROUP, O0), store.is_pending(GROUP, O0)) == (CommittedOffset(5 if is_committed else 1), False)


def test_a_commit_that_came_after_a_transactions_outlives_its_end(store: OffsetStore) -> None:
    store.put_pending(PRODUCER, GROUP, O0, CommittedOffset(5))
    store.put(GROUP, O0, CommittedOffset(2))
    store.end_transaction(PRODUCER, committed=True)
    assert store.get(GROUP, O0) == CommittedOffset(2)


def test_deleting_takes_pending_positions_too(store: OffsetStore) -> None:
    for partition in (O0, O1, R0):
        store.put(GROUP, partition, CommittedOffset(1))
        store.put_pending(PRODUCER, GROUP, partition, CommittedOffset(2))
    store.delete(GROUP, O0)
    store.delete_topic("refunds")
    store.end_transaction(PRODUCER, committed=True)
    assert store.of_group(GROUP) == {O1: CommittedOffset(2)}
    store.delete_group(GROUP)
    assert store.of_group(GROUP) == {}


# --- through the handlers --------------------------------------------------------------------------------------------


def test_who_asks_for_stable_offsets_is_told_to_wait_for_the_transaction() -> None:
    """KIP-447."""
    world = World()
    assert world.commit(1) == ErrorCode.NONE
    world.state.groups.offsets.put_pending(PRODUCER, GROUP, O0, CommittedOffset(5))
    assert world.fetch() == (ErrorCode.NONE, 1)
    assert world.fetch(require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    world.state.groups.offsets.end_transaction(PRODUCER, committed=True)
    assert world.fetch(require_stable=True) == (ErrorCode.NONE, 5)


def test_metadata_is_measured_as_java_does() -> None:
    world = World()
    assert world.commit(1, "ü" * 4096) == ErrorCode.NONE
    assert world.commit(1, "ü" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.commit(1, "\N{GRINNING FACE}" * 2048) == ErrorCode.NONE
    assert world.commit(1, "\N{GRINNING FACE}" * 2049) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_partition_or_topic_that_does_not_exist_is_refused_by_any_broker() -> None:
    world = World(brokers=2)
    other = 1 - world.coordinator()
    assert world.commit(1, topic="refunds", broker=other) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.commit(1, index=2, broker=other) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.commit(1, broker=other) == ErrorCode.NOT_COORDINATOR
    assert world.state.groups.get(GROUP) is None


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    world = World()
    world.commit(1)
    world.state.delete_topic(TOPIC)
    assert world.state.committed(GROUP) == {}


def test_offsets_in_use_are_not_deleted() -> None:
    """KIP-496."""
    world = World()
    world.commit(5)
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 2)]
    request = OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)])
    member_id = world.stable_member()
    codes = [found.error_code for found in world.ask(request).topics[0].partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    world.ask(LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id)]))
    codes = [found.error_code for found in world.ask(request).topics[0].partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert world.fetch() == (ErrorCode.NONE, -1)


def test_a_group_with_members_is_not_deleted_and_an_empty_one_is_with_its_offsets() -> None:
    world = World()
    world.commit(5)
    member_id = world.stable_member()
    request = DeleteGroupsRequest(groups_names=[GROUP, GROUP])
    assert [result.error_code for result in world.ask(request).results] == [ErrorCode.NON_EMPTY_GROUP]
    world.ask(LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id)]))
    assert [result.error_code for result in world.ask(request).results] == [ErrorCode.NONE]
    assert world.fetch() == (ErrorCode.NONE, -1)
    assert [result.error_code for result in world.ask(request).results] == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_a_commit_is_a_sign_of_life() -> None:
    world = World()
    member_id = world.stable_member()
    position = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=1,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[position])],
    )
    for _ in range(3):
        world.now_s += 7
        world.state.groups.expire(world.state.now_ms())
        assert world.ask(request, 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    world.now_s += 11
    world.state.groups.expire(world.state.now_ms())
    assert world.ask(request, 9).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_listed_by_its_coordinator_alone_and_described_as_it_is() -> None:
    world = World(brokers=2)
    member_id = world.stable_member()
    listed = [world.ask(ListGroupsRequest(types_filter=["Classic"]), broker=broker).groups for broker in (0, 1)]
    assert [len(groups) for groups in listed] == [int(broker == world.coordinator()) for broker in (0, 1)]
    found = world.ask(DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)).groups[0]
    assert (found.group_state, found.protocol_data, found.authorized_operations) == ("Stable", "range", 3400)
    described = found.members[0]
    assert (described.member_id, described.client_id, described.client_host) == (member_id, "client", "/127.0.0.1")


@pytest.mark.parametrize("version", range(1, 11))
def test_every_way_to_ask_for_offsets_says_who_is_not_the_coordinator(version: int) -> None:
    world = World(brokers=2)
    request = OffsetFetchRequest(
        group_id=GROUP,
        topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])],
        groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)],
    )
    answer = world.ask(request, version, broker=1 - world.coordinator())
    if version >= 8:
        found = answer.groups[0].error_code
    else:
        found = answer.error_code if version >= 2 else answer.topics[0].partitions[0].error_code
    assert found == ErrorCode.NOT_COORDINATOR
