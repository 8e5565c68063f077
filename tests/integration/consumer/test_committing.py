"""Commits against a real broker, under both protocols: in which order, by whom, and what becomes of refused ones."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Unpack

import confluent_kafka
import pytest

from kwire import ConsumerGroupMetadata, OffsetAndMetadata, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.conformance.client import BrokerAddress, ClientConnection
from kwire.errors import CommitFailedError, FencedInstanceIdError, KafkaError, KafkaTimeoutError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kwire.config import Settings
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import OpenConsumer, PollUntil, Read
    from tests.integration.kafkas import SharedKafka

pytestmark = pytest.mark.slow

MEMBER_EPOCHS_VERSION = 9  # OffsetCommit v9 carries the epoch of a member of the consumer protocol (KIP-848)
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def settings(protocol: str, **more: Unpack[Settings]) -> Settings:
    """Classic members hear of a rebalance with their next heartbeat; its interval is the broker's in the other."""
    chosen: Settings = {"group_protocol": protocol, **more}
    if protocol == "classic":
        chosen["heartbeat_interval_ms"] = 100
    return chosen


class Doing(RebalanceListener):
    """Does something in each callback."""

    def __init__(self, what: Callable[[str, RebalanceConsumer, frozenset[TopicPartition]], object]) -> None:
        self._what = what

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        self._what("assigned", consumer, partitions)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        self._what("revoked", consumer, partitions)


# --- order, thread, content ---------------------------------------------------------------------------------------


