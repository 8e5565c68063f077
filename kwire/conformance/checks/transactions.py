"""Transactions (KIP-98, KIP-890): committed records are visible, aborted ones are not, and old producers are fenced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.conformance.batches import RecordToWrite, Writer
from kwire.conformance.broker import NOT_READY, Coordinated, wait_for
from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok, only
from kwire.conformance.offsets import fetch_offset
from kwire.conformance.producers import (
    CLIENTS_UP_TO,
    EPOCH_PER_TRANSACTION_FROM,
    IMPLICIT_PRODUCE_FROM,
    TransactionalProducer,
    init_producer,
)
from kwire.conformance.reading import READ_COMMITTED, at, fetch, records_of
from kwire.conformance.registry import check
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.records import ControlType, iter_batches, read_control

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker, SuiteTopic
    from kwire.protocol.messages.fetch import PartitionData

RECORDS = (RecordToWrite(b"in a transaction"), RecordToWrite(b"and another"))
WRITING = (ProduceRequest, FetchRequest, InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest)
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
"""The second one is the answer to old versions of a request (KIP-588)."""

IMPLICIT_OFFSETS_FROM = 5
"""From this version on TxnOffsetCommit adds its group to the transaction by itself (KIP-890)."""


@check(InitProducerIdRequest)
def hands_out_ids_of_their_own(broker: JudgedBroker, version: int) -> None:
    answers = [init_producer(broker, version=version) for _ in range(2)]
    for answer in answers:
        expect_ok(answer.error_code, "InitProducerId")
        expect_equal(answer.producer_epoch, 0, "the epoch of a new producer")
    expect(answers[0].producer_id != answers[1].producer_id, f"the id {answers[0].producer_id} was handed out twice")


@check(InitProducerIdRequest)
def fences_the_one_before(broker: JudgedBroker, version: int) -> None:
    """InitProducerId again for a transactional id answers the same producer id and a higher epoch."""
    transaction = broker.transaction()
    first = init_producer(broker, transaction, version=version)
    second = init_producer(broker, transaction, version=version)
    for answer in (first, second):
        expect_ok(answer.error_code, "InitProducerId")
    expect_equal(second.producer_id, first.producer_id, "the producer id")
    expect(second.producer_epoch > first.producer_epoch, f"the epoch stayed at {second.producer_epoch}")
    old = Writer(producer_id=first.producer_id, epoch=first.producer_epoch, transactional=True)
    code = TransactionalProducer(broker, transaction, old).end(committed=True).error_code
    expect_error(code, *FENCED, what="EndTxn of the producer before")


@check(InitProducerIdRequest, versions="3+")
def fences_who_comes_back_too_late(broker: JudgedBroker, version: int) -> None:
    """KIP-360: a producer may resume with the epoch it has, but not after another took over."""
    transaction = broker.transaction()
    first = init_producer(broker, transaction, version=version)
    init_producer(broker, transaction, version=version)
    init_producer(broker, transaction, version=version)
    late = Writer(producer_id=first.producer_id, epoch=first.producer_epoch)
    code = init_producer(broker, transaction, version=version, resume=late).error_code
    expect_error(code, *FENCED, what="a producer with an old epoch")


@check(InitProducerIdRequest)
def refuses_an_empty_transactional_id(broker: JudgedBroker, version: int) -> None:
    code = init_producer(broker, Coordinated("", broker.address), version=version).error_code
    expect_error(code, ErrorCode.INVALID_REQUEST, what="an empty transactional id")


@check(EndTxnRequest, needs=WRITING)
def commits(broker: JudgedBroker, version: int) -> None:
    topic, producer = broker.topic_that_all_know(), TransactionalProducer.start(broker)
    write_in_transaction(producer, topic)
    pending = fetch(broker, topic, at(0), isolation=READ_COMMITTED)
    expect_equal(records_of(pending), [], "what readers of committed records see before the end")
    expect_equal(pending.last_stable_offset, 0, "the last stable offset before the end")
    expect_ok(producer.end(committed=True, version=version).error_code, "EndTxn")
    ended = after_the_marker(broker, topic)
    expect_equal(ended.aborted_transactions or [], [], "the aborted transactions")
    expect_marker(ended, ControlType.COMMIT)


@check(EndTxnRequest, needs=WRITING)
def aborts(broker: JudgedBroker, version: int) -> None:
    topic, producer = broker.topic_that_all_know(), TransactionalProducer.start(broker)
    write_in_transaction(producer, topic)
    producer_id = producer.producer.producer_id
    expect_ok(producer.end(committed=False, version=version).error_code, "EndTxn")
    ended = after_the_marker(broker, topic)
    aborted = [(entry.producer_id, entry.first_offset) for entry in ended.aborted_transactions or []]
    expect_equal(aborted, [(producer_id, 0)], "the aborted transactions")
    expect_marker(ended, ControlType.ABORT)


@check(EndTxnRequest, versions=f"{EPOCH_PER_TRANSACTION_FROM}+", needs=WRITING)
def gives_each_transaction_an_epoch_of_its_own(broker: JudgedBroker, version: int) -> None:
    """KIP-890."""
    topic, producer = broker.topic_that_all_know(), TransactionalProducer.start(broker)
    write_in_transaction(producer, topic)
    before = producer.producer
    answer = producer.end(committed=True, version=version)
    expect_ok(answer.error_code, "EndTxn")
    expect_equal(answer.producer_id, before.producer_id, "the producer id")
    expect_equal(answer.producer_epoch, before.epoch + 1, "the epoch of the next transaction")


@check(EndTxnRequest)
def refuses_a_producer_it_does_not_know(broker: JudgedBroker, version: int) -> None:
    stranger = TransactionalProducer(broker, broker.transaction(), Writer(producer_id=1 << 40, epoch=0))
    code = stranger.end(committed=True, version=version).error_code
    expect_error(code, ErrorCode.INVALID_PRODUCER_ID_MAPPING, what="EndTxn of an unknown transactional id")


@check(AddPartitionsToTxnRequest, versions=f"0-{CLIENTS_UP_TO}")
def adds_partitions_for_clients(broker: JudgedBroker, version: int) -> None:
    topic, producer = broker.empty_topic(), TransactionalProducer.start(broker)
    expect_ok(producer.add_partition(topic, version), "AddPartitionsToTxn")
    expect_ok(producer.end(committed=False).error_code, "EndTxn")


@check(AddPartitionsToTxnRequest, versions=f"{CLIENTS_UP_TO + 1}+")
def looks_partitions_up_for_brokers(broker: JudgedBroker, version: int) -> None:
    """KIP-890: many transactions at once; one that was never begun is told so for each partition."""
    topic, producer = broker.empty_topic(), TransactionalProducer.start(broker)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=producer.transaction.name,
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name=topic.name, partitions=[0])],
    )
    request = AddPartitionsToTxnRequest(transactions=[transaction])

    def code() -> tuple[int] | None:
        answer = broker.ask(request, version, address=producer.transaction.address)
        expect_ok(answer.error_code, "AddPartitionsToTxn")
        result = only(answer.results_by_transaction, "transaction in the answer")
        expect_equal(result.transactional_id, producer.transaction.name, "the transactional id")
        partitions = only(result.topic_results, "topic in the answer").results_by_partition
        found = only(partitions, "partition in the answer").partition_error_code
        return None if found in NOT_READY else (found,)

    not_begun = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)
    expect_error(wait_for(code, "AddPartitionsToTxn")[0], *not_begun, what="a partition that is not in the transaction")


@check(AddOffsetsToTxnRequest)
def adds_a_group(broker: JudgedBroker, version: int) -> None:
    producer = TransactionalProducer.start(broker)
    expect_ok(add_group(producer, broker.group(), version), "AddOffsetsToTxn")
    expect_ok(producer.end(committed=False).error_code, "EndTxn")


@check(AddOffsetsToTxnRequest)
def refuses_a_group_from_a_stranger(broker: JudgedBroker, version: int) -> None:
    stranger = TransactionalProducer(broker, broker.transaction(), Writer(producer_id=1 << 40, epoch=0))
    code = add_group(stranger, broker.group(), version)
    expect_error(code, ErrorCode.INVALID_PRODUCER_ID_MAPPING, what="AddOffsetsToTxn of an unknown transactional id")


@check(TxnOffsetCommitRequest, needs=[AddOffsetsToTxnRequest, EndTxnRequest, OffsetFetchRequest])
def commits_offsets_with_the_transaction(broker: JudgedBroker, version: int) -> None:
    """Pending offsets are not visible, and a request for stable offsets is told so (KIP-447)."""
    topic, group, producer = broker.empty_topic(), broker.group(), TransactionalProducer.start(broker)
    if version < IMPLICIT_OFFSETS_FROM:
        expect_ok(add_group(producer, group, broker.highest(AddOffsetsToTxnRequest)), "AddOffsetsToTxn")
    expect_ok(commit_offset(producer, group, topic, 42, version), "TxnOffsetCommit")
    expect_equal(fetch_offset(broker, group, topic).committed_offset, -1, "the offset before the end")
    held_back = fetch_offset(broker, group, topic, require_stable=True).error_code
    expect_error(held_back, ErrorCode.UNSTABLE_OFFSET_COMMIT, what="a stable offset before the end")
    expect_ok(producer.end(committed=True).error_code, "EndTxn")
    stable = wait_for(lambda: _if_stable(broker, group, topic), "the offset to become stable")
    expect_equal(stable, 42, "the offset after the end")


@check(TxnOffsetCommitRequest, versions="3+")
def fences_members_the_group_does_not_know(broker: JudgedBroker, version: int) -> None:
    """KIP-447."""
    topic, group, producer = broker.empty_topic(), broker.group(), TransactionalProducer.start(broker)
    if version < IMPLICIT_OFFSETS_FROM:
        expect_ok(add_group(producer, group, broker.highest(AddOffsetsToTxnRequest)), "AddOffsetsToTxn")
    code = commit_offset(producer, group, topic, 42, version, member_id="stranger", generation=7)
    wanted = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    expect_error(code, *wanted, what="an offset of a member that the group does not have")
    producer.end(committed=False)


@check(DescribeTransactionsRequest, needs=WRITING)
def describes_a_transaction(broker: JudgedBroker, version: int) -> None:
    """KIP-664."""
    topic, producer = broker.topic_that_all_know(), TransactionalProducer.start(broker)
    write_in_transaction(producer, topic)
    request = DescribeTransactionsRequest(transactional_ids=[producer.transaction.name])
    answer = broker.ask(request, version, address=producer.transaction.address)
    state = only(answer.transaction_states, "transaction in the answer")
    expect_ok(state.error_code, "DescribeTransactions")
    expect_equal(state.transaction_state, "Ongoing", "the state")
    expect_equal(state.producer_id, producer.producer.producer_id, "the producer id")
    expect_equal([(entry.topic, entry.partitions) for entry in state.topics], [(topic.name, [0])], "the partitions")
    expect_ok(producer.end(committed=True).error_code, "EndTxn")


@check(DescribeTransactionsRequest)
def does_not_find_a_transaction_there_is_not(broker: JudgedBroker, version: int) -> None:
    transaction = TransactionalProducer.start(broker).transaction
    request = DescribeTransactionsRequest(transactional_ids=[transaction.name + "-not"])
    state = only(broker.ask(request, version).transaction_states, "transaction in the answer")
    wanted = (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.NOT_COORDINATOR)
    expect_error(state.error_code, *wanted, what="an unknown transactional id")


@check(ListTransactionsRequest)
def lists_transactions(broker: JudgedBroker, version: int) -> None:
    """KIP-664."""
    producer = TransactionalProducer.start(broker)
    request = ListTransactionsRequest(producer_id_filters=[producer.producer.producer_id], state_filters=["Empty", "?"])
    answer = broker.ask(request, version, address=producer.transaction.address)
    expect_ok(answer.error_code, "ListTransactions")
    expect_equal(answer.unknown_state_filters, ["?"], "the unknown states")
    found = only(answer.transaction_states, "transaction in the answer")
    expect_equal(found.transactional_id, producer.transaction.name, "the transactional id")


def write_in_transaction(producer: TransactionalProducer, topic: SuiteTopic) -> None:
    if producer.broker.highest(ProduceRequest) < IMPLICIT_PRODUCE_FROM:
        expect_ok(producer.add_partition(topic), "AddPartitionsToTxn")
    producer.write(topic, *RECORDS)


def after_the_marker(broker: JudgedBroker, topic: SuiteTopic) -> PartitionData:
    """The records that a read_committed reader gets once the marker is written, which is after EndTxn is answered."""

    def look() -> PartitionData | None:
        found = fetch(broker, topic, at(0), isolation=READ_COMMITTED)
        return found if found.last_stable_offset > len(RECORDS) else None

    return wait_for(look, "the transaction's marker")


def expect_marker(found: PartitionData, wanted: ControlType) -> None:
    records = records_of(found)
    expect_equal([record.control for record in records], [False, False, True], "which records are markers")
    marker = read_control(list(iter_batches(found.records or b""))[-1])
    expect_equal(None if marker is None else marker.type, wanted, "the marker")


def add_group(producer: TransactionalProducer, group: Coordinated, version: int) -> int:
    """Add a group's offsets to the transaction. Returns the error code."""
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transaction.name,
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.epoch,
        group_id=group.name,
    )

    def ask() -> tuple[int] | None:
        code = producer.broker.ask(request, version, address=producer.transaction.address).error_code
        return None if code in NOT_READY else (code,)

    return wait_for(ask, "AddOffsetsToTxn")[0]


def commit_offset(
    producer: TransactionalProducer,
    group: Coordinated,
    topic: SuiteTopic,
    offset: int,
    version: int,
    *,
    member_id: str = "",
    generation: int = -1,
) -> int:
    """Commit an offset of partition 0 with the transaction. Returns the error code."""
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transaction.name,
        group_id=group.name,
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.epoch,
        generation_id=generation,
        member_id=member_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic.name, partitions=[TxnOffsetCommitRequestPartition(committed_offset=offset)]
            )
        ],
    )

    def ask() -> tuple[int] | None:
        answer = producer.broker.ask(request, version, address=group.address)
        code = only(only(answer.topics, "topic in the answer").partitions, "partition in the answer").error_code
        return None if code in NOT_READY else (code,)

    return wait_for(ask, "TxnOffsetCommit")[0]


def _if_stable(broker: JudgedBroker, group: Coordinated, topic: SuiteTopic) -> int | None:
    found = fetch_offset(broker, group, topic, require_stable=True)
    return None if found.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT else found.committed_offset
