"""Fault rows of logs and topics: records that are gone, topics that change (S)."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from kwire.errors import LogTruncationError, OffsetOutOfRangeError
from kwire.model import SubscriptionPattern, TopicPartition
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.testing.cluster.batches import NewRecord, build_batch
from kwire.testing.simulation.script import BytesConsumer, Script

if TYPE_CHECKING:
    from tests.testing.simulation.row_world import (
        GROUP,
        T0,
        TOPIC,
        both_protocols,
        gather,
        poll_until,
        reading,
        scripted,
    )
else:
    from row_world import GROUP, T0, TOPIC, both_protocols, gather, poll_until, reading, scripted


# --- logs that lose records -----------------------------------------------------------------------------------


def behind_the_log(script: Script, policy: str) -> tuple[BytesConsumer, list[bytes]]:
    """A consumer whose position, 2, is in front of the log, and what is in that."""
    script.cluster.create_topic(TOPIC, 1, 3)
    values = [value for _ in range(10) for value in script.send(TOPIC)]
    script.cluster.delete_records(TOPIC, 0, 6)
    consumer = script.consumer(group_id=None, auto_offset_reset=policy)
    consumer.assign([T0])
    consumer.seek(T0, 2)
    return consumer, values[6:]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
@scripted()
def test_row_22_retention_has_overtaken_the_position(script: Script, policy: str) -> None:
    resets = script.cluster.control.on(ListOffsetsRequest).observe()
    consumer, left = behind_the_log(script, policy)
    if policy == "earliest":
        script.recovers(1_000, partial(script.read, consumer, left))
    else:
        script.recovers(1_000, lambda: poll_until(script, consumer, lambda: consumer.position(T0) == 10))
        script.read(consumer, script.send(TOPIC))
    assert resets.fired == 1


@scripted()
def test_row_22_retention_has_overtaken_the_position_and_there_is_no_policy(script: Script) -> None:
    consumer, left = behind_the_log(script, "none")
    for _ in range(2):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            consumer.poll(1.0)
        assert caught.value.offsets == {T0: 2}
    consumer.seek(T0, 6)
    script.read(consumer, left)


@scripted()
def test_row_23_compaction_takes_what_the_position_is_at(script: Script) -> None:
    """The record that is left lies behind a hole; the position, and the commit, go over it."""
    script.cluster.create_topic(TOPIC, 1, 3, {"cleanup.policy": "compact"})
    for number in range(6):
        record = NewRecord(b"v%d" % number, key=b"k")
        script.append(TOPIC, 0, build_batch([record], timestamp_ms=script.cluster.wall_clock_ms()))
    first = script.consumer(TOPIC, max_poll_records=2)
    script.read(first, [b"v0", b"v1"])
    first.commit_sync()
    first.close()
    script.cluster.compact(TOPIC, 0)
    second = script.consumer(TOPIC)
    assert [record.offset for record in script.read(second, [b"v5"])] == [5]
    second.commit_sync()
    assert script.cluster.committed(GROUP)[T0].offset == 6


def lose_four_of_ten(script: Script, consumer: BytesConsumer) -> list[bytes]:
    """Ten records are read, the last four are lost in an unclean election; what is there in their place."""
    for _ in range(9):
        script.read(consumer, script.send(TOPIC))
    assert consumer.position(T0) == 10
    script.cluster.elect_uncleanly(TOPIC, 0, 4)
    return script.send(TOPIC, 3)


@both_protocols
@scripted()
def test_row_24_an_unclean_election_takes_what_was_read(script: Script, protocol: str) -> None:
    """KIP-320: it goes on where the logs part. Not at an end of the log, and not at the old position."""
    consumer, _ = reading(script, group_protocol=protocol)
    sent = lose_four_of_ten(script, consumer)
    script.recovers(2_000, partial(script.read, consumer, sent))
    assert consumer.position(T0) == 9


@scripted()
def test_row_24_an_unclean_election_and_no_policy(script: Script) -> None:
    script.cluster.create_topic(TOPIC, 1, 3)
    consumer = script.consumer(group_id=None, auto_offset_reset="none")
    consumer.assign([T0])
    consumer.seek(T0, 0)
    script.read(consumer, script.send(TOPIC))
    sent = lose_four_of_ten(script, consumer)
    with pytest.raises(LogTruncationError) as caught:
        consumer.poll(2.0)
    assert caught.value.offsets == {T0: 10}
    assert caught.value.divergent_offsets[T0].offset == 6
    consumer.seek(T0, caught.value.divergent_offsets[T0])
    script.read(consumer, sent)


# --- topics ---------------------------------------------------------------------------------------------------


@both_protocols
@scripted()
def test_row_39_a_topic_is_recreated_with_fewer_partitions(script: Script, protocol: str) -> None:
    consumer, _ = reading(script, 3, group_protocol=protocol, metadata_max_age_ms=2_000)
    consumer.commit_sync()
    old_id = script.cluster.topics[TOPIC].topic_id
    script.cluster.delete_topic(TOPIC)
    script.cluster.create_topic(TOPIC, 1, 3)
    script.recovers(5_000, partial(script.read, consumer, script.send(TOPIC, 2)))
    consumer.commit_sync()  # it may be assigned anew, in place of the old one
    poll_until(script, consumer, lambda: consumer.assignment() == {T0}, within_ms=5_000)
    gather(script, consumer, 3_000)
    asked: set[UUID] = set()
    script.cluster.control.on(FetchRequest).observe(
        lambda request, _call: asked.update(topic.topic_id for topic in request.topics)
    )
    script.read(consumer, script.send(TOPIC))
    script.sleep(3_000)
    assert old_id not in asked
    assert consumer.position(T0) == 3


@both_protocols
@scripted()
def test_row_40_a_topic_grows(script: Script, protocol: str) -> None:
    """Its new partition is read from the beginning, when metadata is as old as it may get."""
    consumer, _ = reading(script, group_protocol=protocol, metadata_max_age_ms=3_000)
    consumer.commit_sync()
    script.cluster.grow_topic(TOPIC, 2)
    script.recovers(3_000 + 1_000, partial(script.read, consumer, script.send(TOPIC, 3, 1)))


@both_protocols
@scripted(settings={"group_consumer_regex_refresh_interval_ms": 1_000})
def test_row_40_a_topic_appears_that_a_pattern_finds(script: Script, protocol: str) -> None:
    script.cluster.create_topic("orders-1", 1, 3)
    consumer = script.consumer(group_protocol=protocol, metadata_max_age_ms=3_000)
    consumer.subscribe(re.compile("orders-.*") if protocol == "classic" else SubscriptionPattern("orders-.*"))
    script.read(consumer, script.send("orders-1"))
    consumer.commit_sync()
    script.cluster.create_topic("orders-2", 1, 3)
    within_ms = 3_000 if protocol == "classic" else 10_000  # as old as metadata may get; so often do brokers look
    script.recovers(within_ms + 1_000, partial(script.read, consumer, script.send("orders-2")))
    assert consumer.assignment() == {TopicPartition("orders-1", 0), TopicPartition("orders-2", 0)}
