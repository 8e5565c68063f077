"""Producers of the checks: the client's side of producer ids and transactions (KIP-98, KIP-890).

Requests go to the transaction's coordinator and are retried after retriable errors, as by every producer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kwire.conformance.batches import RecordToWrite, Writer, encode_batch
from kwire.conformance.broker import NOT_READY, wait_for
from kwire.conformance.expectations import expect_ok, only
from kwire.conformance.writing import append
from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kwire.conformance.broker import Coordinated, JudgedBroker, SuiteTopic

TIMEOUT_MS = 60_000
CLIENTS_UP_TO = 3
"""From version 4 on AddPartitionsToTxn is for brokers among themselves (KIP-890)."""

IMPLICIT_PRODUCE_FROM = 12
"""From this version on Produce adds its partitions to the transaction by itself (KIP-890)."""

EPOCH_PER_TRANSACTION_FROM = 5
"""From this version on EndTxn answers the epoch of the next transaction (KIP-890)."""


def init_producer(
    broker: JudgedBroker,
    transaction: Coordinated | None = None,
    *,
    version: int | None = None,
    resume: Writer | None = None,
) -> InitProducerIdResponse:
    """Get an id and epoch for a transactional id or an idempotent producer; `resume` is the producer that goes on
    (KIP-360)."""
    request = InitProducerIdRequest(transactional_id=None if transaction is None else transaction.name)
    request.transaction_timeout_ms = TIMEOUT_MS
    if resume is not None:
        request.producer_id, request.producer_epoch = resume.producer_id, resume.epoch

    def ask() -> InitProducerIdResponse | None:
        answer = broker.ask(request, version, address=None if transaction is None else transaction.address)
        return None if answer.error_code in NOT_READY else answer

    return wait_for(ask, "InitProducerId")


def idempotent_producer(broker: JudgedBroker) -> Writer:
    """A producer without transactions."""
    answer = init_producer(broker)
    expect_ok(answer.error_code, "InitProducerId")
    return Writer(producer_id=answer.producer_id, epoch=answer.producer_epoch)


@dataclass(slots=True)
class TransactionalProducer:
    """A producer of transactions, one after the other."""

    broker: JudgedBroker
    transaction: Coordinated
    producer: Writer
    sequence: int = 0

    @classmethod
    def start(cls, broker: JudgedBroker) -> TransactionalProducer:
        """A producer with a new transactional id."""
        transaction = broker.transaction()
        answer = init_producer(broker, transaction)
        expect_ok(answer.error_code, "InitProducerId")
        producer = Writer(producer_id=answer.producer_id, epoch=answer.producer_epoch, transactional=True)
        return cls(broker, transaction, producer)

    def add_partition(self, topic: SuiteTopic, version: int | None = None) -> int:
        """Add partition 0 of a topic to the transaction, as a client does. Returns the error code."""
        if version is None:
            version = self.broker.highest(AddPartitionsToTxnRequest, CLIENTS_UP_TO)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transaction.name,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic.name, partitions=[0])],
        )

        def ask() -> tuple[int] | None:
            answer = self.broker.ask(request, version, address=self.transaction.address)
            result = only(answer.results_by_topic_v3_and_below, "topic in the answer")
            code = only(result.results_by_partition, "partition in the answer").partition_error_code
            return None if code in NOT_READY else (code,)

        return wait_for(ask, "AddPartitionsToTxn")[0]

    def write(self, topic: SuiteTopic, *records: RecordToWrite) -> None:
        """Append records to partition 0 of a topic in the transaction."""
        batch = encode_batch(*records, producer=self.producer, base_sequence=self.sequence)
        placed = append(self.broker, topic, batch, transactional_id=self.transaction.name)
        expect_ok(placed.error_code, "Produce in a transaction")
        self.sequence += len(records)

    def end(self, *, committed: bool, version: int | None = None) -> EndTxnResponse:
        """Commit or abort. If the answer has a new epoch, sequence numbers start again."""
        request = EndTxnRequest(
            transactional_id=self.transaction.name,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=committed,
        )

        def ask() -> EndTxnResponse | None:
            answer = self.broker.ask(request, version, address=self.transaction.address)
            return None if answer.error_code in NOT_READY else answer

        answer = wait_for(ask, "EndTxn")
        if answer.producer_epoch >= 0:
            self.producer = replace(self.producer, producer_id=answer.producer_id, epoch=answer.producer_epoch)
            self.sequence = 0
        return answer