@both_protocols
def test_commit_sync_returns_when_all_earlier_commits_have_called_back(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, protocol: str
) -> None:
    """In the order they were made, and on the thread of the application."""
    name = topic()
    tp = TopicPartition(name, 0)
    consumer = open_consumer(name, **settings(protocol, group_id=group_id))
    poll_until(lambda: bool(consumer.assignment()), consumer)
    heard: list[tuple[int, KafkaError | None, int]] = []

    def note(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        heard.append((offsets[tp].offset, error, threading.get_ident()))

    for offset in range(20):
        consumer.commit_async({tp: OffsetAndMetadata(offset)}, callback=note)
    assert not heard
    consumer.commit_sync({})
    me = threading.get_ident()
    assert heard == [(offset, None, me) for offset in range(20)]
    consumer.commit_async({tp: OffsetAndMetadata(20)}, callback=note)
    consumer.commit_sync({tp: OffsetAndMetadata(21, "a note", 0)})
    assert heard[20:] == [(20, None, me)]
    assert consumer.committed([tp]) == {tp: OffsetAndMetadata(21, "a note", 0)}


@both_protocols
def test_commits_inside_callbacks_count(
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
    protocol: str,
) -> None:
    """Both kinds, in both callbacks; and the successor begins where the revoked callback said."""
    name = topic(2)
    for partition in (0, 1):
        produce(name, [b"%d" % i for i in range(10)], partition=partition)
    done: list[tuple[str, KafkaError | None]] = []

    def commit(what: str, consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        def note(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
            done.append((what, error))

        offset = 3 if what == "assigned" else 7
        consumer.commit_async({tp: OffsetAndMetadata(1) for tp in partitions}, callback=note)
        consumer.commit_sync({tp: OffsetAndMetadata(offset) for tp in partitions})
        found = consumer.committed(partitions)
        assert {tp: position and position.offset for tp, position in found.items()} == dict.fromkeys(partitions, offset)

    first = open_consumer(**settings(protocol, group_id=group_id, enable_auto_commit=False))
    first.subscribe([name], listener=Doing(commit))
    poll_until(lambda: len(first.assignment()) == 2, first)
    second = open_consumer(name, **settings(protocol, group_id=group_id, enable_auto_commit=False))
    read: list[int] = []

    def second_has_read() -> bool:
        read.extend(record.offset for record in second.poll(0.1))
        return len(read) >= 3 and len(first.assignment()) == 1

    poll_until(second_has_read, first)
    assert read == [7, 8, 9]
    assert set(done) == {("assigned", None), ("revoked", None)}


@both_protocols
def test_unsubscribing_does_not_commit(
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    open_consumer: OpenConsumer,
    read: Read,
    protocol: str,
) -> None:
    """Java's UnsubscribeDoesNotCommitOffsetsWithAutoCommitEnabled."""
    name = topic()
    produce(name, [b"1", b"2"])
    consumer = open_consumer(name, **settings(protocol, group_id=group_id, auto_commit_interval_ms=60_000))
    read(consumer, 2)
    consumer.unsubscribe()
    tp = TopicPartition(name, 0)
    assert consumer.committed([tp]) == {tp: None}


# --- pending transactions -----------------------------------------------------------------------------------------


def test_committed_waits_for_an_offset_in_an_open_transaction(
    kafka: SharedKafka, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer
) -> None:
    """KIP-447: another member must not begin in front of what a transaction is about to commit."""
    name = topic()
    tp = TopicPartition(name, 0)
    producer = confluent_kafka.Producer(
        {"log_level": 0, "bootstrap.servers": kafka.bootstrap_servers, "transactional.id": group_id}
    )
    outsider = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    offsets = [confluent_kafka.TopicPartition(name, 0, 42)]
    producer.send_offsets_to_transaction(offsets, outsider.consumer_group_metadata(), 30)
    consumer = open_consumer(group_id=group_id)
    with pytest.raises(KafkaTimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
        consumer.committed([tp], timeout=2.0)
    ending = threading.Timer(0.1, producer.commit_transaction, (30,))
    ending.start()
    found = consumer.committed([tp], timeout=20)[tp]
    ending.join()
    outsider.close()
    assert found is not None
    assert found.offset == 42


# --- who may commit -----------------------------------------------------------------------------------------------


@both_protocols
def test_who_is_no_member_cannot_commit_for_a_group_that_has_some(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, protocol: str
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    by_hand = open_consumer(group_id=group_id, group_instance_id="by-hand")
    by_hand.assign([tp])
    by_hand.commit_sync({tp: OffsetAndMetadata(1)})
    member = open_consumer(name, **settings(protocol, group_id=group_id))
    poll_until(lambda: bool(member.assignment()), member)
    told: list[KafkaError | None] = []
    by_hand.commit_async({tp: OffsetAndMetadata(2)}, callback=lambda offsets, error: told.append(error))
    with pytest.raises(CommitFailedError):
        by_hand.commit_sync({tp: OffsetAndMetadata(3)})
    assert [type(error) for error in told] == [CommitFailedError]
    member.commit_sync({tp: OffsetAndMetadata(4)})
    assert member.committed([tp]) == {tp: OffsetAndMetadata(4)}


def test_a_fenced_member_hears_of_it_and_its_records_come_again(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, read: Read
) -> None:
    """Another member has taken its instance id: nothing of what it was handed counts as done."""
    name = topic()
    produce(name, [b"1", b"2"])
    tp = TopicPartition(name, 0)
    static: Settings = {"group_id": group_id, "group_instance_id": "one", "enable_auto_commit": False}
    late: Settings = {**static, "heartbeat_interval_ms": 30_000}  # hears of it from its commit, not before
    first = open_consumer(name, **late)
    read(first, 2)
    second = open_consumer(name, **static)
    assert [record.value for record in read(second, 2)] == [b"1", b"2"]
    told: list[KafkaError | None] = []
    first.commit_async({tp: OffsetAndMetadata(2)}, callback=lambda offsets, error: told.append(error))
    for _ in range(2):
        with pytest.raises(FencedInstanceIdError):
            first.commit_sync()
    assert [type(error) for error in told] == [FencedInstanceIdError]
    assert second.committed([tp]) == {tp: None}


def ask_to_commit(kafka: SharedKafka, member: ConsumerGroupMetadata, epoch: int, tp: TopicPartition) -> ErrorCode:
    """As a member whose newest heartbeat has not been answered yet."""
    partition = OffsetCommitRequestPartition(partition_index=tp.partition, committed_offset=1)
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name=tp.topic, partitions=[partition])],
    )
    with ClientConnection(BrokerAddress.parse(kafka.bootstrap_servers), 10.0) as connection:
        answer = connection.ask(request, MEMBER_EPOCHS_VERSION)
    return ErrorCode.of(answer.topics[0].partitions[0].error_code)


def test_an_older_epoch_is_good_enough_for_what_the_member_has_had_since(
    kafka: SharedKafka, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """KIP-1251: the broker compares with the epoch at which it gave the partition to the member, so that a commit and a
    heartbeat that cross each other are no error any more. For what the member has given back, the epoch is stale."""
    name = topic(2)
    first = open_consumer(name, group_id=group_id, group_protocol="consumer")
    poll_until(lambda: len(first.assignment()) == 2, first)
    before = first.group_metadata()
    second = open_consumer(name, group_id=group_id, group_protocol="consumer")
    poll_until(
        lambda: bool(second.assignment()) and first.group_metadata().generation_id > before.generation_id, first, second
    )
    (kept,), (given,) = first.assignment(), second.assignment()
    assert ask_to_commit(kafka, before, before.generation_id, kept) is ErrorCode.NONE
    assert ask_to_commit(kafka, before, before.generation_id, given) is ErrorCode.STALE_MEMBER_EPOCH
    assert ask_to_commit(kafka, before, before.generation_id + 100, kept) is ErrorCode.STALE_MEMBER_EPOCH
    first.commit_sync({kept: OffsetAndMetadata(0)})
