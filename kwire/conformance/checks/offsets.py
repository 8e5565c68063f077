"""OffsetCommit, OffsetFetch, OffsetDelete: positions are kept as they were handed in, and only for those who may."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.conformance.broker import SuiteTopic
from kwire.conformance.expectations import expect_equal, expect_error, expect_ok, only
from kwire.conformance.offsets import (
    MANY_GROUPS_FROM,
    STABLE_FROM,
    CheckedCommitter,
    CheckedPosition,
    commit,
    fetch_offset,
    offset_fetch_request,
    the_position,
)
from kwire.conformance.registry import check
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker

COMMITTED = CheckedPosition(offset=42, metadata="where we are: ✓", leader_epoch=3)
NO_OFFSET = -1
LEADER_EPOCH_FROM = 6
SERVED_BOTH_PROTOCOLS_FROM = 9
IDS_FROM = 10


@check(OffsetCommitRequest, needs=[OffsetFetchRequest])
def keeps_what_was_committed(broker: JudgedBroker, version: int) -> None:
    topic, group = broker.empty_topic(), broker.group()
    expect_ok(commit(broker, group, topic, COMMITTED, version=version), "OffsetCommit")
    found = fetch_offset(broker, group, topic)
    expect_equal(found.committed_offset, COMMITTED.offset, "the offset")
    expect_equal(found.metadata, COMMITTED.metadata, "the metadata")
    epoch = COMMITTED.leader_epoch if version >= LEADER_EPOCH_FROM else -1
    expect_equal(found.committed_leader_epoch, epoch, "the leader epoch")


@check(OffsetCommitRequest, needs=[OffsetFetchRequest])
def keeps_the_last_of_several(broker: JudgedBroker, version: int) -> None:
    """Positions may go back: the last commit counts, not the highest."""
    topic, group = broker.empty_topic(), broker.group()
    for offset in (10, 20, 5):
        expect_ok(commit(broker, group, topic, CheckedPosition(offset=offset), version=version), "OffsetCommit")
    expect_equal(fetch_offset(broker, group, topic).committed_offset, 5, "the offset")


@check(OffsetCommitRequest)
def refuses_too_much_metadata(broker: JudgedBroker, version: int) -> None:
    """The default of `offset.metadata.max.bytes` is 4,096; a million is above any sensible limit."""
    large = CheckedPosition(offset=1, metadata="x" * 30_000)
    code = commit(broker, broker.group(), broker.empty_topic(), large, version=version)
    expect_error(code, ErrorCode.OFFSET_METADATA_TOO_LARGE, what="metadata of 30,000 characters")


@check(OffsetCommitRequest)
def refuses_an_unknown_topic(broker: JudgedBroker, version: int) -> None:
    code = commit(broker, broker.group(), SuiteTopic(broker.new_name(), uuid4()), COMMITTED, version=version)
    wanted = ErrorCode.UNKNOWN_TOPIC_ID if version >= IDS_FROM else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    expect_error(code, wanted, what="an unknown topic")


@check(OffsetCommitRequest)
def refuses_a_member_of_a_group_there_is_not(broker: JudgedBroker, version: int) -> None:
    """Brokers with the new coordinator say from version 9 on that the group does not exist (KIP-848)."""
    stranger = CheckedCommitter(member_id="stranger", generation=1)
    code = commit(broker, broker.group(), broker.empty_topic(), COMMITTED, version=version, committer=stranger)
    both = version >= SERVED_BOTH_PROTOCOLS_FROM
    wanted = (ErrorCode.ILLEGAL_GENERATION, *([ErrorCode.GROUP_ID_NOT_FOUND] if both else []))
    expect_error(code, *wanted, what="a generation of a group that does not exist")


@check(OffsetCommitRequest)
def refuses_a_stranger_to_a_group_with_offsets(broker: JudgedBroker, version: int) -> None:
    topic, group = broker.empty_topic(), broker.group()
    expect_ok(commit(broker, group, topic, COMMITTED), "OffsetCommit")
    code = commit(
        broker, group, topic, COMMITTED, version=version, committer=CheckedCommitter(member_id="stranger", generation=1)
    )
    expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, what="a member that the group does not have")


@check(OffsetFetchRequest, needs=[OffsetCommitRequest])
def tells_what_was_committed(broker: JudgedBroker, version: int) -> None:
    topic, group = broker.empty_topic(), broker.group()
    expect_ok(commit(broker, group, topic, COMMITTED), "OffsetCommit")
    found = fetch_offset(broker, group, topic, version=version)
    expect_ok(found.error_code, "the partition")
    expect_equal(found.committed_offset, COMMITTED.offset, "the offset")
    expect_equal(found.metadata, COMMITTED.metadata, "the metadata")
    if version >= 5:
        expect_equal(found.committed_leader_epoch, COMMITTED.leader_epoch, "the leader epoch")


@check(OffsetFetchRequest)
def has_no_offset_where_none_was_committed(broker: JudgedBroker, version: int) -> None:
    found = fetch_offset(broker, broker.group(), broker.empty_topic(), version=version)
    expect_ok(found.error_code, "a partition without offset")
    expect_equal(found.committed_offset, NO_OFFSET, "the offset")
    expect_equal(found.metadata, "", "the metadata")


@check(OffsetFetchRequest, versions="2+", needs=[OffsetCommitRequest])
def tells_all_when_asked_for_none_in_particular(broker: JudgedBroker, version: int) -> None:
    topic, group = broker.empty_topic(), broker.group()
    expect_ok(commit(broker, group, topic, COMMITTED), "OffsetCommit")
    request = offset_fetch_request(group, None, version)
    found = the_position(broker.ask(request, version, address=group.address), version)
    expect_equal(found.committed_offset, COMMITTED.offset, "the offset")


@check(OffsetFetchRequest, versions=f"{STABLE_FROM}+", needs=[OffsetCommitRequest])
def tells_stable_offsets(broker: JudgedBroker, version: int) -> None:
    """KIP-447: without a transaction in the way, asking for stable offsets changes nothing."""
    topic, group = broker.empty_topic(), broker.group()
    expect_ok(commit(broker, group, topic, COMMITTED), "OffsetCommit")
    found = fetch_offset(broker, group, topic, version=version, require_stable=True)
    expect_equal(found.committed_offset, COMMITTED.offset, "the offset")


@check(OffsetFetchRequest, versions=f"{MANY_GROUPS_FROM}+", needs=[OffsetCommitRequest])
def tells_of_many_groups_at_once(broker: JudgedBroker, version: int) -> None:
    """KIP-709; a group there is not has no offsets, which is no error."""
    topic, group = broker.empty_topic(), broker.group()
    expect_ok(commit(broker, group, topic, COMMITTED), "OffsetCommit")
    request = offset_fetch_request(group, topic, version)
    request.groups.append(type(request.groups[0])(group_id=f"{group.name}-not", topics=None))
    answer = broker.ask(request, version, address=group.address)
    found = {entry.group_id: [part.committed_offset for top in entry.topics for part in top.partitions]
             for entry in answer.groups}  # fmt: skip
    expect_equal(found, {group.name: [COMMITTED.offset], f"{group.name}-not": []}, "the offsets")


@check(OffsetFetchRequest, versions=f"{IDS_FROM}+")
def refuses_an_unknown_topic_id(broker: JudgedBroker, version: int) -> None:
    found = fetch_offset(broker, broker.group(), SuiteTopic("", uuid4()), version=version)
    expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_ID, what="an unknown topic id")


@check(OffsetDeleteRequest, needs=[OffsetCommitRequest, OffsetFetchRequest])
def deletes_an_offset(broker: JudgedBroker, version: int) -> None:
    """KIP-496."""
    topic, group = broker.empty_topic(), broker.group()
    expect_ok(commit(broker, group, topic, COMMITTED), "OffsetCommit")
    wanted = OffsetDeleteRequestTopic(name=topic.name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    answer = broker.ask(OffsetDeleteRequest(group_id=group.name, topics=[wanted]), version, address=group.address)
    expect_ok(answer.error_code, "OffsetDelete")
    expect_ok(only(only(answer.topics, "topic").partitions, "partition").error_code, "the partition")
    expect_equal(fetch_offset(broker, group, topic).committed_offset, NO_OFFSET, "the offset after deleting")


@check(OffsetDeleteRequest)
def deletes_nothing_of_a_group_there_is_not(broker: JudgedBroker, version: int) -> None:
    group = broker.group()
    answer = broker.ask(OffsetDeleteRequest(group_id=group.name), version, address=group.address)
    expect_error(answer.error_code, ErrorCode.GROUP_ID_NOT_FOUND, what="an unknown group")
