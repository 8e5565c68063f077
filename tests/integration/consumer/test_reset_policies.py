"""Where a partition begins whose position nobody knows, or is no longer there: `auto_offset_reset`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kwire import TopicPartition
from kwire.errors import NoOffsetForPartitionError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import OpenConsumer, PollUntil, Read

HOUR_MS = 3_600_000
BEHIND_THE_END = 1_000
POLICIES = {"earliest": 0, "latest": 6, "by_duration:PT90M": 4, "by_duration:P1D": 2, "by_duration:PT1M": 6}


@pytest.fixture
def tp(topic: MakeTopic, produce: Produce) -> TopicPartition:
    """Six records: two each of two days ago, two hours ago, and one hour ago."""
    name = topic()
    now_ms = time.time_ns() // 1_000_000
    ages_ms = [48 * HOUR_MS, 48 * HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS, HOUR_MS, HOUR_MS]
    produce(name, [b"%d" % i for i in range(6)], timestamps_ms=[now_ms - age_ms for age_ms in ages_ms])
    return TopicPartition(name, 0)


@pytest.mark.parametrize(("policy", "offset"), POLICIES.items())
def test_a_partition_without_a_committed_offset(
    tp: TopicPartition,
    produce: Produce,
    open_consumer: OpenConsumer,
    read: Read,
    group_id: str,
    policy: str,
    offset: int,
) -> None:
    consumer = open_consumer(auto_offset_reset=policy, group_id=group_id)
    consumer.assign([tp])
    assert consumer.position(tp) == offset
    produce(tp.topic, [b"new"])
    assert [record.offset for record in read(consumer, 7 - offset)] == list(range(offset, 7))


@pytest.mark.parametrize(("policy", "offset"), POLICIES.items())
def test_a_position_that_is_out_of_range(
    tp: TopicPartition,
    produce: Produce,
    open_consumer: OpenConsumer,
    read: Read,
    poll_until: PollUntil,
    policy: str,
    offset: int,
) -> None:
    consumer = open_consumer(auto_offset_reset=policy, fetch_max_wait_ms=20)
    consumer.assign([tp])
    consumer.seek(tp, BEHIND_THE_END)
    early = poll_until(lambda: consumer.position(tp) != BEHIND_THE_END, consumer)
    produce(tp.topic, [b"new"])
    records = [*early, *read(consumer, 7 - offset - len(early))]
    assert [record.offset for record in records] == list(range(offset, 7))


def test_a_seek_right_after_the_assignment_needs_no_policy(
    tp: TopicPartition, open_consumer: OpenConsumer, read: Read
) -> None:
    """Without a group the position is missed at once, before the seek; that was raised by the poll behind it."""
    consumer = open_consumer(auto_offset_reset="none")
    consumer.assign([tp])
    consumer.seek(tp, 3)
    assert [record.offset for record in read(consumer, 3)] == [3, 4, 5]
    consumer.assign([])
    consumer.assign([tp])
    consumer.seek_to_beginning([tp])
    assert len(read(consumer, 6)) == 6


def test_without_a_policy_both_are_raised(tp: TopicPartition, open_consumer: OpenConsumer, group_id: str) -> None:
    consumer = open_consumer(auto_offset_reset="none", group_id=group_id)
    consumer.assign([tp])
    with pytest.raises(NoOffsetForPartitionError):
        consumer.poll(10.0)
    consumer.seek(tp, BEHIND_THE_END)
    with pytest.raises(OffsetOutOfRangeError, match=f"{tp} at {BEHIND_THE_END}"):
        consumer.poll(10.0)
