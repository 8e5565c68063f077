"""Share groups (KIP-932): members share the records of a partition, and acknowledge them one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.conformance.batches import RecordToWrite, encode_batch
from kwire.conformance.broker import wait_for
from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok, only
from kwire.conformance.offer import Feature
from kwire.conformance.registry import check
from kwire.conformance.writing import append
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kwire.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kwire.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.protocol.records import read_records

if TYPE_CHECKING:
    from kwire.conformance.broker import Coordinated, JudgedBroker, SuiteTopic
    from kwire.conformance.client import ClientConnection
    from kwire.protocol.messages.share_fetch import PartitionData
    from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

SHARES = Feature("share.version", 1)
JOIN, LEAVE = 0, -1
ACCEPT = 1
"""The type of acknowledgement for a record that is done with."""

RECORDS = (RecordToWrite(b"shared"), RecordToWrite(b"among many"))


class ShareMember:
    """A member of a share group. At the end of its `with` block it leaves the group, so that the group can be
    deleted."""

    def __init__(self, broker: JudgedBroker, version: int | None = None) -> None:
        self.broker = broker
        self.group = broker.group()
        self.version = broker.highest(ShareGroupHeartbeatRequest) if version is None else version
        self.member_id = str(uuid4())
        self.epoch = JOIN

    def __enter__(self) -> ShareMember:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        if self.epoch > 0:
            self.heartbeat(epoch=LEAVE)

    def heartbeat(
        self, *topics: str, epoch: int | None = None, member_id: str | None = None
    ) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group.name,
            member_id=self.member_id if member_id is None else member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            subscribed_topic_names=list(topics) or None,
        )
        return self.broker.ask(request, self.version, address=self.group.address)

    def join(self, topic: SuiteTopic) -> list[int]:
        """Join and wait for the partitions of `topic`."""
        answer = self.heartbeat(topic.name)
        expect_ok(answer.error_code, "the joining heartbeat")
        self.epoch = answer.member_epoch
        answers = iter([answer])

        def look() -> list[int] | None:
            found = next(answers, None) or self.heartbeat()
            expect_ok(found.error_code, "the heartbeat")
            self.epoch = found.member_epoch
            assigned = found.assignment.topic_partitions if found.assignment is not None else []
            return next((sorted(entry.partitions) for entry in assigned if entry.topic_id == topic.id), None)

        return wait_for(look, "an assignment")


@check(ShareGroupHeartbeatRequest, feature=SHARES)
def assigns_to_a_member(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic(2)
    with ShareMember(broker, version) as member:
        expect_equal(member.join(topic), [0, 1], "the assignment")
        code = member.heartbeat(member_id="stranger").error_code
        expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="a heartbeat of a stranger")
        code = member.heartbeat(epoch=member.epoch + 100).error_code
        expect_error(code, ErrorCode.FENCED_MEMBER_EPOCH, what="an epoch from the future")
        expect_equal(member.heartbeat(epoch=LEAVE).member_epoch, LEAVE, "the epoch after leaving")
        member.epoch = LEAVE


@check(ShareGroupDescribeRequest, needs=[ShareGroupHeartbeatRequest], feature=SHARES)
def describes_a_share_group(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    with ShareMember(broker) as member:
        member.join(topic)
        request = ShareGroupDescribeRequest(group_ids=[member.group.name])
        group = only(broker.ask(request, version, address=member.group.address).groups, "group in the answer")
        expect_ok(group.error_code, "ShareGroupDescribe")
        expect_equal([entry.member_id for entry in group.members], [member.member_id], "the members")


@check(ShareGroupDescribeRequest, feature=SHARES)
def describes_no_group_there_is_not(broker: JudgedBroker, version: int) -> None:
    group = broker.group()
    answer = broker.ask(ShareGroupDescribeRequest(group_ids=[group.name]), version, address=group.address)
    code = only(answer.groups, "group in the answer").error_code
    expect_error(code, ErrorCode.GROUP_ID_NOT_FOUND, what="an unknown group")


class ShareSession:
    """Fetching and acknowledging as one member, on one connection; each request has the next epoch."""

    def __init__(self, connection: ClientConnection, member: ShareMember, topic: SuiteTopic) -> None:
        self._connection = connection
        self._member = member
        self._topic = topic
        self._epoch = 0

    def fetch(self, version: int) -> PartitionData | None:
        """Partition 0, if there is news of it."""
        topics = [FetchTopic(topic_id=self._topic.id, partitions=[FetchPartition(partition_index=0)])]
        request = ShareFetchRequest(
            group_id=self._member.group.name,
            member_id=self._member.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=100,
            min_bytes=1,
            max_records=100,
            batch_size=100,
            topics=topics if self._epoch == 0 else [],
        )
        answer = self._connection.ask(request, version)
        expect_ok(answer.error_code, "ShareFetch")
        self._epoch += 1
        found = [partition for topic in answer.responses for partition in topic.partitions]
        return only(found, "partition in the answer") if found else None

    def acquire(self, version: int) -> PartitionData:
        """Write and fetch until records are acquired: a new group starts at the end, wherever that is by then."""

        def look() -> PartitionData | None:
            found = self.fetch(version)
            if found is not None:
                expect_ok(found.error_code, "the partition")
                if found.acquired_records:
                    return found
            expect_ok(append(self._member.broker, self._topic, encode_batch(*RECORDS)).error_code, "Produce")
            return None

        return wait_for(look, "records")

    def acknowledge(self, version: int, first: int, last: int) -> int:
        """Acknowledge offsets of partition 0. Returns the error code."""
        batch = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[ACCEPT])
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
        request = ShareAcknowledgeRequest(
            group_id=self._member.group.name,
            member_id=self._member.member_id,
            share_session_epoch=self._epoch,
            topics=[AcknowledgeTopic(topic_id=self._topic.id, partitions=[partition])],
        )
        answer = self._connection.ask(request, version)
        expect_ok(answer.error_code, "ShareAcknowledge")
        self._epoch += 1
        return only(only(answer.responses, "topic").partitions, "partition").error_code


def start_offset(
    broker: JudgedBroker, group: Coordinated, topic: SuiteTopic, version: int | None = None
) -> tuple[int] | None:
    """Where the group stands in partition 0; None while it has not settled."""
    wanted = DescribeShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=[0])
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group.name, topics=[wanted])]
    )
    found = only(broker.ask(request, version, address=group.address).groups, "group in the answer")
    expect_ok(found.error_code, "DescribeShareGroupOffsets")
    offset = only(only(found.topics, "topic").partitions, "partition").start_offset
    return None if offset < 0 else (offset,)


FETCHING = (ShareGroupHeartbeatRequest, ProduceRequest)


@check(ShareFetchRequest, needs=FETCHING, feature=SHARES)
def acquires_records(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    with ShareMember(broker) as member, broker.connect() as connection:
        member.join(topic)
        found = ShareSession(connection, member, topic).acquire(version)
        values = {record.offset: record.value for record in read_records(found.records or b"")}
        for acquired in found.acquired_records:
            expect_equal(acquired.delivery_count, 1, "the delivery count")
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                expect_equal(values.get(offset), RECORDS[offset % len(RECORDS)].value, f"the value at offset {offset}")


@check(ShareFetchRequest, feature=SHARES)
def refuses_a_session_that_was_not_opened(broker: JudgedBroker, version: int) -> None:
    request = ShareFetchRequest(group_id=broker.group().name, member_id=str(uuid4()), share_session_epoch=5)
    request.max_records = request.batch_size = 1
    code = broker.ask(request, version).error_code
    expect_error(code, ErrorCode.SHARE_SESSION_NOT_FOUND, what="a session that nobody opened")


@check(ShareAcknowledgeRequest, needs=[*FETCHING, ShareFetchRequest], feature=SHARES)
def takes_acknowledgements_of_what_was_acquired(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    with ShareMember(broker) as member, broker.connect() as connection:
        member.join(topic)
        session = ShareSession(connection, member, topic)
        acquired = session.acquire(broker.highest(ShareFetchRequest)).acquired_records[0]
        first, last = acquired.first_offset, acquired.last_offset
        expect_ok(session.acknowledge(version, first, last), "the acknowledgement")
        beyond = session.acknowledge(version, last + 1000, last + 1000)
        wanted = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
        expect_error(beyond, *wanted, what="acknowledging a record that was not acquired")


@check(DescribeShareGroupOffsetsRequest, needs=[ShareGroupHeartbeatRequest], feature=SHARES)
def describes_where_a_share_group_stands(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    with ShareMember(broker) as member:
        member.join(topic)
        start_offset(broker, member.group, topic, version)


@check(AlterShareGroupOffsetsRequest, needs=[*FETCHING, DescribeShareGroupOffsetsRequest], feature=SHARES)
def moves_an_empty_share_group(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    expect_ok(append(broker, topic, encode_batch(*RECORDS)).error_code, "Produce")
    with ShareMember(broker) as member:
        member.join(topic)
        expect_error(
            alter(broker, version, member.group, topic), ErrorCode.NON_EMPTY_GROUP, what="a group with members"
        )
    expect_ok(alter(broker, version, member.group, topic), "AlterShareGroupOffsets")
    settled = wait_for(lambda: start_offset(broker, member.group, topic), "a start offset")
    expect_equal(settled, (1,), "where the group stands")


def alter(broker: JudgedBroker, version: int, group: Coordinated, topic: SuiteTopic) -> int:
    """Set the offset of the group in partition 0 to 1. Returns the first error."""
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    wanted = AlterShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=[partition])
    request = AlterShareGroupOffsetsRequest(group_id=group.name, topics=[wanted])
    answer = broker.ask(request, version, address=group.address)
    if answer.error_code != ErrorCode.NONE:
        return answer.error_code
    return only(only(answer.responses, "topic").partitions, "partition").error_code


@check(DeleteShareGroupOffsetsRequest, needs=[ShareGroupHeartbeatRequest], feature=SHARES)
def forgets_where_a_share_group_stood(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    with ShareMember(broker) as member:
        member.join(topic)
    wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic.name)]
    request = DeleteShareGroupOffsetsRequest(group_id=member.group.name, topics=wanted)
    answer = broker.ask(request, version, address=member.group.address)
    expect_ok(answer.error_code, "DeleteShareGroupOffsets")
    expect_ok(only(answer.responses, "topic in the answer").error_code, "the topic")
    unknown = broker.ask(
        DeleteShareGroupOffsetsRequest(group_id=f"{member.group.name}-not", topics=wanted),
        version,
        address=member.group.address,
    )
    expect(unknown.error_code != ErrorCode.NONE, "offsets of an unknown group were deleted")
