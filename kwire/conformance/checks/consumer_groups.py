"""The consumer group protocol (KIP-848): the broker assigns, epochs fence, heartbeats are all there is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.conformance.broker import wait_for
from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok, only
from kwire.conformance.offer import Feature
from kwire.conformance.offsets import CheckedCommitter, CheckedPosition, commit, fetch_offset
from kwire.conformance.registry import check
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import Coordinated, JudgedBroker, SuiteTopic
    from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

GROUPS = Feature("group.version", 1)
JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
"""Member epochs with a special meaning."""

OWN_ID_FROM = 1
"""From this version on the member makes up its own id (KIP-1082)."""

SERVED_FROM = 9
"""From this version on OffsetCommit serves members of this protocol."""


class ConsumerJoiner:
    """A member of a consumer group. At the end of its `with` block it leaves the group, so that the group can be
    deleted."""

    def __init__(self, broker: JudgedBroker, group: Coordinated, version: int, instance_id: str | None = None) -> None:
        self.broker = broker
        self.group = group
        self.version = version
        self.instance_id = instance_id
        self.member_id = str(uuid4()) if version >= OWN_ID_FROM else ""
        self.epoch = JOIN
        self._connection = broker.connect(group.address)

    def __enter__(self) -> ConsumerJoiner:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        if self.epoch > 0:
            self.heartbeat(member_epoch=LEAVE)
        self._connection.close()

    @property
    def committer(self) -> CheckedCommitter:
        """The member, as OffsetCommit names it."""
        return CheckedCommitter(member_id=self.member_id, generation=self.epoch)

    def heartbeat(self, **fields: object) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat with these fields. Returns the answer, whatever it is."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.name, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self._connection.ask(request, self.version)

    def ask_to_join(self, *topics: str, **fields: object) -> ConsumerGroupHeartbeatResponse:
        """Send the heartbeat that joins. Returns the answer, whatever it is."""
        whole = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": list(topics), "topic_partitions": []}
        return self.heartbeat(**{**whole, **fields})

    def join(self, *topics: str, **fields: object) -> ConsumerGroupHeartbeatResponse:
        """Join for good."""
        answer = self.ask_to_join(*topics, **fields)
        expect_ok(answer.error_code, "the joining heartbeat")
        expect(answer.member_epoch > 0, f"the epoch after joining is {answer.member_epoch}")
        if self.version >= OWN_ID_FROM:
            expect_equal(answer.member_id, self.member_id, "the member id")
        expect(bool(answer.member_id), "joining brought no member id")
        self.member_id, self.epoch = answer.member_id or "", answer.member_epoch
        return answer

    def wait_for_assignment(self, first: ConsumerGroupHeartbeatResponse, topic: SuiteTopic) -> list[int]:
        """Wait for its partitions of `topic`, which come with the answer to the join or to a later heartbeat."""
        answers = iter([first])

        def look() -> list[int] | None:
            answer = next(answers, None) or self.heartbeat()
            expect_ok(answer.error_code, "the heartbeat")
            self.epoch = answer.member_epoch
            found = answer.assignment.topic_partitions if answer.assignment is not None else []
            return next((sorted(entry.partitions) for entry in found if entry.topic_id == topic.id), None)

        return wait_for(look, "an assignment")

    def acknowledge(self, topic: SuiteTopic, partitions: list[int]) -> None:
        """Report the assigned partitions as owned."""
        owned = [TopicPartitions(topic_id=topic.id, partitions=partitions)]
        answer = self.heartbeat(topic_partitions=owned)
        expect_ok(answer.error_code, "the acknowledging heartbeat")
        self.epoch = answer.member_epoch


@check(ConsumerGroupHeartbeatRequest, feature=GROUPS)
def assigns_all_to_the_only_member(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic(2)
    with ConsumerJoiner(broker, broker.group(), version) as member:
        answer = member.join(topic.name)
        expect(answer.heartbeat_interval_ms > 0, f"the heartbeat interval is {answer.heartbeat_interval_ms}")
        partitions = member.wait_for_assignment(answer, topic)
        expect_equal(partitions, [0, 1], "the assignment")
        member.acknowledge(topic, partitions)
        left = member.heartbeat(member_epoch=LEAVE)
        expect_ok(left.error_code, "the leaving heartbeat")
        expect_equal(left.member_epoch, LEAVE, "the epoch after leaving")
        code = member.heartbeat().error_code
        expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, what="a heartbeat after leaving")
        member.epoch = LEAVE


@check(ConsumerGroupHeartbeatRequest, feature=GROUPS)
def shares_between_two_members(broker: JudgedBroker, version: int) -> None:
    """The second member gets a partition only when the first has given it up."""
    topic, group = broker.topic(2), broker.group()
    with ConsumerJoiner(broker, group, version) as first, ConsumerJoiner(broker, group, version) as second:
        owned = first.wait_for_assignment(first.join(topic.name), topic)
        first.acknowledge(topic, owned)
        joined = second.join(topic.name)
        kept = wait_for(lambda: _fewer(first, topic, owned), "the first member to be asked for a partition")
        first.acknowledge(topic, kept)
        got = second.wait_for_assignment(joined, topic)
        expect_equal(sorted(kept + got), owned, "the two shares together")


def _fewer(member: ConsumerJoiner, topic: SuiteTopic, owned: list[int]) -> list[int] | None:
    answer = member.heartbeat()
    expect_ok(answer.error_code, "the heartbeat")
    member.epoch = answer.member_epoch
    if answer.assignment is None:
        return None
    found = [entry.partitions for entry in answer.assignment.topic_partitions if entry.topic_id == topic.id]
    kept = sorted(only(found, "topic in the assignment"))
    return kept if len(kept) < len(owned) else None


@check(ConsumerGroupHeartbeatRequest, feature=GROUPS)
def fences_epochs_and_strangers(broker: JudgedBroker, version: int) -> None:
    with ConsumerJoiner(broker, broker.group(), version) as member:
        member.join(broker.empty_topic().name)
        code = member.heartbeat(member_epoch=member.epoch + 100).error_code
        expect_error(code, ErrorCode.FENCED_MEMBER_EPOCH, what="an epoch from the future")
        code = member.heartbeat(member_id="stranger").error_code
        expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="a heartbeat of a stranger")


@check(ConsumerGroupHeartbeatRequest, feature=GROUPS)
def refuses_an_assignor_it_has_not(broker: JudgedBroker, version: int) -> None:
    with ConsumerJoiner(broker, broker.group(), version) as member:
        code = member.ask_to_join(broker.empty_topic().name, server_assignor="no such assignor").error_code
    expect_error(code, ErrorCode.UNSUPPORTED_ASSIGNOR, what="an unknown assignor")


@check(ConsumerGroupHeartbeatRequest, feature=GROUPS)
def refuses_a_malformed_heartbeat(broker: JudgedBroker, version: int) -> None:
    with ConsumerJoiner(broker, broker.group(), version) as member:
        code = member.ask_to_join(broker.empty_topic().name, group_id="").error_code
        expect_error(code, ErrorCode.INVALID_REQUEST, what="an empty group id")
        code = member.ask_to_join(broker.empty_topic().name, rebalance_timeout_ms=-1).error_code
        expect_error(code, ErrorCode.INVALID_REQUEST, what="joining without a rebalance timeout")


@check(ConsumerGroupHeartbeatRequest, versions=f"{OWN_ID_FROM}+", feature=GROUPS)
def matches_topics_by_regular_expression(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    with ConsumerJoiner(broker, broker.group(), version) as member:
        pattern = topic.name.replace("-", "[-]")
        answer = member.join(subscribed_topic_names=None, subscribed_topic_regex=pattern)
        expect_equal(member.wait_for_assignment(answer, topic), [0], "the assignment")
    with ConsumerJoiner(broker, broker.group(), version) as member:
        code = member.ask_to_join(subscribed_topic_names=None, subscribed_topic_regex="[").error_code
    expect_error(code, ErrorCode.INVALID_REGULAR_EXPRESSION, what="a malformed regular expression")


@check(ConsumerGroupHeartbeatRequest, feature=GROUPS)
def keeps_the_place_of_a_static_member(broker: JudgedBroker, version: int) -> None:
    """A second member with the instance id is refused until the first one has left for a while."""
    topic, group, instance = broker.topic(), broker.group(), broker.new_name()
    with ConsumerJoiner(broker, group, version, instance) as before:
        owned = before.wait_for_assignment(before.join(topic.name), topic)
        before.acknowledge(topic, owned)
        with ConsumerJoiner(broker, group, version, instance) as after:
            code = after.ask_to_join(topic.name).error_code
            expect_error(code, ErrorCode.UNRELEASED_INSTANCE_ID, what="an instance id that is in use")
            left = before.heartbeat(member_epoch=LEAVE_FOR_A_WHILE)
            expect_ok(left.error_code, "leaving for a while")
            before.epoch = LEAVE_FOR_A_WHILE
            answer = after.join(topic.name)
            expect_equal(after.wait_for_assignment(answer, topic), owned, "the assignment of who came back")


@check(OffsetCommitRequest, versions=f"{SERVED_FROM}+", needs=[ConsumerGroupHeartbeatRequest], feature=GROUPS)
def takes_offsets_of_consumer_members_only(broker: JudgedBroker, version: int) -> None:
    topic, group = broker.empty_topic(), broker.group()
    with ConsumerJoiner(broker, group, broker.highest(ConsumerGroupHeartbeatRequest)) as member:
        member.join(topic.name)
        code = commit(broker, group, topic, CheckedPosition(offset=9), version=version, committer=member.committer)
        expect_ok(code, "a member's commit")
        expect_equal(fetch_offset(broker, group, topic).committed_offset, 9, "the offset")
        late = CheckedCommitter(member_id=member.member_id, generation=member.epoch + 100)
        code = commit(broker, group, topic, CheckedPosition(offset=9), version=version, committer=late)
        expect_error(code, ErrorCode.STALE_MEMBER_EPOCH, what="a commit with another epoch")
        stranger = CheckedCommitter(member_id="stranger", generation=member.epoch)
        code = commit(broker, group, topic, CheckedPosition(offset=9), version=version, committer=stranger)
        expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="a commit of a stranger")


@check(ConsumerGroupDescribeRequest, needs=[ConsumerGroupHeartbeatRequest], feature=GROUPS)
def describes_a_consumer_group(broker: JudgedBroker, version: int) -> None:
    topic, group = broker.empty_topic(), broker.group()
    with ConsumerJoiner(broker, group, broker.highest(ConsumerGroupHeartbeatRequest)) as member:
        owned = member.wait_for_assignment(member.join(topic.name), topic)
        member.acknowledge(topic, owned)
        answer = broker.ask(ConsumerGroupDescribeRequest(group_ids=[group.name]), version, address=group.address)
        found = only(answer.groups, "group in the answer")
        expect_ok(found.error_code, "ConsumerGroupDescribe")
        expect_equal(found.group_state, "Stable", "the state")
        described = only(found.members, "member in the answer")
        expect_equal(described.member_id, member.member_id, "the member id")
        expect_equal(described.member_epoch, member.epoch, "the member epoch")
        expect_equal(described.subscribed_topic_names, [topic.name], "the subscription")
        assigned = only(described.assignment.topic_partitions, "topic in the assignment")
        expect_equal((assigned.topic_id, sorted(assigned.partitions)), (topic.id, owned), "the assignment")


@check(ConsumerGroupDescribeRequest, feature=GROUPS)
def describes_no_group_there_is_not(broker: JudgedBroker, version: int) -> None:
    group = broker.group()
    answer = broker.ask(ConsumerGroupDescribeRequest(group_ids=[group.name]), version, address=group.address)
    code = only(answer.groups, "group in the answer").error_code
    expect_error(code, ErrorCode.GROUP_ID_NOT_FOUND, what="an unknown group")
