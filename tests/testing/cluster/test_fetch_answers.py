"""What brokers answer to Fetch: who may read where, when, and how much; over memory, on a clock that jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.records import read_records
from kwire.testing.cluster.batches import build_batch
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState

if TYPE_CHECKING:
    from tests.testing.cluster.in_memory import MemoryClient, in_trio
else:
    from in_memory import MemoryClient, in_trio

NAME = "orders"
OLD, NEW = 12, 18
LATER_EPOCH = 9


def cluster_with_topic(brokers: int = 1, partitions: int = 1, **settings: object) -> ClusterState:
    cluster = ClusterState(brokers, settings=BrokerSettings.of(settings), racks=["east", "west"])
    cluster.create_topic(NAME, partitions=partitions, replication=min(2, brokers))
    return cluster


def fetch(
    cluster: ClusterState, *wanted: FetchPartition, wait_ms: int = 0, min_bytes: int = 1, **fields: object
) -> FetchRequest:
    topic = FetchTopic(topic=NAME, topic_id=cluster.topics[NAME].topic_id, partitions=list(wanted))
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=[topic])
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def at(
    offset: int, *, partition: int = 0, current_leader_epoch: int = -1, last_fetched_epoch: int = -1
) -> FetchPartition:
    return FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=current_leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )


def only(response: FetchResponse) -> PartitionData:
    ((data,),) = (topic.partitions for topic in response.responses)
    return data


def values(data: PartitionData) -> list[bytes | None]:
    return [record.value for record in read_records(data.records or b"")]


@in_trio
async def test_records_that_come_end_the_wait(nursery: trio.Nursery) -> None:
    cluster = cluster_with_topic()
    client = MemoryClient(cluster, nursery)
    await client.send(fetch(cluster, at(0), wait_ms=10_000))
    await trio.sleep(2)
    cluster.produce(NAME, 0, [b"at last"])
    response = await client.receive()
    assert isinstance(response, FetchResponse)
    assert values(only(response)) == [b"at last"]
    assert trio.current_time() == pytest.approx(2)


@in_trio
async def test_too_few_bytes_do_not_end_the_wait(nursery: trio.Nursery) -> None:
    cluster = cluster_with_topic(partitions=2)
    client = MemoryClient(cluster, nursery)
    await client.send(fetch(cluster, at(0), at(0, partition=1), wait_ms=10_000, min_bytes=150))
    for partition in (0, 1):  # a batch with a record has about 70 bytes
        await trio.sleep(1)
        cluster.produce(NAME, partition, [b"v"])
    await trio.sleep(1)
    cluster.produce(NAME, 0, [b"enough"])
    response = await client.receive()
    assert trio.current_time() == pytest.approx(3)
    assert isinstance(response, FetchResponse)
    assert [values(data) for data in response.responses[0].partitions] == [[b"v", b"enough"], [b"v"]]


@in_trio
async def test_open_transactions_hold_readers_of_committed_records_in_their_wait(nursery: trio.Nursery) -> None:
    cluster = cluster_with_topic()
    log = cluster.topics[NAME].partitions[0].log
    batch = build_batch(
        [b"t"],
        timestamp_ms=cluster.wall_clock_ms(),
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    log.append(batch, 0, cluster.wall_clock_ms())
    client = MemoryClient(cluster, nursery)
    await client.send(fetch(cluster, at(0), wait_ms=10_000, isolation_level=1))
    await trio.sleep(4)
    log.end_transaction(5, 0, 0, cluster.wall_clock_ms(), committed=False)
    cluster.changed.notify(cluster.topics[NAME].partitions[0].key)
    response = await client.receive()
    assert trio.current_time() == pytest.approx(4)
    assert isinstance(response, FetchResponse)
    aborted = only(response).aborted_transactions
    assert [(one.producer_id, one.first_offset) for one in aborted or []] == [(5, 0)]
    uncommitted = only(await client.ask(fetch(cluster, at(0))))
    assert (uncommitted.aborted_transactions, uncommitted.last_stable_offset) == (None, 2)


@in_trio
async def test_a_new_leader_ends_the_wait_and_is_named(nursery: trio.Nursery) -> None:
    """KIP-951."""
    cluster = cluster_with_topic(brokers=2)
    client = MemoryClient(cluster, nursery)
    await client.send(fetch(cluster, at(0, current_leader_epoch=0), wait_ms=10_000))
    await trio.sleep(1)
    cluster.move_leader(NAME, 0, 1)
    response = await client.receive()
    assert trio.current_time() == pytest.approx(1)
    assert isinstance(response, FetchResponse)
    data = only(response)
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)
    assert [node.node_id for node in response.node_endpoints] == [1]


@in_trio
async def test_a_deleted_topic_ends_the_wait(nursery: trio.Nursery) -> None:
    cluster = cluster_with_topic()
    client = MemoryClient(cluster, nursery)
    await client.send(fetch(cluster, at(0), wait_ms=10_000))
    await trio.sleep(1)
    cluster.delete_topic(NAME)
    response = await client.receive()
    assert isinstance(response, FetchResponse)
    assert only(response).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert trio.current_time() == pytest.approx(1)


@pytest.mark.parametrize(
    ("wanted", "version", "error"),
    [
        pytest.param(at(0, partition=7), NEW, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="no such partition"),
        pytest.param(at(3), NEW, ErrorCode.OFFSET_OUT_OF_RANGE, id="behind the end"),
        pytest.param(at(0), NEW, ErrorCode.OFFSET_OUT_OF_RANGE, id="in front of the start"),
        pytest.param(at(1, current_leader_epoch=LATER_EPOCH), NEW, ErrorCode.UNKNOWN_LEADER_EPOCH, id="a later epoch"),
        pytest.param(at(0, last_fetched_epoch=0), NEW, ErrorCode.OFFSET_OUT_OF_RANGE, id="deleted, by epoch"),
        pytest.param(at(1, last_fetched_epoch=LATER_EPOCH), NEW, ErrorCode.OFFSET_OUT_OF_RANGE, id="read in no epoch"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(wanted: FetchPartition, version: int, error: ErrorCode) -> None:
    @in_trio
    async def test(nursery: trio.Nursery) -> None:
        cluster = cluster_with_topic()
        cluster.produce(NAME, 0, [b"one"])
        cluster.produce(NAME, 0, [b"two"])
        cluster.delete_records(NAME, 0, 1)
        response = await MemoryClient(cluster, nursery).ask(fetch(cluster, wanted, wait_ms=5_000), version)
        assert (only(response).error_code, only(response).high_watermark) == (error, -1)
        from_the_log = error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert only(response).aborted_transactions == (None if from_the_log else [])
        assert trio.current_time() == 0

    test()


@in_trio
async def test_an_unknown_topic_is_refused_by_what_it_was_named_by(nursery: trio.Nursery) -> None:
    cluster = cluster_with_topic()
    request = fetch(cluster, at(0))
    cluster.delete_topic(NAME)
    client = MemoryClient(cluster, nursery)
    assert only(await client.ask(request, OLD)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only(await client.ask(request, NEW)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@in_trio
async def test_a_log_that_parted_is_shown_where(nursery: trio.Nursery) -> None:
    """KIP-320, KIP-595: two records of epoch 0 were lost; a reader that has them is sent back."""
    cluster = cluster_with_topic(brokers=2)
    for value in (b"0", b"1", b"2", b"3"):
        cluster.produce(NAME, 0, [value])
    cluster.elect_uncleanly(NAME, 0, lose=2)
    cluster.produce(NAME, 0, [b"other"])
    client = MemoryClient(cluster, nursery, cluster.topics[NAME].partitions[0].leader)
    data = only(await client.ask(fetch(cluster, at(3, last_fetched_epoch=0))))
    assert (data.error_code, data.records) == (0, b"")
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 2)
    assert values(only(await client.ask(fetch(cluster, at(2, last_fetched_epoch=0))))) == [b"other"]


@in_trio
async def test_followers_are_read_by_those_who_know_how(nursery: trio.Nursery) -> None:
    """KIP-392."""
    cluster = cluster_with_topic(brokers=2)
    cluster.produce(NAME, 0, [b"v"])
    follower = MemoryClient(cluster, nursery, 1)
    assert values(only(await follower.ask(fetch(cluster, at(0)), 11))) == [b"v"]
    assert only(await follower.ask(fetch(cluster, at(0)), 10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.kill_broker(1)
    cluster.start_broker(1)
    assert values(only(await MemoryClient(cluster, nursery, 1).ask(fetch(cluster, at(0))))) == [b"v"]


@pytest.mark.parametrize(
    ("rack", "aware", "preferred"), [("west", True, 1), ("east", True, -1), ("", True, -1), ("west", False, -1)]
)
def test_readers_are_sent_to_the_replica_of_their_rack(rack: str, aware: bool, preferred: int) -> None:
    """KIP-392: by the leader, which then sends no records."""

    @in_trio
    async def test(nursery: trio.Nursery) -> None:
        cluster = cluster_with_topic(brokers=2, replica_selector_is_rack_aware=aware)
        cluster.produce(NAME, 0, [b"v"])
        request = fetch(cluster, at(0), rack_id=rack, wait_ms=5_000)
        data = only(await MemoryClient(cluster, nursery).ask(request))
        assert data.preferred_read_replica == preferred
        assert bool(data.records) == (preferred < 0)
        request = fetch(cluster, at(0), rack_id=rack)
        assert values(only(await MemoryClient(cluster, nursery, 1).ask(request))) == [b"v"]

    test()


@in_trio
async def test_limits_hold_for_all_partitions_together(nursery: trio.Nursery) -> None:
    """KIP-74: the first batch is whole; what does not fit any more is left for the next fetch."""
    cluster = cluster_with_topic(partitions=3)
    for partition in range(3):
        cluster.produce(NAME, partition, [b"x" * 500])
    client = MemoryClient(cluster, nursery)
    wanted = [at(0, partition=partition) for partition in range(3)]

    async def sizes(max_bytes: int) -> list[int]:
        response = await client.ask(fetch(cluster, *wanted, max_bytes=max_bytes))
        return [len(values(data)) for data in response.responses[0].partitions]

    assert await sizes(1) == [1, 0, 0]
    assert await sizes(1_200) == [1, 1, 0]
    assert await sizes(100_000) == [1, 1, 1]


@in_trio
async def test_a_session_dies_with_its_broker(nursery: trio.Nursery) -> None:
    """KIP-227."""
    cluster = cluster_with_topic()
    request = fetch(cluster, at(0), session_epoch=0)
    session_id = (await MemoryClient(cluster, nursery).ask(request)).session_id
    assert session_id > 0
    cluster.kill_broker(0)
    cluster.start_broker(0)
    again = FetchRequest(session_id=session_id, session_epoch=1)
    response = await MemoryClient(cluster, nursery).ask(again)
    assert (response.error_code, response.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


@in_trio
async def test_what_is_produced_over_the_wire_wakes_readers(nursery: trio.Nursery) -> None:
    cluster = cluster_with_topic()
    reader, writer = MemoryClient(cluster, nursery), MemoryClient(cluster, nursery)
    await reader.send(fetch(cluster, at(0), wait_ms=10_000))
    await trio.sleep(1)
    records = build_batch([b"v"], timestamp_ms=cluster.wall_clock_ms())
    data = TopicProduceData(
        topic_id=cluster.topics[NAME].topic_id, partition_data=[PartitionProduceData(index=0, records=records)]
    )
    await writer.send(ProduceRequest(acks=0, topic_data=[data]))
    response = await reader.receive()
    assert isinstance(response, FetchResponse)
    assert values(only(response)) == [b"v"]
    assert trio.current_time() == pytest.approx(1)
