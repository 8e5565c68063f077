"""Topics that are deleted and recreated, and topics that grow, under the eyes of a consumer (KIP-516)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.cimpl import NewTopic

from kwire import TopicPartition
from kwire.config import GroupProtocol
from kwire.errors import CommitFailedError, LogTruncationError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from tests.integration.conftest import GrowTopic, MakeTopic, Produce
    from tests.integration.consumer.conftest import OpenConsumer, PollUntil, Read

DEADLINE_S = 30.0
OLD: list[bytes | None] = [b"old-%d" % i for i in range(20)]
NEW: list[bytes | None] = [b"new-%d" % i for i in range(30)]  # more: no old position is out of the new log's range
PROTOCOLS = pytest.mark.parametrize("protocol", [protocol.value for protocol in GroupProtocol])


def delete(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result(DEADLINE_S)


def make_again(admin: AdminClient, topic: str) -> None:
    """A deleted topic's name is free when the broker has forgotten it."""
    until_s = time.monotonic() + DEADLINE_S
    while topic in admin.list_topics(timeout=DEADLINE_S).topics:
        assert time.monotonic() < until_s, f"{topic} is not deleted"
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DEADLINE_S)


def test_a_recreated_topic_is_read_from_its_beginning(
    topic: MakeTopic, admin: AdminClient, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic()
    produce(name, OLD)
    consumer = open_consumer(allow_auto_create_topics=False, fetch_max_wait_ms=50)
    consumer.assign([TopicPartition(name, 0)])
    assert [record.value for record in read(consumer, 20)] == OLD
    delete(admin, name)
    make_again(admin, name)
    produce(name, NEW)
    assert [(record.offset, record.value) for record in read(consumer, 30)] == list(enumerate(NEW))


def test_records_of_the_old_topic_do_not_come_after_it_was_recreated(
    topic: MakeTopic,
    admin: AdminClient,
    produce: Produce,
    open_consumer: OpenConsumer,
    read: Read,
    poll_until: PollUntil,
) -> None:
    """They are buffered already; once there are new ones with the same offsets, the old ones are of no use. A partition
    that is paused is not asked for: metadata tells of it, when they are renewed."""
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, OLD)
    consumer = open_consumer(
        allow_auto_create_topics=False, fetch_max_wait_ms=50, max_poll_records=5, metadata_max_age_ms=500
    )
    consumer.assign([tp])
    assert [record.value for record in read(consumer, 5)] == OLD[:5]
    consumer.pause([tp])
    consumer.poll(0.2)  # what was asked for before comes to an end
    delete(admin, name)
    make_again(admin, name)
    produce(name, NEW)
    poll_until(lambda: consumer.position(tp) == 0, consumer)
    consumer.resume([tp])
    assert [record.value for record in read(consumer, 30)] == NEW


def test_without_a_policy_the_user_hears_of_it(
    topic: MakeTopic, admin: AdminClient, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, OLD)
    consumer = open_consumer(allow_auto_create_topics=False, auto_offset_reset="none", fetch_max_wait_ms=50)
    consumer.assign([tp])
    consumer.seek(tp, 0)
    read(consumer, 20)
    delete(admin, name)
    make_again(admin, name)
    produce(name, NEW)
    with pytest.raises(LogTruncationError, match=f"deleted and created again, .* {tp} at 20; seek_to_beginning"):
        read(consumer, 1)
    consumer.seek_to_beginning([tp])
    assert [record.value for record in read(consumer, 30)] == NEW


@PROTOCOLS
@pytest.mark.parametrize("is_noticed", [True, False], ids=["away for a while", "back at once"])
def test_a_group_goes_on_with_the_recreated_topic(
    topic: MakeTopic,
    admin: AdminClient,
    produce: Produce,
    open_consumer: OpenConsumer,
    read: Read,
    poll_until: PollUntil,
    group_id: str,
    protocol: str,
    is_noticed: bool,
) -> None:
    name = topic()
    produce(name, OLD)
    consumer = open_consumer(
        name,
        group_id=group_id,
        group_protocol=protocol,
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        fetch_max_wait_ms=50,
        metadata_max_age_ms=500,
    )
    assert [record.value for record in read(consumer, 20)] == OLD
    consumer.commit_sync()
    delete(admin, name)
    if is_noticed:
        poll_until(lambda: not consumer.assignment(), consumer)
    make_again(admin, name)
    produce(name, NEW)
    assert [(record.offset, record.value) for record in read(consumer, 30)] == list(enumerate(NEW))
    consumer.commit_sync()
    assert consumer.committed([TopicPartition(name, 0)])[TopicPartition(name, 0)].offset == 30  # type: ignore[union-attr]  # there is one


def test_a_position_is_not_committed_to_the_recreated_topic(
    topic: MakeTopic,
    admin: AdminClient,
    produce: Produce,
    open_consumer: OpenConsumer,
    read: Read,
    group_id: str,
) -> None:
    """It would pass over 20 records there. A paused partition is not fetched, so nobody has told the consumer:
    the coordinator refuses the id of the topic."""
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, OLD)
    consumer = open_consumer(group_id=group_id, enable_auto_commit=False, allow_auto_create_topics=False)
    consumer.assign([tp])
    assert [record.value for record in read(consumer, 20)] == OLD
    consumer.pause([tp])
    consumer.poll(1.0)  # what was asked for before comes to an end
    delete(admin, name)
    make_again(admin, name)
    produce(name, NEW)
    with pytest.raises(CommitFailedError, match="deleted and recreated"):
        consumer.commit_sync()
    assert consumer.committed([tp]) == {tp: None}
    consumer.resume([tp])
    assert [record.value for record in read(consumer, 30)] == NEW


@PROTOCOLS
def test_a_group_takes_partitions_that_are_added(
    topic: MakeTopic,
    grow: GrowTopic,
    produce: Produce,
    open_consumer: OpenConsumer,
    read: Read,
    poll_until: PollUntil,
    group_id: str,
    protocol: str,
) -> None:
    name = topic()
    produce(name, OLD)
    consumer = open_consumer(name, group_id=group_id, group_protocol=protocol, metadata_max_age_ms=500)
    read(consumer, 20)
    grow(name, 3)
    poll_until(lambda: len(consumer.assignment()) == 3, consumer)
    produce(name, NEW, partition=2)
    assert [record.value for record in read(consumer, 30)] == NEW


def test_a_partition_may_be_assigned_before_it_exists(
    topic: MakeTopic, grow: GrowTopic, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic()
    consumer = open_consumer(allow_auto_create_topics=False, fetch_max_wait_ms=50)
    consumer.assign([TopicPartition(name, 0), TopicPartition(name, 1)])
    produce(name, OLD)
    assert [record.value for record in read(consumer, 20)] == OLD
    grow(name, 2)
    produce(name, NEW, partition=1)
    assert [record.value for record in read(consumer, 30)] == NEW
    assert len(consumer.partitions_for(name)) == 2
