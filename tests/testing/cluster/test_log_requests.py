"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeProducers, where the conformance suite does not look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.testing.cluster.batches import build_batch
from kwire.testing.cluster.state import ClusterState

if TYPE_CHECKING:
    from tests.testing.cluster.in_memory import MemoryClient, in_trio
else:
    from in_memory import MemoryClient, in_trio

NAME = "orders"
LATEST, EARLIEST, LARGEST = -1, -2, -3


def a_cluster(brokers: int = 1, cleanup_policy: str = "delete") -> ClusterState:
    cluster = ClusterState(brokers)
    cluster.create_topic(NAME, replication=brokers, config={"cleanup.policy": cleanup_policy})
    return cluster


def open_transaction(cluster: ClusterState, producer_id: int = 5) -> None:
    batch = build_batch(
        [b"t"] * 2,
        timestamp_ms=cluster.wall_clock_ms() + 1,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    cluster.topics[NAME].partitions[0].log.append(batch, 0, cluster.wall_clock_ms())


async def look_up(
    client: MemoryClient, *times: int, version: int = 11, isolation: int = 0
) -> list[ListOffsetsPartitionResponse]:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=time) for time in times]
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=NAME, partitions=partitions)]
    )
    return (await client.ask(request, version)).topics[0].partitions


@in_trio
async def test_readers_of_committed_records_see_an_earlier_end(nursery: trio.Nursery) -> None:
    cluster = a_cluster()
    cluster.produce(NAME, 0, [b"v"])
    open_transaction(cluster)
    client = MemoryClient(cluster, nursery)
    in_transaction_ms = cluster.wall_clock_ms() + 1
    for isolation, end, found in ((0, 3, 1), (1, 1, -1)):
        for time, offset in ((LATEST, end), (in_transaction_ms, found), (LARGEST, found)):
            (answer,) = await look_up(client, time, isolation=isolation)
            assert (answer.error_code, answer.offset) == (0, offset)


@pytest.mark.parametrize(("time", "first_version"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)])
def test_special_times_are_known_from_a_version_on(time: int, first_version: int) -> None:
    @in_trio
    async def test(nursery: trio.Nursery) -> None:
        client = MemoryClient(a_cluster(), nursery)
        for version in range(1, 12):
            (answer,) = await look_up(client, time, version=version)
            wanted = ErrorCode.NONE if version >= first_version else ErrorCode.UNSUPPORTED_VERSION
            assert answer.error_code == wanted

    test()


@in_trio
async def test_a_partition_asked_for_twice_is_answered_with_an_error(nursery: trio.Nursery) -> None:
    answers = await look_up(MemoryClient(a_cluster(), nursery), LATEST, EARLIEST)
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST] * 2


@in_trio
async def test_a_follower_knows_no_offsets(nursery: trio.Nursery) -> None:
    (answer,) = await look_up(MemoryClient(a_cluster(brokers=2), nursery, 1), LATEST)
    assert (answer.error_code, answer.offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@in_trio
async def test_a_reader_learns_where_its_epoch_ended_in_an_unclean_election(nursery: trio.Nursery) -> None:
    """KIP-320."""
    cluster = a_cluster(brokers=2)
    for _ in range(5):
        cluster.produce(NAME, 0, [b"v"])
    cluster.elect_uncleanly(NAME, 0, lose=2)
    client = MemoryClient(cluster, nursery, cluster.topics[NAME].partitions[0].leader)

    async def end(epoch: int, current: int = 1) -> tuple[int, int, int]:
        wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=NAME, partitions=[wanted])]
        found = (await client.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert await end(0) == (0, 0, 3)
    assert await end(1) == (0, 1, 3), "the new leader's epoch begins before it has written anything"
    assert await end(0, current=0) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)


async def delete(client: MemoryClient, offset: int) -> DeleteRecordsPartitionResult:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=NAME, partitions=[partition])], timeout_ms=100)
    return (await client.ask(request)).topics[0].partitions[0]


@pytest.mark.parametrize(
    ("offset", "error", "start"),
    [
        (2, ErrorCode.NONE, 2),
        (-1, ErrorCode.NONE, 3),
        (4, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (-2, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
    ],
)
def test_records_are_deleted_up_to_an_offset_within_the_log(offset: int, error: ErrorCode, start: int) -> None:
    @in_trio
    async def test(nursery: trio.Nursery) -> None:
        cluster = a_cluster()
        cluster.produce(NAME, 0, [b"v"] * 3)
        client = MemoryClient(cluster, nursery)
        answer = await delete(client, offset)
        assert (answer.error_code, answer.low_watermark) == (error, start)
        (found,) = await look_up(client, EARLIEST)
        assert found.offset == max(0, start)

    test()


@in_trio
async def test_records_of_a_compacted_topic_are_not_deleted_by_hand(nursery: trio.Nursery) -> None:
    cluster = a_cluster(cleanup_policy="compact")
    answer = await delete(MemoryClient(cluster, nursery), 0)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.POLICY_VIOLATION, -1)


@in_trio
async def test_producers_are_described_with_their_open_transactions(nursery: trio.Nursery) -> None:
    """KIP-664."""
    cluster = a_cluster()
    cluster.produce(NAME, 0, [b"v"])
    open_transaction(cluster)
    request = DescribeProducersRequest(topics=[TopicRequest(name=NAME, partition_indexes=[0, 1])])
    found, missing = (await MemoryClient(cluster, nursery).ask(request)).topics[0].partitions
    (producer,) = found.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (5, 3)
    assert (producer.last_sequence, producer.current_txn_start_offset) == (1, 1)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@in_trio
async def test_retention_moves_the_start_that_readers_are_told(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    cluster.create_topic(NAME, config={"retention.ms": "1000"})
    client = MemoryClient(cluster, nursery)
    cluster.produce(NAME, 0, [b"old"] * 2)
    await trio.sleep(2)
    cluster.produce(NAME, 0, [b"new"])
    assert cluster.retain(NAME, 0) == 2
    (found,) = await look_up(client, EARLIEST)
    assert found.offset == 2
