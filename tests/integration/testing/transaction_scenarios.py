"""Odd things that one may ask of transactions, for `test_answers_like_kafka.py`; as `log_scenarios`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from kwire.conformance.batches import encode_batch
from kwire.conformance.broker import wait_for
from kwire.conformance.checks.list_offsets import look_up
from kwire.conformance.checks.transactions import add_group, after_the_marker, commit_offset, write_in_transaction
from kwire.conformance.producers import TransactionalProducer, init_producer
from kwire.conformance.reading import at, fetch
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker, SuiteTopic
    from tests.integration.testing.log_scenarios import RECORD, Answer, Scenario, name_of, produce, told
else:
    from log_scenarios import RECORD, name_of, produce, told

TIMEOUT_MS = 60_000


# --- writing without having said so -------------------------------------------------------------------------------


def without_its_name(broker: JudgedBroker) -> object:
    """A transactional batch in a request that names no transaction."""
    topic, producer = broker.topic(), TransactionalProducer.start(broker)
    return produce(broker, topic, encode_batch(RECORD, producer=producer.producer, base_sequence=0))


def unasked(version: int, is_fenced: bool, broker: JudgedBroker) -> object:
    """A batch for a partition that was not added; from version 12 on Produce adds it (KIP-890)."""
    topic, producer = broker.topic(), TransactionalProducer.start(broker)
    if is_fenced:
        init_producer(broker, producer.transaction)
    batch = encode_batch(RECORD, producer=producer.producer, base_sequence=0)
    return produce(broker, topic, batch, version=version, transactional_id=producer.transaction.name)


# --- ending, again and again --------------------------------------------------------------------------------------

ENDINGS = {
    "commit": "c",
    "abort": "a",
    "abort twice": "aa",
    "abort, and again as before": "aoa",
    "write, commit twice": "wcc",
    "write, commit, abort": "wca",
    "write, abort twice": "waa",
    "write, abort, commit": "wac",
    "write, commit, and again as before": "wcoc",
    "write, commit, abort as before": "wcoa",
    "write, abort, and again as before": "waoa",
    "write, commit, write, abort": "wcwa",
}
"""w: write; c: commit; a: abort; o: be who one was an epoch ago."""


def endings(version: int, steps: str, broker: JudgedBroker) -> object:
    topic, producer = broker.topic(), TransactionalProducer.start(broker)
    answers = []
    for step in steps:
        if step == "w":
            write_in_transaction(producer, topic)
        elif step == "o":
            producer.producer = replace(producer.producer, epoch=producer.producer.epoch - 1)
        else:
            answer = producer.end(committed=step == "c", version=version)
            answers.append((step, name_of(answer.error_code), answer.producer_epoch, producer.producer.epoch))
            wait_for(partial(settled, producer), "the end of the transaction")
    return answers


def settled(producer: TransactionalProducer) -> TransactionState | None:
    """The transaction, unless its markers are being written."""
    state = described(producer)
    return None if state.transaction_state.startswith("Prepare") else state


def described(producer: TransactionalProducer) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[producer.transaction.name])
    return producer.broker.ask(request, address=producer.transaction.address).transaction_states[0]


# --- beginning ----------------------------------------------------------------------------------------------------

BEGINNINGS: Mapping[str, Mapping[str, str | int | None]] = {
    "an id without an epoch": {"transactional_id": None, "producer_id": 5, "producer_epoch": -1},
    "an id of nobody's": {"transactional_id": None, "producer_id": 5, "producer_epoch": 3},
    "an empty name": {"transactional_id": ""},
    "no time at all": {"transaction_timeout_ms": 0},
    "more time than the broker gives": {"transaction_timeout_ms": 10_000_000},
}


def beginning(changes: Mapping[str, str | int | None], broker: JudgedBroker) -> object:
    transaction = broker.transaction()
    request = InitProducerIdRequest(transactional_id=transaction.name, transaction_timeout_ms=TIMEOUT_MS)
    for field, value in changes.items():
        setattr(request, field, value)
    answer = broker.ask(request, 5, address=transaction.address)
    return name_of(answer.error_code), answer.producer_epoch, answer.producer_id < 0


def beginning_in_the_middle(broker: JudgedBroker) -> object:
    """A producer that asks for a new epoch ends what was open, and the one before is fenced."""
    topic, producer = broker.topic(), TransactionalProducer.start(broker)
    write_in_transaction(producer, topic)
    transaction, before = producer.transaction, producer.producer
    request = InitProducerIdRequest(transactional_id=transaction.name, transaction_timeout_ms=TIMEOUT_MS)
    at_once = broker.ask(request, 5, address=transaction.address)
    later = init_producer(broker, transaction)
    end = EndTxnRequest(
        transactional_id=transaction.name, producer_id=before.producer_id, producer_epoch=before.epoch, committed=True
    )
    fenced = broker.ask(end, 5, address=transaction.address)
    after_the_marker(broker, topic)
    return (
        (name_of(at_once.error_code), at_once.producer_epoch),
        later.producer_epoch - before.epoch,
        (name_of(fenced.error_code), fenced.producer_epoch),
        producers_of(broker, topic, 0),
    )


# --- looking ------------------------------------------------------------------------------------------------------


def producers_of(broker: JudgedBroker, topic: SuiteTopic, *partitions: int) -> list[Answer]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic.name, partition_indexes=list(partitions))])
    return [
        (
            name_of(found.error_code),
            [
                (each.producer_epoch, each.last_sequence, each.coordinator_epoch, each.current_txn_start_offset)
                for each in found.active_producers
            ],
        )
        for found in broker.ask(request).topics[0].partitions
    ]


def an_open_transaction(broker: JudgedBroker) -> object:
    """As fetches, offsets, its producers and its coordinator show it, and once more after it was aborted."""
    topic, producer = broker.topic(), TransactionalProducer.start(broker)
    write_in_transaction(producer, topic)
    times = (-1, -2, -3, -4, -5, -6, 0)
    found: list[object] = [told(fetch(broker, topic, at(0), isolation=isolation)) for isolation in (0, 1)]
    for time, isolation in product(times, (0, 1)):
        offset = look_up(broker, 11, topic.name, time, isolation=isolation)
        found.append((time, isolation, offset.offset, offset.leader_epoch))
    found += producers_of(broker, topic, 0)
    producer.end(committed=False)
    after_the_marker(broker, topic)
    state = wait_for(partial(settled, producer), "the end of the transaction")
    found += producers_of(broker, topic, 0, 7)
    found += [look_up(broker, 11, topic.name, time).offset for time in (-1, -3, 0)]
    return [*found, (state.transaction_state, state.producer_epoch, [each.partitions for each in state.topics])]


# --- offsets ------------------------------------------------------------------------------------------------------


def offsets(version: int, is_added: bool, is_fenced: bool, broker: JudgedBroker) -> object:
    """Offsets for a group that was added to the transaction or not, by who was fenced or not."""
    topic, group, producer = broker.topic(), broker.group(), TransactionalProducer.start(broker)
    if is_added:
        add_group(producer, group, 4)
    if is_fenced:
        init_producer(broker, producer.transaction)
    return name_of(commit_offset(producer, group, topic, 4, version))


def a_group_in_it(broker: JudgedBroker) -> object:
    """The offsets topic is a partition of the transaction; an empty name is nobody's."""
    group, producer = broker.group(), TransactionalProducer.start(broker)
    add_group(producer, group, 4)
    request = DescribeTransactionsRequest(transactional_ids=[producer.transaction.name, ""])
    states = broker.ask(request, address=producer.transaction.address).transaction_states
    return [
        (
            name_of(state.error_code),
            state.transaction_state,
            [(each.topic, len(each.partitions)) for each in state.topics],
        )
        for state in states
    ]


TRANSACTION_SCENARIOS: Mapping[str, Scenario] = {
    "without its name": without_its_name,
    **{f"unasked, v{version}": partial(unasked, version, False) for version in (9, 10, 11, 12, 13)},
    **{f"unasked and fenced, v{version}": partial(unasked, version, True) for version in (10, 11, 12)},
    **{
        f"{name}, v{version}": partial(endings, version, steps)
        for version, (name, steps) in product((1, 2, 4, 5), ENDINGS.items())
    },
    **{name: partial(beginning, changes) for name, changes in BEGINNINGS.items()},
    "beginning in the middle": beginning_in_the_middle,
    "an open transaction": an_open_transaction,
    **{
        f"offsets{' added' * is_added}{' fenced' * is_fenced}, v{version}": partial(
            offsets, version, is_added, is_fenced
        )
        for version, is_added, is_fenced in product((2, 3, 4, 5), (False, True), (False, True))
    },
    "a group in it": a_group_in_it,
}
