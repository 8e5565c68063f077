"""`read_committed` in front of a transaction that stays open: as far as the last stable offset, and not one further."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition

from kwire import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka.admin import AdminClient

    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, PollUntil, Read
    from tests.integration.kafkas import SharedKafka

DEADLINE_S = 30.0


def values_of(name: str, number: int) -> list[bytes | None]:
    return [b"%s-%d" % (name.encode(), i) for i in range(number)]


@pytest.fixture
def tp(topic: MakeTopic) -> TopicPartition:
    """The one partition of a topic."""
    return TopicPartition(topic(), 0)


@pytest.fixture
def producer(kafka: SharedKafka, tp: TopicPartition) -> Producer:
    """A transactional producer without a transaction."""
    made = Producer(
        {"log_level": 0, "bootstrap.servers": kafka.bootstrap_servers, "transactional.id": tp.topic, "linger.ms": 1}
    )
    made.init_transactions(DEADLINE_S)
    return made


@pytest.fixture
def open_at(open_consumer: OpenConsumer, tp: TopicPartition) -> Callable[[int], BytesConsumer]:
    """A consumer of committed records from some offset on."""

    def make(offset: int) -> BytesConsumer:
        consumer = open_consumer(isolation_level="read_committed", fetch_max_wait_ms=20)
        consumer.assign([tp])
        consumer.seek(tp, offset)
        return consumer

    return make


def write(producer: Producer, tp: TopicPartition, values: Sequence[bytes | None]) -> None:
    """In the transaction that is open; on the broker when this returns."""
    for value in values:
        producer.produce(tp.topic, value, partition=tp.partition)
    assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "aborts"])
def test_an_open_transaction_holds_up_what_lies_behind_it_until_it_ends(
    tp: TopicPartition,
    produce: Produce,
    producer: Producer,
    open_at: Callable[[int], BytesConsumer],
    open_consumer: OpenConsumer,
    read: Read,
    poll_until: PollUntil,
    commits: bool,
) -> None:
    before, inside, behind = values_of("before", 5), values_of("inside", 4), values_of("behind", 3)
    produce(tp.topic, before)
    producer.begin_transaction()
    write(producer, tp, inside)
    produce(tp.topic, behind)  # without a transaction, and held up all the same

    consumer = open_at(0)
    assert [record.value for record in read(consumer, 5)] == before
    assert not consumer.poll(0.3)
    assert consumer.position(tp) == 5
    assert consumer.end_offsets([tp]) == {tp: 5}  # the last stable offset
    assert consumer.current_lag(tp) == 0
    uncommitted = open_consumer(fetch_max_wait_ms=20)
    uncommitted.assign([tp])
    assert uncommitted.end_offsets([tp]) == {tp: 12}
    assert [record.value for record in read(uncommitted, 12)] == before + inside + behind

    if commits:
        producer.commit_transaction(DEADLINE_S)
    else:
        producer.abort_transaction(DEADLINE_S)
    expected = inside + behind if commits else behind
    assert [record.value for record in read(consumer, len(expected))] == expected
    # The marker that ended the transaction is the last entry of the log, and nobody's record.
    assert poll_until(lambda: consumer.position(tp) == 13, consumer) == []
    assert consumer.end_offsets([tp]) == {tp: 13}
    assert consumer.current_lag(tp) == 0


def test_whoever_begins_inside_an_aborted_transaction_sees_nothing_of_it(
    tp: TopicPartition,
    produce: Produce,
    producer: Producer,
    open_at: Callable[[int], BytesConsumer],
    read: Read,
    poll_until: PollUntil,
) -> None:
    """The transaction's first offset, by which the broker names it, lies in front of everything that is fetched."""
    producer.begin_transaction()
    for value in values_of("aborted", 6):
        write(producer, tp, [value])  # batches of their own: a fetch may begin at each
    behind = values_of("behind", 2)
    produce(tp.topic, behind)
    producer.abort_transaction(DEADLINE_S)
    for offset in range(7):
        consumer = open_at(offset)
        assert [record.value for record in read(consumer, 2)] == behind
        assert poll_until(lambda consumer=consumer: consumer.position(tp) == 9, consumer) == []  # type: ignore[misc]  # mypy


def test_what_is_left_of_an_open_transaction_whose_beginning_was_deleted_is_not_handed_out(
    tp: TopicPartition,
    produce: Produce,
    producer: Producer,
    admin: AdminClient,
    open_at: Callable[[int], BytesConsumer],
    read: Read,
) -> None:
    """The last stable offset lies in the middle of a batch then."""
    producer.begin_transaction()
    write(producer, tp, values_of("open", 6))
    deleted = admin.delete_records([ConfluentTopicPartition(tp.topic, tp.partition, 4)])
    assert [each.result(DEADLINE_S).low_watermark for each in deleted.values()] == [4]
    consumer = open_at(4)
    assert not consumer.poll(0.3)
    assert consumer.position(tp) == 4
    behind = values_of("behind", 2)
    produce(tp.topic, behind)
    producer.abort_transaction(DEADLINE_S)
    assert [record.value for record in read(consumer, 2)] == behind


def test_each_of_two_interleaved_transactions_has_its_own_end(
    kafka: SharedKafka, tp: TopicPartition, producer: Producer, open_at: Callable[[int], BytesConsumer], read: Read
) -> None:
    other = Producer(
        {
            "log_level": 0,
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": f"{tp.topic}-other",
            "linger.ms": 1,
        }
    )
    other.init_transactions(DEADLINE_S)
    good, bad = values_of("good", 3), values_of("bad", 3)
    producer.begin_transaction()
    other.begin_transaction()
    for kept, dropped in zip(good, bad, strict=True):
        write(producer, tp, [dropped])
        write(other, tp, [kept])
    other.commit_transaction(DEADLINE_S)
    consumer = open_at(0)
    assert not consumer.poll(0.3)  # the first is still open, and everything lies behind its beginning
    assert consumer.end_offsets([tp]) == {tp: 0}
    producer.abort_transaction(DEADLINE_S)
    assert [record.value for record in read(consumer, 3)] == good
