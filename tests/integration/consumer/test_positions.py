"""Where a consumer is, and how it gets elsewhere: assign, seek, reset, look-ups, pause, and `for` loops left early."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kwire import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kwire.errors import IllegalStateError, NoOffsetForPartitionError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import OpenConsumer, PollUntil, Read


def numbers(count: int) -> list[bytes | None]:
    return [b"%d" % i for i in range(count)]


@pytest.fixture
def tp(topic: MakeTopic) -> TopicPartition:
    """The one partition of a topic."""
    return TopicPartition(topic(), 0)


def test_a_position_is_what_poll_has_returned(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    produce(tp.topic, numbers(10))
    consumer = open_consumer(max_poll_records=4)
    consumer.assign([tp])
    assert consumer.position(tp) == 0
    assert [record.offset for record in read(consumer, 4)] == [0, 1, 2, 3]
    assert consumer.position(tp) == 4
    assert consumer.current_lag(tp) == 6
    read(consumer, 6)
    assert (consumer.position(tp), consumer.current_lag(tp)) == (10, 0)


def test_a_look_up_and_a_reset_of_one_partition_do_not_get_in_each_others_way(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer
) -> None:
    """Both are ListOffsets requests to the same leader; one request that names a partition twice is refused."""
    produce(tp.topic, numbers(3))
    consumer = open_consumer()
    consumer.assign([tp])
    assert consumer.end_offsets([tp]) == {tp: 3}
    assert consumer.beginning_offsets([tp]) == {tp: 0}
    assert consumer.position(tp) == 0


def test_seeking_goes_anywhere_and_drops_what_is_buffered(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    produce(tp.topic, numbers(100))
    consumer = open_consumer(max_poll_records=10, fetch_max_wait_ms=20)
    consumer.assign([tp])
    for offset in (90, 3, 50, 0, 99):
        consumer.seek(tp, offset)
        assert consumer.position(tp) == offset
        assert read(consumer, 1)[0].offset == offset
    consumer.seek(tp, OffsetAndMetadata(7, leader_epoch=0))
    assert read(consumer, 1)[0].offset == 7


def test_a_numpy_integer_is_an_offset(tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer) -> None:
    """`Records.offsets()` answers an array, so its items come back as offsets; once they killed the network thread."""
    produce(tp.topic, numbers(5))
    consumer = open_consumer(group_id="numpy")
    consumer.assign([tp])
    three = np.int64(3)
    consumer.seek(tp, three)  # type: ignore[arg-type]  # a whole number all the same
    assert consumer.position(tp) == 3
    consumer.commit_sync({tp: OffsetAndMetadata(three)})  # type: ignore[arg-type]  # as above
    assert consumer.committed([tp]) == {tp: OffsetAndMetadata(3)}


def test_seeking_to_the_ends(tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, read: Read) -> None:
    produce(tp.topic, numbers(5))
    consumer = open_consumer()
    consumer.assign([tp])
    consumer.seek_to_end([tp])
    assert consumer.position(tp) == 5
    produce(tp.topic, [b"new"])
    assert [record.value for record in read(consumer, 1)] == [b"new"]
    consumer.seek_to_beginning()
    assert consumer.position(tp) == 0
    assert len(read(consumer, 6)) == 6


def test_offsets_of_times(tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer) -> None:
    produce(tp.topic, numbers(3), timestamps_ms=[1_000, 2_000, 3_000])
    consumer = open_consumer()
    assert consumer.offsets_for_times({tp: 1_500}) == {tp: OffsetAndTimestamp(1, 2_000, 0)}
    assert consumer.offsets_for_times({tp: 3_001}) == {tp: None}
    assert consumer.offsets_for_times({}) == {}
    assert consumer.end_offsets([]) == {}


def test_the_end_under_read_committed_is_the_last_stable_offset(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    produce(tp.topic, numbers(2))
    consumer = open_consumer(isolation_level="read_committed")
    consumer.assign([tp])
    assert consumer.end_offsets([tp]) == {tp: 2}
    assert len(read(consumer, 2)) == 2


def test_topics_and_their_partitions(topic: MakeTopic, open_consumer: OpenConsumer) -> None:
    name = topic(3)
    consumer = open_consumer()
    found = sorted(consumer.partitions_for(name), key=lambda info: info.partition)
    assert [info.partition for info in found] == [0, 1, 2]
    assert all(info.topic == name and info.leader is not None and info.replicas for info in found)
    assert sorted(consumer.list_topics()[name], key=lambda info: info.partition) == found


def test_pausing_keeps_what_is_buffered_and_lets_others_flow(
    topic: MakeTopic, produce: Produce, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = topic(2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    for tp in (first, second):
        produce(name, numbers(20), partition=tp.partition)
    consumer = open_consumer(max_poll_records=5)
    consumer.assign([first, second])
    before = poll_until(lambda: True, consumer) or poll_until(lambda: consumer.position(first) > 0, consumer)
    consumer.pause([first])
    assert consumer.paused() == {first}
    paused_at = consumer.position(first)
    during = poll_until(lambda: consumer.position(second) == 20, consumer)
    assert {record.partition for record in during} <= {1}
    assert consumer.position(first) == paused_at
    consumer.resume([first])
    after = poll_until(lambda: consumer.position(first) == 20, consumer)
    assert sorted(record.offset for record in [*before, *during, *after] if record.partition == 0) == list(range(20))


def test_another_assignment_keeps_positions_of_what_stays(
    topic: MakeTopic, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic(2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    produce(name, numbers(4), partition=0)
    produce(name, numbers(4), partition=1)
    consumer = open_consumer()
    consumer.assign([first])
    read(consumer, 4)
    consumer.assign([first, second])
    assert consumer.assignment() == {first, second}
    assert {record.partition for record in read(consumer, 4)} == {1}
    consumer.assign([second])
    assert consumer.assignment() == {second}
    assert consumer.position(second) == 4


def test_without_a_reset_policy_the_user_decides(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    produce(tp.topic, numbers(2))
    consumer = open_consumer(auto_offset_reset="none")
    consumer.assign([tp])
    for _ in range(2):  # each time, until something is done about it
        with pytest.raises(NoOffsetForPartitionError, match=f"no committed offset.*{tp}.*seek"):
            consumer.poll(10.0)
    with pytest.raises(NoOffsetForPartitionError):
        consumer.position(tp)
    consumer.seek(tp, 1)
    assert [record.value for record in read(consumer, 1)] == [b"1"]
    consumer.seek(tp, 1_000)
    with pytest.raises(OffsetOutOfRangeError, match=f"{tp} at 1000"):
        consumer.poll(10.0)
    consumer.seek_to_beginning()
    assert len(read(consumer, 2)) == 2


def test_a_position_outside_the_log_is_reset(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    produce(tp.topic, numbers(2))
    consumer = open_consumer()
    consumer.assign([tp])
    consumer.seek(tp, 1_000_000)
    assert [record.offset for record in read(consumer, 2)] == [0, 1]


def test_records_larger_than_any_fetch_size_come_all_the_same(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    large = bytes(300_000)
    produce(tp.topic, [large, b"small", large])
    consumer = open_consumer(fetch_max_bytes=1_000, max_partition_fetch_bytes=100, fetch_buffer_bytes=1)
    consumer.assign([tp])
    assert [record.value for record in read(consumer, 3)] == [large, b"small", large]


def test_a_poll_returns_no_more_than_it_may(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    produce(tp.topic, numbers(50))
    consumer = open_consumer(max_poll_records=7)
    consumer.assign([tp])
    poll_until(lambda: consumer.position(tp) > 0, consumer)
    while consumer.position(tp) < 50:
        assert 0 < len(consumer.poll(10.0)) <= 7


# --- `for record in consumer` ---------------------------------------------------------------------------------


def test_a_loop_that_is_left_loses_nothing(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    """Each loop polls; once, whatever of that poll a loop had not seen when it was left was skipped for good."""
    produce(tp.topic, numbers(30))
    consumer = open_consumer()
    consumer.assign([tp])
    seen: list[int] = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 5:
            break
    assert consumer.position(tp) == 5
    seen += [record.offset for record in consumer.poll(10.0)]
    assert seen == list(range(30))
    assert consumer.position(tp) == 30
    consumer.seek(tp, 0)
    assert [next(iter(consumer)).offset for _ in range(3)] == [0, 1, 2]


def test_what_a_loop_has_not_seen_obeys_pause_and_resume(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    produce(tp.topic, numbers(10))
    consumer = open_consumer()
    consumer.assign([tp])
    assert next(iter(consumer)).offset == 0
    consumer.pause([tp])
    assert not consumer.poll(0.1)
    assert consumer.position(tp) == 1
    consumer.resume([tp])
    assert [record.offset for record in read(consumer, 9)] == list(range(1, 10))


def test_a_seek_inside_a_loop_takes_effect_with_the_next_record(
    tp: TopicPartition, produce: Produce, open_consumer: OpenConsumer
) -> None:
    produce(tp.topic, numbers(10))
    consumer = open_consumer()
    consumer.assign([tp])
    seen: list[int] = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 3:
            consumer.seek(tp, 8)
        if len(seen) == 5:
            break
    assert seen == [0, 1, 2, 8, 9]


def test_what_is_not_assigned_has_no_position(tp: TopicPartition, open_consumer: OpenConsumer) -> None:
    consumer = open_consumer()
    for call in (consumer.position, consumer.current_lag):
        with pytest.raises(IllegalStateError, match=f"not assigned to this consumer: {tp}"):
            call(tp)
    with pytest.raises(IllegalStateError, match="not assigned"):
        consumer.seek(tp, 0)
    with pytest.raises(IllegalStateError, match="not assigned"):
        consumer.pause([tp])
    with pytest.raises(IllegalStateError, match="subscribe to topics or assign partitions first"):
        consumer.poll(0.0)
