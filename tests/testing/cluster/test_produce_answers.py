"""What brokers answer to Produce and to the requests of transactions, version by version; over memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.testing.cluster.batches import NewRecord, build_batch
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState
from kwire.testing.cluster.transaction import ProducerIdAndEpoch

if TYPE_CHECKING:
    from tests.testing.cluster.in_memory import MemoryClient, in_trio
else:
    from in_memory import MemoryClient, in_trio

NAME, TRANSACTION = "orders", "transfers"
VERIFIED, ABORTABLE, JOINS = 10, 11, 12
INIT_VERSION = 5


def produce(
    cluster: ClusterState,
    batch: bytes | None = None,
    *,
    acks: int = -1,
    partition: int = 0,
    transaction: str | None = None,
) -> ProduceRequest:
    records = build_batch([b"v"], timestamp_ms=cluster.wall_clock_ms()) if batch is None else batch
    data = TopicProduceData(
        name=NAME,
        topic_id=cluster.topics[NAME].topic_id,
        partition_data=[PartitionProduceData(index=partition, records=records)],
    )
    return ProduceRequest(transactional_id=transaction, acks=acks, timeout_ms=1_000, topic_data=[data])


def transactional(cluster: ClusterState, producer: InitProducerIdResponse, sequence: int = 0) -> bytes:
    return build_batch(
        [b"t"],
        timestamp_ms=cluster.wall_clock_ms(),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        transactional=True,
    )


def only(response: ProduceResponse) -> PartitionProduceResponse:
    ((data,),) = (topic.partition_responses for topic in response.responses)
    return data


async def init(client: MemoryClient, version: int = INIT_VERSION, **fields: object) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000)
    for name, value in fields.items():
        setattr(request, name, value)
    return await client.ask(request, version)


@in_trio
async def test_a_broker_that_does_not_lead_names_who_does(nursery: trio.Nursery) -> None:
    """KIP-951."""
    cluster = ClusterState(2)
    cluster.create_topic(NAME, replication=2)
    client = MemoryClient(cluster, nursery, 1)
    response = await client.ask(produce(cluster))
    assert (only(response).error_code, only(response).base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert only(response).current_leader.leader_id == 0
    assert [node.node_id for node in response.node_endpoints] == [0]
    assert only(await client.ask(produce(cluster), 9)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@in_trio
async def test_too_few_replicas_in_sync_refuse_what_all_have_to_have(nursery: trio.Nursery) -> None:
    cluster = ClusterState(2)
    cluster.create_topic(NAME, replication=2, config={"min.insync.replicas": "2"})
    client = MemoryClient(cluster, nursery)
    cluster.kill_broker(1)
    assert only(await client.ask(produce(cluster))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert only(await client.ask(produce(cluster, acks=1))).base_offset == 0
    cluster.start_broker(1)
    assert only(await client.ask(produce(cluster))).base_offset == 1


@in_trio
async def test_more_replicas_than_there_are_need_not_be_in_sync(nursery: trio.Nursery) -> None:
    """Kafka counts no more than all of them. A topic made for production stood still in a cluster of one broker."""
    cluster = ClusterState()
    cluster.create_topic(NAME, config={"min.insync.replicas": "2"})
    client = MemoryClient(cluster, nursery)
    assert only(await client.ask(produce(cluster))).base_offset == 0


@in_trio
async def test_an_error_without_acks_ends_the_connection(nursery: trio.Nursery) -> None:
    """There is no answer to put it in."""
    cluster = ClusterState()
    cluster.create_topic(NAME)
    client = MemoryClient(cluster, nursery)
    await client.send(produce(cluster, b"", acks=0))
    with pytest.raises(EOFError):
        await client.receive()


@in_trio
async def test_records_at_fault_are_named_to_those_who_know(nursery: trio.Nursery) -> None:
    """KIP-467."""
    cluster = ClusterState()
    cluster.create_topic(NAME, config={"cleanup.policy": "compact"})
    client = MemoryClient(cluster, nursery)
    batch = build_batch([NewRecord(b"v", b"k"), b"no key"], timestamp_ms=cluster.wall_clock_ms())
    answer = only(await client.ask(produce(cluster, batch), 8))
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert answer.error_message
    assert only(await client.ask(produce(cluster, batch), 7)).error_code == ErrorCode.INVALID_RECORD


@in_trio
async def test_refusals_look_as_kafka_s_do(nursery: trio.Nursery) -> None:
    """Where the log starts, and words, are in some answers and not in others; seen with Kafka 4.3.1."""
    cluster = ClusterState()
    cluster.create_topic(NAME, config={"cleanup.policy": "compact,delete", "max.message.bytes": "200"})
    cluster.produce(NAME, 0, [NewRecord(b"v", b"k")] * 2)
    cluster.delete_records(NAME, 0, 1)
    client = MemoryClient(cluster, nursery)
    good = build_batch([NewRecord(b"v", b"k")], timestamp_ms=cluster.wall_clock_ms())

    async def looks(batch: bytes) -> tuple[str, int, bool]:
        answer = only(await client.ask(produce(cluster, batch)))
        assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
        return ErrorCode.of(answer.error_code).name, answer.log_start_offset, answer.error_message is not None

    assert await looks(good + good) == ("INVALID_RECORD", -1, False)
    assert await looks(good[:-1] + b"\x55") == ("CORRUPT_MESSAGE", -1, False)
    assert await looks(b"\0" * 7 + b"\5" + good[8:]) == ("INVALID_RECORD", 1, False)
    large = build_batch([NewRecord(b"v" * 200, b"k")], timestamp_ms=cluster.wall_clock_ms())
    assert await looks(large) == ("MESSAGE_TOO_LARGE", -1, False)
    without_key = build_batch([b"v"], timestamp_ms=cluster.wall_clock_ms())
    assert await looks(without_key) == ("INVALID_RECORD", 1, True)


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (VERIFIED, ErrorCode.INVALID_TXN_STATE),
        (ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (JOINS, ErrorCode.NONE),
    ],
)
def test_records_of_a_transaction_the_coordinator_did_not_hear_of(version: int, error: ErrorCode) -> None:
    """KIP-890: refused, in words that the client knows; the newest leave it to the broker to tell the coordinator."""

    @in_trio
    async def test(nursery: trio.Nursery) -> None:
        cluster = ClusterState()
        cluster.create_topic(NAME)
        client = MemoryClient(cluster, nursery)
        batch = transactional(cluster, await init(client))
        answer = only(await client.ask(produce(cluster, batch, transaction=TRANSACTION), version))
        assert answer.error_code == error
        found = cluster.transactions.find(TRANSACTION, cluster.now_ms())
        assert found is not None
        assert list(found.partitions) == ([(NAME, 0)] if version == JOINS else [])

    test()


@in_trio
async def test_the_check_can_be_switched_off(nursery: trio.Nursery) -> None:
    cluster = ClusterState(settings=BrokerSettings.of({"transaction.partition.verification.enable": False}))
    cluster.create_topic(NAME)
    client = MemoryClient(cluster, nursery)
    batch = transactional(cluster, await init(client))
    assert only(await client.ask(produce(cluster, batch, transaction=TRANSACTION), VERIFIED)).error_code == 0


@in_trio
async def test_transactional_records_need_a_transactional_id(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    cluster.create_topic(NAME)
    client = MemoryClient(cluster, nursery)
    batch = transactional(cluster, await init(client))
    answer = only(await client.ask(produce(cluster, batch)))
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@in_trio
async def test_a_replaced_producer_s_records_are_refused(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    cluster.create_topic(NAME)
    client = MemoryClient(cluster, nursery)
    batch = transactional(cluster, await init(client))
    await init(client)
    for version in (VERIFIED, JOINS):
        answer = only(await client.ask(produce(cluster, batch, transaction=TRANSACTION), version))
        assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(("version", "error"), [(VERIFIED, "NOT_ENOUGH_REPLICAS"), (JOINS, "CONCURRENT_TRANSACTIONS")])
def test_records_while_the_last_transaction_ends_are_to_be_sent_again(version: int, error: str) -> None:
    @in_trio
    async def test(nursery: trio.Nursery) -> None:
        cluster = ClusterState(settings=BrokerSettings.of({"transaction.marker.delay.ms": 100}))
        nursery.start_soon(cluster.run)
        cluster.create_topic(NAME)
        client = MemoryClient(cluster, nursery)
        producer = await init(client)
        await client.ask(produce(cluster, transactional(cluster, producer), transaction=TRANSACTION))
        end = EndTxnRequest(
            transactional_id=TRANSACTION, producer_id=producer.producer_id, producer_epoch=0, committed=True
        )
        ended = await client.ask(end)
        assert (ended.error_code, ended.producer_epoch) == (0, 1)
        producer.producer_epoch = 1
        log = cluster.topics[NAME].partitions[0].log
        again = produce(cluster, transactional(cluster, producer), transaction=TRANSACTION)
        assert ErrorCode.of(only(await client.ask(again, version)).error_code).name == error
        await trio.sleep(0.2)
        assert log.last_stable_offset == 2
        if version == JOINS:
            assert only(await client.ask(again, version)).error_code == 0

    test()


@in_trio
async def test_a_transaction_of_produce_alone_times_out(nursery: trio.Nursery) -> None:
    """The clockwork hears of a transaction that a Produce began."""
    cluster = ClusterState()
    nursery.start_soon(cluster.run)
    cluster.create_topic(NAME)
    client = MemoryClient(cluster, nursery)
    producer = await init(client)
    await client.ask(produce(cluster, transactional(cluster, producer), transaction=TRANSACTION))
    await trio.sleep(80)
    log = cluster.topics[NAME].partitions[0].log
    assert log.last_stable_offset == 2
    assert [one.first_offset for one in log.aborted_between(0, 2)] == [0]


@pytest.mark.parametrize(("version", "error"), [(3, "INVALID_PRODUCER_EPOCH"), (4, "PRODUCER_FENCED")])
def test_a_fenced_producer_is_told_so_in_words_that_it_knows(version: int, error: str) -> None:
    """KIP-588."""

    @in_trio
    async def test(nursery: trio.Nursery) -> None:
        cluster = ClusterState()
        client = MemoryClient(cluster, nursery)
        old = await init(client)
        await init(client)
        await init(client)
        answer = await init(client, version, producer_id=old.producer_id, producer_epoch=old.producer_epoch)
        assert ErrorCode.of(answer.error_code).name == error

    test()


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 1_000_000}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_init_producer_id_refuses_nonsense(fields: dict[str, object], error: ErrorCode) -> None:
    @in_trio
    async def test(nursery: trio.Nursery) -> None:
        assert (await init(MemoryClient(ClusterState(), nursery), INIT_VERSION, **fields)).error_code == error

    test()


@in_trio
async def test_a_broker_that_does_not_coordinate_says_so(nursery: trio.Nursery) -> None:
    cluster = ClusterState(2)
    answers = [await init(MemoryClient(cluster, nursery, node_id)) for node_id in (0, 1)]
    assert sorted(answer.error_code for answer in answers) == [0, ErrorCode.NOT_COORDINATOR]
    clients = [MemoryClient(cluster, nursery, node_id) for node_id in (0, 1)]
    listed = [len((await client.ask(ListTransactionsRequest())).transaction_states) for client in clients]
    assert sorted(listed) == [0, 1], "both brokers list the transaction, or none"


@in_trio
async def test_partitions_are_added_all_or_none(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    cluster.create_topic(NAME)
    client = MemoryClient(cluster, nursery)
    producer = await init(client)
    topics = [
        AddPartitionsToTxnTopic(name=NAME, partitions=[0]),
        AddPartitionsToTxnTopic(name="nowhere", partitions=[0]),
    ]
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=TRANSACTION, producer_id=producer.producer_id, producer_epoch=0, topics=topics
    )

    async def codes(*, verify: bool) -> list[int]:
        transaction.verify_only = verify
        response = await client.ask(AddPartitionsToTxnRequest(transactions=[transaction]))
        (result,) = response.results_by_transaction
        return [one.partition_error_code for topic in result.topic_results for one in topic.results_by_partition]

    assert await codes(verify=False) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await codes(verify=True) == [ErrorCode.TRANSACTION_ABORTABLE] * 2
    topics.pop()
    assert await codes(verify=False) == [0]
    assert await codes(verify=True) == [0]


@in_trio
async def test_a_transaction_is_described_with_its_partitions_and_its_groups(nursery: trio.Nursery) -> None:
    """KIP-664: a group shows as its partition of the offsets topic; "abc" has Java's hash 96354, of 50 the 4th."""
    cluster = ClusterState()
    cluster.create_topic(NAME, partitions=2)
    client = MemoryClient(cluster, nursery)
    producer = await init(client)
    who = ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch)
    cluster.transactions.add(TRANSACTION, who, cluster.now_ms(), partitions=[(NAME, 1), (NAME, 0)], groups=["abc"])
    request = DescribeTransactionsRequest(transactional_ids=[TRANSACTION, "unknown", ""])
    found, unknown, nameless = (await client.ask(request)).transaction_states
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [(NAME, [1, 0]), ("__consumer_offsets", [4])]
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert found.transaction_start_time_ms == cluster.wall_clock_ms()
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert nameless.error_code == ErrorCode.INVALID_REQUEST


@in_trio
async def test_transactions_are_listed_by_pattern(nursery: trio.Nursery) -> None:
    """KIP-1152."""
    client = MemoryClient(ClusterState(), nursery)
    await init(client)
    await init(client, transactional_id="transport")

    async def listed(pattern: str | None) -> list[str]:
        response = await client.ask(ListTransactionsRequest(transactional_id_pattern=pattern))
        assert response.error_code == 0
        return [one.transactional_id for one in response.transaction_states]

    assert await listed(None) == [TRANSACTION, "transport"]
    assert await listed("trans.*") == [TRANSACTION, "transport"]
    assert await listed("transport") == ["transport"]
    assert await listed("trans") == [], "a part of the name is not enough"
    broken = await client.ask(ListTransactionsRequest(transactional_id_pattern="("))
    assert broken.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
