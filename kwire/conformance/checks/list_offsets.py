"""ListOffsets and OffsetForLeaderEpoch: the ends of a log, offsets by time, and where leader epochs ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.conformance.expectations import expect_equal, expect_error, expect_ok, only
from kwire.conformance.registry import check
from kwire.conformance.writing import filled_topic
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker
    from kwire.protocol.messages.list_offsets import ListOffsetsPartitionResponse
    from kwire.protocol.messages.offset_for_leader_epoch import EpochEndOffset

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
CONSUMER = -1
UNKNOWN = -1
LATER_THAN_ANY_EPOCH = 1_000_000
READ_COMMITTED = 1


def look_up(
    broker: JudgedBroker,
    version: int,
    topic: str,
    time_ms: int,
    *,
    partition: int = 0,
    epoch: int = -1,
    isolation: int = 0,
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=time_ms, current_leader_epoch=epoch)
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
        timeout_ms=int(broker.timeout_s * 1000) if version >= 10 else 0,
    )
    answer = broker.ask(request, version)
    return only(only(answer.topics, "topic in the answer").partitions, "partition in the answer")


def expect_offset(broker: JudgedBroker, version: int, topic: str, time_ms: int, wanted: int, what: str) -> None:
    found = look_up(broker, version, topic, time_ms)
    expect_ok(found.error_code, what)
    expect_equal(found.offset, wanted, what)


@check(ListOffsetsRequest, needs=[ProduceRequest])
def knows_both_ends(broker: JudgedBroker, version: int) -> None:
    filled = filled_topic(broker)
    expect_offset(broker, version, filled.topic.name, EARLIEST, 0, "the earliest offset")
    expect_offset(broker, version, filled.topic.name, LATEST, filled.end, "the latest offset")
    if version >= 2:
        found = look_up(broker, version, filled.topic.name, LATEST, isolation=READ_COMMITTED)
        expect_equal(found.offset, filled.end, "the latest committed offset")


@check(ListOffsetsRequest)
def knows_both_ends_of_an_empty_log(broker: JudgedBroker, version: int) -> None:
    topic = broker.empty_topic()
    for time_ms in (EARLIEST, LATEST):
        expect_offset(broker, version, topic.name, time_ms, 0, f"the offset for time {time_ms}")


@check(ListOffsetsRequest, needs=[ProduceRequest])
def finds_offsets_by_time(broker: JudgedBroker, version: int) -> None:
    """The first record at or after the time, with its own timestamp; -1 when there is none."""
    filled = filled_topic(broker)
    for time_ms, offset in ((0, 0), (filled.time_ms(0), 0), (filled.time_ms(3), 3), (filled.time_ms(3) + 1, 4)):
        found = look_up(broker, version, filled.topic.name, time_ms)
        expect_ok(found.error_code, f"the look-up of {time_ms}")
        expect_equal(found.offset, offset, f"the offset for time {time_ms}")
        expect_equal(found.timestamp, filled.time_ms(offset), f"the timestamp for time {time_ms}")
    behind = look_up(broker, version, filled.topic.name, filled.time_ms(filled.end))
    expect_equal((behind.error_code, behind.offset), (0, UNKNOWN), "error and offset for a time behind the last record")


@check(ListOffsetsRequest, versions="7+", needs=[ProduceRequest])
def finds_the_largest_timestamp(broker: JudgedBroker, version: int) -> None:
    """KIP-734."""
    filled = filled_topic(broker)
    found = look_up(broker, version, filled.topic.name, MAX_TIMESTAMP)
    expect_ok(found.error_code, "the largest timestamp")
    expect_equal(found.timestamp, filled.time_ms(filled.end - 1), "the largest timestamp")
    expect_equal(found.offset, filled.end - 1, "its offset")


@check(ListOffsetsRequest, versions="8+", needs=[ProduceRequest])
def knows_where_the_local_log_starts(broker: JudgedBroker, version: int) -> None:
    """KIP-405: without remote storage, where the log starts."""
    expect_offset(broker, version, filled_topic(broker).topic.name, EARLIEST_LOCAL, 0, "the earliest local offset")


@check(ListOffsetsRequest, versions="9+", needs=[ProduceRequest])
def knows_that_nothing_is_in_remote_storage(broker: JudgedBroker, version: int) -> None:
    """KIP-1005, and KIP-1023 from version 11 on: a topic without remote storage has no such offsets."""
    topic = filled_topic(broker).topic.name
    for time_ms in (LATEST_TIERED, EARLIEST_PENDING)[: 2 if version >= 11 else 1]:
        expect_offset(broker, version, topic, time_ms, UNKNOWN, f"the offset for time {time_ms}")


@check(ListOffsetsRequest)
def refuses_an_unknown_topic(broker: JudgedBroker, version: int) -> None:
    found = look_up(broker, version, broker.new_name(), LATEST)
    expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="an unknown topic")


@check(ListOffsetsRequest)
def refuses_an_unknown_partition(broker: JudgedBroker, version: int) -> None:
    found = look_up(broker, version, broker.empty_topic().name, LATEST, partition=99)
    expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="an unknown partition")


@check(ListOffsetsRequest, versions="4+")
def refuses_a_leader_epoch_from_the_future(broker: JudgedBroker, version: int) -> None:
    """KIP-320."""
    found = look_up(broker, version, broker.empty_topic().name, LATEST, epoch=LATER_THAN_ANY_EPOCH)
    expect_error(found.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH, what="an epoch not heard of yet")


def epoch_end(
    broker: JudgedBroker, version: int, topic: str, epoch: int, *, current: int = -1, partition: int = 0
) -> EpochEndOffset:
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER, topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    )
    answer = broker.ask(request, version)
    return only(only(answer.topics, "topic in the answer").partitions, "partition in the answer")


@check(OffsetForLeaderEpochRequest, needs=[ProduceRequest, ListOffsetsRequest])
def knows_the_end_of_the_current_epoch(broker: JudgedBroker, version: int) -> None:
    filled = filled_topic(broker)
    current = look_up(broker, broker.highest(ListOffsetsRequest), filled.topic.name, LATEST).leader_epoch
    found = epoch_end(broker, version, filled.topic.name, current, current=current)
    expect_ok(found.error_code, "OffsetForLeaderEpoch")
    expect_equal((found.leader_epoch, found.end_offset), (current, filled.end), "epoch and end")


@check(OffsetForLeaderEpochRequest, needs=[ProduceRequest])
def knows_no_end_of_a_later_epoch(broker: JudgedBroker, version: int) -> None:
    found = epoch_end(broker, version, filled_topic(broker).topic.name, LATER_THAN_ANY_EPOCH)
    expect_ok(found.error_code, "OffsetForLeaderEpoch")
    expect_equal((found.leader_epoch, found.end_offset), (UNKNOWN, UNKNOWN), "epoch and end")


@check(OffsetForLeaderEpochRequest)
def knows_no_epochs_of_an_unknown_topic(broker: JudgedBroker, version: int) -> None:
    found = epoch_end(broker, version, broker.new_name(), 0)
    expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="an unknown topic")


@check(OffsetForLeaderEpochRequest)
def refuses_a_current_epoch_from_the_future(broker: JudgedBroker, version: int) -> None:
    """KIP-320."""
    found = epoch_end(broker, version, broker.empty_topic().name, 0, current=LATER_THAN_ANY_EPOCH)
    expect_error(found.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH, what="an epoch not heard of yet")
