"""The in-process cluster answers requests about classic groups and offsets as real Kafka does, field by field."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from kwire.conformance.broker import JudgedBroker
from kwire.conformance.client import BrokerAddress
from kwire.protocol.consumer_protocol import encode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
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
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from kwire.protocol.schema import Message, Request
    from tests.integration.kafkas import SharedKafka

    R = TypeVar("R", bound=Message)

pytestmark = pytest.mark.only("kafka", reason="both are compared")

UUID_TEXT = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NEVER_THROTTLED = re.compile(r"throttle_time_ms=\d+(, )?")


class Talk:
    """A conversation with one cluster about one group; names and ids that differ between clusters are made alike."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.broker = JudgedBroker(BrokerAddress.parse(bootstrap_servers.split(",", maxsplit=1)[0]), 10.0)
        self.topic = self.broker.empty_topic()
        self.coordinated = self.broker.group()
        self.group = self.coordinated.name
        self.heard: list[str] = []
        self._alike = {self.group: "GROUP", self.topic.name: "TOPIC", str(self.topic.id): "TOPIC ID"}

    def ask(self, request: Request[R], version: int | None = None) -> R:
        """One request; the answer is written down."""
        answer = self.broker.ask(request, version, address=self.coordinated.address)
        if isinstance(answer, ListGroupsResponse):  # the brokers serve other tests as well, and their groups
            answer.groups = [listed for listed in answer.groups if listed.group_id == self.group]
        for member_id in re.findall(rf"'([\w.-]+-{UUID_TEXT})'", repr(answer)):
            self._alike.setdefault(member_id, f"MEMBER {len(self._alike)}")
        text = NEVER_THROTTLED.sub("", re.sub(r"<ErrorCode\.\w+: (-?\d+)>", r"\1", repr(answer)))
        for name, alike in self._alike.items():
            text = text.replace(name, alike)
        self.heard.append(f"{type(request).__name__} v{version}: {text}")
        return answer

    def join(self, version: int = 9, *, protocol: str = "range", **fields: object) -> str:
        """One JoinGroup; the member id that came back."""
        metadata = encode_subscription(0, ConsumerProtocolSubscription(topics=[self.topic.name]))
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=protocol, metadata=metadata)],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask(request, version).member_id

    def sync(self, member_id: str, generation: int = 1, *, version: int = 5, **fields: object) -> None:
        """One SyncGroup, with an assignment for the member itself."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"share")],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        self.ask(request, version)

    def heartbeat(self, member_id: str, generation: int = 1, *, instance_id: str | None = None) -> None:
        """One Heartbeat."""
        self.ask(
            HeartbeatRequest(
                group_id=self.group, generation_id=generation, member_id=member_id, group_instance_id=instance_id
            ),
            4,
        )

    def leave(self, *members: MemberIdentity) -> None:
        """One LeaveGroup of many."""
        self.ask(LeaveGroupRequest(group_id=self.group, members=list(members)), 5)

    def commit(
        self, version: int, member_id: str = "", generation: int = -1, *, instance_id: str | None = None
    ) -> None:
        """One OffsetCommit for a partition that exists and one that does not."""
        positions = [OffsetCommitRequestPartition(partition_index=i, committed_offset=5) for i in (0, 77)]
        topic = OffsetCommitRequestTopic(name=self.topic.name, topic_id=self.topic.id, partitions=positions)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[topic],
        )
        self.ask(request, version)

    def delete_offsets(self) -> None:
        """One OffsetDelete for partitions of all kinds."""
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in (0, 77)]
            )
            for name in (self.topic.name, "unknown")
        ]
        self.ask(OffsetDeleteRequest(group_id=self.group, topics=topics), 0)

    def describe(self) -> None:
        """One DescribeGroups."""
        self.ask(DescribeGroupsRequest(groups=[self.group], include_authorized_operations=True), 6)

    def wait_until_described(self) -> None:
        """Wait until the group can be seen, a few milliseconds at most; nothing is written down.

        Kafka's coordinator gives a first JoinGroup its member id and only then commits its record of the new group. It
        describes groups as of the last commit: now and then the next request comes between.
        """
        give_up_s = time.monotonic() + 30
        request = DescribeGroupsRequest(groups=[self.group])
        while self.broker.ask(request, 6, address=self.coordinated.address).groups[0].error_code != ErrorCode.NONE:
            assert time.monotonic() < give_up_s, f"{self.group} is still not described"


def strangers(talk: Talk) -> None:
    for version in (0, 3, 7, 9):
        talk.join(version, member_id="stranger")
        talk.join(version, session_timeout_ms=1)
        talk.join(version, group_id="")
    talk.join(protocols=[])
    talk.join(protocol_type="")
    talk.heartbeat("stranger")
    talk.sync("stranger")
    talk.leave(MemberIdentity(member_id="stranger"), MemberIdentity(group_instance_id="till"))
    talk.ask(LeaveGroupRequest(group_id=talk.group, member_id="stranger"), 1)
    for version in (2, 8, 9, 10):
        talk.commit(version, "stranger", 1)
    talk.describe()


def offsets(talk: Talk) -> None:
    talk.ask(DescribeGroupsRequest(groups=[talk.group]), 5)
    talk.describe()
    for version in (8, 9):
        talk.commit(version, "stranger", 1)
    for version in (2, 6, 10):
        talk.commit(version)
    names = [talk.topic.name, "unknown"]
    for version in range(1, 8):
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 77]) for name in names]
        talk.ask(OffsetFetchRequest(group_id=talk.group, topics=topics), version)
    talk.ask(OffsetFetchRequest(group_id=talk.group, topics=None), 7)
    many = [OffsetFetchRequestTopics(name=name, partition_indexes=[0, 77]) for name in names]
    everything = OffsetFetchRequestGroup(group_id=talk.group, topics=None)
    talk.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=talk.group, topics=many), everything]), 8)
    talk.ask(OffsetFetchRequest(groups=[everything]), 10)
    talk.describe()
    talk.delete_offsets()
    talk.ask(OffsetDeleteRequest(group_id=""), 0)
    talk.ask(OffsetDeleteRequest(group_id=f"{talk.group}-not"), 0)
    talk.ask(DeleteGroupsRequest(groups_names=[talk.group]), 2)
    talk.ask(DeleteGroupsRequest(groups_names=[talk.group]), 2)


def members(talk: Talk) -> None:
    only = talk.join()
    talk.wait_until_described()
    talk.describe()
    talk.commit(9, only)
    talk.join(member_id=only, group_instance_id="till")
    for _ in range(2):
        talk.join(member_id=only)
    talk.describe()
    talk.commit(9, only, 1)
    talk.heartbeat(only)
    talk.sync(only, protocol_type=None)
    talk.sync(only, protocol_name="other")
    talk.sync(only, 2)
    for _ in range(2):
        talk.sync(only)
    talk.sync(only, version=0)
    talk.describe()
    talk.ask(ListGroupsRequest(states_filter=["sTable"], types_filter=["cLassic"]), 5)
    talk.join(protocol="other")
    talk.join(protocol_type="other")
    talk.delete_offsets()
    for version in (2, 9, 10):
        talk.commit(version, "stranger", 1)
        talk.commit(version, only, 0)
        talk.commit(version)
    talk.commit(9, only, 1, instance_id="till")
    talk.heartbeat(only, instance_id="till")
    talk.ask(DeleteGroupsRequest(groups_names=[talk.group]), 2)
    gone = MemberIdentity(member_id=only)
    talk.leave(MemberIdentity(member_id=only, group_instance_id="till"), gone, gone)
    talk.describe()
    talk.heartbeat(only)


def static_members(talk: Talk) -> None:
    first = talk.join(8, group_instance_id="till")
    talk.sync(first, group_instance_id="till")
    second = talk.join(8, group_instance_id="till")
    third = talk.join(9, group_instance_id="till")
    talk.join(member_id=second, group_instance_id="till")
    talk.sync(second, group_instance_id="till")
    talk.sync(third, group_instance_id="till")
    talk.heartbeat(first, instance_id="till")
    talk.commit(9, first, 1, instance_id="till")
    talk.leave(MemberIdentity(member_id=first, group_instance_id="till"))
    talk.ask(LeaveGroupRequest(group_id=talk.group, member_id=first), 2)
    talk.describe()
    talk.leave(MemberIdentity(group_instance_id="till"), MemberIdentity(group_instance_id="till"))
    talk.describe()


def members_of_another_kind(talk: Talk) -> None:
    talk.commit(9)
    only = talk.join(3, protocol_type="connect")
    talk.delete_offsets()
    talk.ask(LeaveGroupRequest(group_id=talk.group, member_id=only), 0)
    talk.describe()


@pytest.mark.parametrize("subject", [strangers, offsets, members, static_members, members_of_another_kind])
def test_both_clusters_answer_alike(kafka: SharedKafka, subject: Callable[[Talk], None]) -> None:
    real = Talk(kafka.bootstrap_servers)
    subject(real)
    with Cluster() as cluster:
        fake = Talk(cluster.bootstrap_servers)
        subject(fake)
    assert fake.heard == real.heard
