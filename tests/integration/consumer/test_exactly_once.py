"""From topic to topic in transactions of other libraries' producers. Each record's result is committed once, also if a
transaction aborts, a member dies, or a member is removed from its group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import confluent_kafka
import pytest

from kwire import Records, TopicPartition
from kwire.errors import CommitFailedError
from kwire.transactions import send_offsets_to_transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, PollUntil, Read
    from tests.integration.kafkas import SharedKafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*Use files.. instead:DeprecationWarning"),  # kafka-python, on import
]

WAIT_S = 30.0
PARTITIONS = 2
EACH = 40
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@dataclass(frozen=True, slots=True)
class Transactional:
    """A producer of another library."""

    producer: object
    write: Callable[[str, bytes | None], object]
    begin: Callable[[], object]
    commit: Callable[[], object]
    abort: Callable[[], object]


def by_confluent(servers: str, name: str) -> Transactional:
    settings = {"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 1, "log_level": 0}
    made = confluent_kafka.Producer(settings)
    made.init_transactions(WAIT_S)
    return Transactional(made, made.produce, made.begin_transaction, made.commit_transaction, made.abort_transaction)


def by_kafka_python(servers: str, name: str) -> Transactional:
    from kafka import KafkaProducer

    made = KafkaProducer(bootstrap_servers=servers, transactional_id=name)
    made.init_transactions()
    return Transactional(made, made.send, made.begin_transaction, made.commit_transaction, made.abort_transaction)


MakeProducer: TypeAlias = "Callable[[str], Transactional]"


@pytest.fixture(params=[by_confluent, by_kafka_python])
def producer_of(request: pytest.FixtureRequest, kafka: SharedKafka) -> MakeProducer:
    """Makes a producer, by its transactional id."""
    return lambda name: request.param(kafka.bootstrap_servers, name)


@pytest.fixture
def source(topic: MakeTopic, produce: Produce) -> str:
    """A topic with different records in each partition."""
    name = topic(PARTITIONS)
    for partition in range(PARTITIONS):
        produce(name, [b"%d-%d" % (partition, number) for number in range(EACH)], partition=partition)
    return name


ALL = sorted(b"%d-%d" % (partition, number) for partition in range(PARTITIONS) for number in range(EACH))


@pytest.fixture
def processed(open_consumer: OpenConsumer, read: Read) -> Callable[[str], list[bytes | None]]:
    """What committed transactions have written to a topic."""

    def values(target: str) -> list[bytes | None]:
        consumer = open_consumer(target, isolation_level="read_committed", group_id=f"reader-of-{target}")
        found = [record.value for record in read(consumer, len(ALL))]
        return sorted(found + [record.value for record in consumer.poll(0.5)], key=bytes)  # type: ignore[arg-type]

    return values


def process(writer: Transactional, consumer: BytesConsumer, records: Records[bytes, bytes], target: str) -> None:
    """In a transaction, which is left open."""
    writer.begin()
    for record in records:
        writer.write(target, record.value)
    send_offsets_to_transaction(writer.producer, records.next_offsets(), consumer)


@both_protocols
def test_each_record_is_processed_once_though_every_other_transaction_aborts(
    source: str,
    topic: MakeTopic,
    group_id: str,
    open_consumer: OpenConsumer,
    producer_of: MakeProducer,
    processed: Callable[[str], list[bytes | None]],
    protocol: str,
) -> None:
    target, writer = topic(), producer_of(group_id)
    consumer = open_consumer(
        source, group_id=group_id, group_protocol=protocol, enable_auto_commit=False, max_poll_records=7
    )
    done = attempts = 0
    while done < len(ALL):
        if not (records := consumer.poll(1.0)):
            continue
        process(writer, consumer, records, target)
        attempts += 1
        if attempts % 2:
            writer.abort()
            for tp in records.partitions():
                consumer.seek(tp, records[tp][0].offset)
        else:
            writer.commit()
            done += len(records)
    assert processed(target) == ALL
    committed = consumer.committed(consumer.assignment())
    assert {at and at.offset for at in committed.values()} == {EACH}


@both_protocols
def test_the_next_member_goes_on_where_the_transactions_of_one_that_died_were_committed(
    source: str,
    topic: MakeTopic,
    group_id: str,
    open_consumer: OpenConsumer,
    producer_of: MakeProducer,
    read: Read,
    processed: Callable[[str], list[bytes | None]],
    protocol: str,
) -> None:
    """Its last transaction stays open, until a producer with its name comes."""
    target = topic()
    first = open_consumer(
        source, group_id=group_id, group_protocol=protocol, enable_auto_commit=False, max_poll_records=11
    )
    writer, count = producer_of(group_id), 0
    while count < 33:
        if records := first.poll(1.0):
            process(writer, first, records, target)
            writer.commit()
            count += len(records)
    while not (records := first.poll(1.0)):
        pass
    process(writer, first, records, target)
    first.close()

    heir = producer_of(group_id)
    second = open_consumer(source, group_id=group_id, group_protocol=protocol, enable_auto_commit=False)
    left = len(ALL) - count
    while left > 0:
        if records := second.poll(1.0):
            process(heir, second, records, target)
            heir.commit()
            left -= len(records)
    assert left == 0
    assert processed(target) == ALL


@both_protocols
def test_who_was_put_out_of_the_group_commits_nothing(
    source: str,
    topic: MakeTopic,
    group_id: str,
    open_consumer: OpenConsumer,
    producer_of: MakeProducer,
    poll_until: PollUntil,
    processed: Callable[[str], list[bytes | None]],
    protocol: str,
) -> None:
    """It has records in hand, and processes them, while another member already has their partitions."""
    target, settings = topic(), {"group_id": group_id, "group_protocol": protocol, "enable_auto_commit": False}
    slow = open_consumer(source, **settings, max_poll_interval_ms=500)  # type: ignore[arg-type]
    records = slow.poll(WAIT_S)
    assert records
    other = open_consumer(source, **settings)  # type: ignore[arg-type]
    taken = poll_until(lambda: len(other.assignment()) == PARTITIONS, other)
    zombie = producer_of(f"{group_id}-slow")
    with pytest.raises(CommitFailedError, match="others may have its partitions"):
        process(zombie, slow, records, target)
    zombie.abort()
    writer = producer_of(f"{group_id}-other")
    writer.begin()
    while len(taken) < len(ALL):
        taken += other.poll(1.0)
    for record in taken:
        writer.write(target, record.value)
    offsets = {TopicPartition(source, number): EACH for number in range(PARTITIONS)}
    assert {tp: other.position(tp) for tp in offsets} == offsets
    writer.commit()
    assert processed(target) == ALL
