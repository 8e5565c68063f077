"""The in-process cluster and Kafka are told the same and answer the same: random walks of members of consumer groups.

Members of both protocols join, follow, dawdle, lie about their epochs, commit, leave for a while and for good. After
each step the answers and the described groups are compared, member by member and partition by partition. The range
assignor makes that possible: uniform shares depend on the order of Kafka's hash maps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest

from kwire.conformance.broker import JudgedBroker
from kwire.conformance.client import BrokerAddress
from kwire.protocol.consumer_protocol import decode_assignment, encode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest
from kwire.testing import Cluster
from kwire.testing.kafka import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.protocol.messages.consumer_group_describe import Assignment
    from kwire.protocol.schema import Message, Request

R = TypeVar("R", bound="Message")
pytestmark = pytest.mark.only("kafka", reason="both are compared")

PARTITIONS = {"a": 5, "b": 3}
MEMBERS = ("m1", "m2", "m3", "m4")
INSTANCES = (None, None, "i1", "i2")
STEPS = 60
SETTINGS = {"group.consumer.assignment.interval.ms": "0"}


class Answer(NamedTuple):
    """What came back, in words that both sides have in common."""

    code: ErrorCode
    epoch: int = 0
    shares: dict[str, list[int]] | None = None
    more: object = None


@dataclass
class Believes:
    """What a member thinks of itself; both sides have told it the same."""

    epoch: int = 0
    owned: dict[str, list[int]] = field(default_factory=dict)
    topics: list[str] = field(default_factory=lambda: ["a"])
    is_classic: bool = False


class Side:
    """One of the two clusters, and one group there."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.broker = JudgedBroker(BrokerAddress.parse(bootstrap_servers), 30.0)
        self.topics = {name: self.broker.topic(partitions) for name, partitions in PARTITIONS.items()}
        self.names = {topic.id: name for name, topic in self.topics.items()}
        self.by_real_name = {topic.name: name for name, topic in self.topics.items()}
        self.group = self.broker.group()
        self._connection = self.broker.connect(self.group.address)
        self._ids: dict[str, str] = {}
        """The ids that the coordinator made for static members of the classic protocol."""

    def ask(self, request: Request[R]) -> R:
        """One request to the group's coordinator."""
        return self._connection.ask(request, self.broker.highest(type(request)))

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    # --- the steps -------------------------------------------------------------------------------------------

    def heartbeat(self, member_id: str, epoch: int, told: Believes, instance_id: str | None, how: str) -> Answer:
        """A heartbeat: joining, whole, with what is owned, or with nothing."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.name, member_id=member_id, member_epoch=epoch, instance_id=instance_id
        )
        if how in {"join", "whole"}:
            request.rebalance_timeout_ms = 300_000
            request.subscribed_topic_names = [self.topics[name].name for name in told.topics]
            request.server_assignor = "range"
        if how != "bare":
            owned = {} if how == "join" else told.owned
            request.topic_partitions = [
                TopicPartitions(topic_id=self.topics[name].id, partitions=some) for name, some in owned.items()
            ]
        answer = self.ask(request)
        found = answer.assignment.topic_partitions if answer.assignment is not None else None
        shares = None if found is None else {self.names[entry.topic_id]: sorted(entry.partitions) for entry in found}
        return Answer(ErrorCode.of(answer.error_code), answer.member_epoch, shares)

    def join(self, member_id: str, told: Believes, instance_id: str | None) -> Answer:
        """A JoinGroup of a member of the classic protocol."""
        owned = [TopicPartition(topic=self.topics[name].name, partitions=some) for name, some in told.owned.items()]
        topics = [self.topics[name].name for name in told.topics]
        metadata = encode_subscription(1, ConsumerProtocolSubscription(topics=topics, owned_partitions=owned))
        request = JoinGroupRequest(
            group_id=self.group.name,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=300_000,
            member_id=member_id if instance_id is None else "",
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        answer = self.ask(request)
        if instance_id is not None and answer.error_code == ErrorCode.NONE:
            self._ids[member_id] = answer.member_id
        return Answer(ErrorCode.of(answer.error_code), answer.generation_id, more=answer.protocol_name)

    def sync(self, member_id: str, generation: int, instance_id: str | None) -> Answer:
        """A SyncGroup."""
        answer = self.ask(
            SyncGroupRequest(
                group_id=self.group.name,
                generation_id=generation,
                member_id=self._ids.get(member_id, member_id),
                group_instance_id=instance_id,
                protocol_type="consumer",
                protocol_name="range",
            )
        )
        code = ErrorCode.of(answer.error_code)
        if code is not ErrorCode.NONE:
            return Answer(code)
        read = decode_assignment(answer.assignment).assigned_partitions
        shares = {self.by_real_name[entry.topic]: sorted(entry.partitions) for entry in read}
        return Answer(code, shares=shares)

    def classic_heartbeat(self, member_id: str, generation: int, instance_id: str | None) -> Answer:
        """A Heartbeat."""
        request = HeartbeatRequest(
            group_id=self.group.name,
            generation_id=generation,
            member_id=self._ids.get(member_id, member_id),
            group_instance_id=instance_id,
        )
        return Answer(ErrorCode.of(self.ask(request).error_code))

    def leave(self, member_id: str, instance_id: str | None) -> Answer:
        """A LeaveGroup."""
        identity = MemberIdentity(member_id=self._ids.get(member_id, member_id), group_instance_id=instance_id)
        answer = self.ask(LeaveGroupRequest(group_id=self.group.name, members=[identity]))
        codes = [ErrorCode.of(member.error_code) for member in answer.members]
        return Answer(ErrorCode.of(answer.error_code), more=codes)

    def commit(self, member_id: str, epoch: int, instance_id: str | None, name: str, partition: int) -> Answer:
        """An OffsetCommit of one partition."""
        topic = OffsetCommitRequestTopic(name=self.topics[name].name, topic_id=self.topics[name].id)
        topic.partitions = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)]
        answer = self.ask(
            OffsetCommitRequest(
                group_id=self.group.name,
                generation_id_or_member_epoch=epoch,
                member_id=member_id,
                group_instance_id=instance_id,
                topics=[topic],
            )
        )
        return Answer(ErrorCode.of(answer.topics[0].partitions[0].error_code))

    def described(self) -> Answer:
        """The group."""
        answer = self.ask(ConsumerGroupDescribeRequest(group_ids=[self.group.name]))
        group = answer.groups[0]
        names = {member_id: name for name, member_id in self._ids.items()}
        members = sorted(
            (
                names.get(member.member_id, member.member_id),
                member.instance_id,
                member.member_epoch,
                member.member_type,
                sorted(self.by_real_name[name] for name in member.subscribed_topic_names),
                member.subscribed_topic_regex,
                self._shares(member.assignment),
                self._shares(member.target_assignment),
            )
            for member in group.members
        )
        code = ErrorCode.of(group.error_code)
        more = (group.group_state, group.assignment_epoch, group.assignor_name, members)
        return Answer(code, group.group_epoch, more=more)

    def _shares(self, assignment: Assignment) -> list[tuple[str, list[int]]]:
        return sorted((self.names[entry.topic_id], sorted(entry.partitions)) for entry in assignment.topic_partitions)


class Walk:
    """One random walk through both clusters."""

    def __init__(self, sides: tuple[Side, Side], seed: int) -> None:
        self.sides = sides
        self.random = Random(seed)
        self.members = {name: Believes() for name in MEMBERS}
        self.log: list[object] = []

    def run(self) -> None:
        """Step by step, until the answers differ."""
        self.heartbeat("m1", "join")
        for _ in range(STEPS):
            name = self.random.choice(MEMBERS)
            classic = ("join_classic", "follow_classic", "follow_classic", "beat_classic", "leave_classic")
            modern = ("join", "own", "own", "own", "bare", "whole", "switch", "old", "future", "leave", "away")
            steps = classic if self.members[name].is_classic else modern
            step = self.random.choice((*steps, "commit", "other_protocol"))
            self.take(name, step)
            if self.same("describe", lambda side: side.described()).code is not ErrorCode.NONE:
                return  # a classic group by now

    def take(self, name: str, step: str) -> None:
        """One step of one member."""
        told, instance_id = self.members[name], INSTANCES[MEMBERS.index(name)]
        if step == "commit":
            topic = self.random.choice(tuple(PARTITIONS))
            partition = self.random.randrange(PARTITIONS[topic])
            epoch = max(told.epoch - self.random.choice((0, 0, 1, 2)), -1)
            self.same((step, name, epoch), lambda side: side.commit(name, epoch, None, topic, partition))
        elif step == "other_protocol":
            told.is_classic = not told.is_classic
            self.take(name, "join_classic" if told.is_classic else "join")
        elif step.endswith("_classic"):
            self.classic(name, step, instance_id)
        elif step in {"leave", "away"}:
            epoch = -2 if step == "away" and instance_id else -1
            self.same((step, name), lambda side: side.heartbeat(name, epoch, told, instance_id, "bare"))
            told.epoch, told.owned = 0, {}
        else:
            self.heartbeat(name, step)

    def heartbeat(self, name: str, how: str) -> None:
        """A heartbeat of the consumer protocol."""
        told, instance_id = self.members[name], INSTANCES[MEMBERS.index(name)]
        if how == "switch":
            told.topics = self.random.choice((["a"], ["b"], ["a", "b"], []))
            how = "whole"
        epoch = {"join": 0, "old": max(told.epoch - 1, 0), "future": told.epoch + 1}.get(how, told.epoch)
        how = "join" if epoch == 0 else "own" if how in {"old", "future"} else how
        if how == "join" and not told.topics:
            # Kafka 4.3.1 takes the members for all alike when one joins that wants nothing, and gives it a share.
            told.topics = ["a"]
        answer = self.same((how, name, epoch), lambda side: side.heartbeat(name, epoch, told, instance_id, how))
        if answer.code is ErrorCode.NONE:
            told.epoch = answer.epoch
            told.owned = told.owned if answer.shares is None else answer.shares
        elif answer.code in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}:
            told.epoch, told.owned = 0, {}

    def classic(self, name: str, step: str, instance_id: str | None) -> None:
        """What a member of the classic protocol does."""
        told = self.members[name]
        if step == "leave_classic":
            self.same((step, name), lambda side: side.leave(name, instance_id))
            told.epoch, told.owned = 0, {}
        elif step == "beat_classic":
            self.same((step, name), lambda side: side.classic_heartbeat(name, told.epoch, instance_id))
        else:
            joined = self.same((step, name), lambda side: side.join(name, told, instance_id))
            told.epoch = joined.epoch if joined.code is ErrorCode.NONE else 0
            if step == "follow_classic":
                told.owned = (
                    self.same(("sync", name), lambda side: side.sync(name, told.epoch, instance_id)).shares or {}
                )

    def same(self, what: object, step: Callable[[Side], Answer]) -> Answer:
        """Do it on both sides; what both answered."""
        ours, kafkas = step(self.sides[0]), step(self.sides[1])
        self.log.append((what, kafkas))
        assert ours == kafkas, "\n".join(str(entry) for entry in self.log[-12:])
        return kafkas


@pytest.fixture(scope="module")
def kafkas_servers() -> Iterator[str]:
    with KafkaCluster(settings=SETTINGS) as kafka:
        yield kafka.bootstrap_servers


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_random_walks_are_answered_alike(kafkas_servers: str, seed: int) -> None:
    with Cluster(settings=SETTINGS) as cluster:
        sides = Side(cluster.bootstrap_servers), Side(kafkas_servers)
        try:
            Walk(sides, seed).run()
        finally:
            for side in sides:
                side.close()
