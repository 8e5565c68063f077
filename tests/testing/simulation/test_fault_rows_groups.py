"""Fault rows of members: static ones, and those that are away, stuck or slow (S)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    UnreleasedInstanceIdError,
)
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.testing.cluster.batches import build_batch
from kwire.testing.simulation.script import BytesConsumer, Script

if TYPE_CHECKING:
    from tests.testing.simulation.row_world import (
        BOTH,
        TOPIC,
        Reader,
        acknowledged_once,
        both_protocols,
        group_of_two,
        partitions,
        reading,
        scripted,
        share_all,
    )
else:
    from row_world import (
        BOTH,
        TOPIC,
        Reader,
        acknowledged_once,
        both_protocols,
        group_of_two,
        partitions,
        reading,
        scripted,
        share_all,
    )

# --- static members -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "ending"),
    [("classic", Reader.stop), ("classic", Reader.kill), ("consumer", Reader.stop)],
)
@scripted()
def test_row_28_a_static_member_is_restarted_within_its_session(
    script: Script, protocol: str, ending: Callable[[Reader], None]
) -> None:
    script.cluster.create_topic(TOPIC, 4, 3)
    one = Reader(script, group_protocol=protocol, group_instance_id="one")
    two = Reader(script, group_protocol=protocol, group_instance_id="two")
    script.until(lambda: share_all([one, two], partitions(4)))
    owned, heard_by_two = one.owned, two.kinds()
    ending(one)
    script.sleep(3_000)
    restarted: list[Reader] = []

    def return_home() -> None:
        restarted.append(Reader(script, group_protocol=protocol, group_instance_id="one"))
        script.until(lambda: restarted[0].owned == owned)

    script.recovers(2_000, return_home)
    script.sleep(12_000)
    assert two.kinds() == heard_by_two
    assert restarted[0].owned == owned


@both_protocols
@scripted()
def test_row_29_two_members_have_one_instance_id(script: Script, protocol: str) -> None:
    """Classic: the newcomer takes over, and the old one hears of it. KIP-848: the old one stays."""
    script.cluster.create_topic(TOPIC, 2, 3)
    old = Reader(script, group_protocol=protocol, group_instance_id="one")
    script.until(lambda: old.owned == BOTH)
    new = Reader(script, group_protocol=protocol, group_instance_id="one")
    loser, winner = (old, new) if protocol == "classic" else (new, old)
    script.recovers(10_000, lambda: script.until(lambda: loser.errors and winner.owned == BOTH))
    expected = FencedInstanceIdError if protocol == "classic" else UnreleasedInstanceIdError
    sent = script.send(TOPIC, 3)
    script.until(lambda: winner.values == sent, within_ms=1_000)
    script.sleep(12_000)
    assert {type(error) for error in loser.errors} == {expected}
    assert loser.errors[0].fatal
    assert (winner.owned, winner.values, loser.values) == (BOTH, sent, [])


# --- members that are away ------------------------------------------------------------------------------------


@pytest.mark.slow
@both_protocols
@scripted()
def test_row_30_a_member_is_stopped_for_two_sessions_with_work_in_flight(script: Script, protocol: str) -> None:
    """It finishes the work in its hands; what it has buffered it does not begin."""
    one, two = group_of_two(script, group_protocol=protocol, max_poll_records=5)
    one.processing_ms = 500.0
    partition = min(one.owned).partition
    sent = script.send(TOPIC, 20, partition)
    script.until(lambda: len(one.values) == 5)
    one.process.freeze()
    script.recovers(10_000 + 2_000, lambda: script.until(lambda: two.values == sent))
    script.sleep(13_000)
    one.process.thaw()
    changes = len(one.changes)
    script.until(lambda: len(one.changes) > changes)
    assert one.changes[changes].kind == "lost"
    assert one.processed_before[changes] == 5
    assert [type(error) for error in one.errors] == [CommitFailedError]
    script.recovers(5_000, lambda: script.until(lambda: share_all([one, two], BOTH)))
    assert acknowledged_once([one, two])
    assert one.values == sent[:5]


@pytest.mark.slow
@both_protocols
@scripted()
def test_row_33_a_handler_takes_longer_than_the_poll_interval(script: Script, protocol: str) -> None:
    one, two = group_of_two(script, group_protocol=protocol)
    one.processing_ms = 25_000.0
    sent = script.send(TOPIC, 1, min(one.owned).partition)
    script.until(lambda: one.values)
    script.recovers(15_000 + 2_000, lambda: script.until(lambda: two.values == sent))
    one.processing_ms = 1.0
    script.until(lambda: share_all([one, two], BOTH), within_ms=20_000)
    assert [type(error) for error in one.errors] == [CommitFailedError]
    assert one.kinds()[-2:] == ["lost", "assigned"]
    assert acknowledged_once([one, two])


@pytest.mark.slow
@both_protocols
@scripted()
def test_row_34_a_consumer_is_slow_for_ten_minutes(script: Script, protocol: str) -> None:
    """A record in five seconds, and two thousand come in: the buffer keeps its bounds, the membership stays."""
    limit_bytes, batch_bytes = 100_000, 10_000
    consumer, heard = reading(
        script, group_protocol=protocol, max_poll_records=1, fetch_buffer_bytes=limit_bytes, fetch_max_bytes=batch_bytes
    )
    on = script.cluster.control.on
    beats = [on(HeartbeatRequest).observe(), on(ConsumerGroupHeartbeatRequest).observe()]
    buffer, sizes = consumer._session.link.buffer, list[int]()
    for _ in range(120):
        for _ in range(10):
            script.append(TOPIC, 0, build_batch([b"x" * 1_000] * 10, timestamp_ms=script.cluster.wall_clock_ms()))
            script.sleep(500.0)
        assert len(consumer.poll(1.0)) == 1
        sizes.append(buffer.size_bytes)
    assert max(sizes) <= limit_bytes + limit_bytes // 4 + 2 * batch_bytes
    assert max(sizes[20:]) <= 1.05 * min(sizes[20:]) + 2 * batch_bytes
    assert sum(rule.fired for rule in beats) >= 580
    assert heard.kinds() == ["assigned"]


@scripted(brokers=1)
def test_row_34_a_slow_consumer_with_a_backlog_soon_gets_the_record_of_another_partition(script: Script) -> None:
    """The buffer holds eight seconds of work on the backlog, and stays full: the record overtakes most of it."""
    consumer, _ = reading(script, 2, max_poll_records=10, fetch_buffer_bytes=400_000)
    for _ in range(200):
        script.append(TOPIC, 0, build_batch([b"x" * 1_000] * 10, timestamp_ms=script.cluster.wall_clock_ms()))

    def work_on_a_poll() -> set[int]:
        found = {tp.partition for tp in consumer.poll(1.0).partitions()}
        script.sleep(200.0)
        return found

    for _ in range(30):
        assert work_on_a_poll() == {0}
    script.append(TOPIC, 1, build_batch([b"new"], timestamp_ms=script.cluster.wall_clock_ms()))
    assert any(1 in work_on_a_poll() for _ in range(4))


@pytest.mark.slow
@scripted(brokers=1)
def test_row_34_a_slow_consumer_of_many_partitions_holds_no_more_than_it_counts(script: Script) -> None:
    """Each answer has records of several partitions, and stays in memory until the last of them is collected."""
    reads_slowly_within_bounds(script, brokers=1)


@pytest.mark.slow
@scripted(brokers=5)
def test_row_34_a_slow_consumer_of_many_brokers_leaves_room_for_what_it_has_asked_for(script: Script) -> None:
    """While one broker's answer is put into the buffer, those of the others are on their way."""
    reads_slowly_within_bounds(script, brokers=5)


def reads_slowly_within_bounds(script: Script, *, brokers: int) -> None:
    """A broker that has a batch sends it, even if it is asked for less (KIP-74)."""
    limit_bytes, batch_bytes, many = 400_000, 10_000, 40
    consumer, _ = reading(script, many, max_poll_records=10, fetch_buffer_bytes=limit_bytes)
    for number in range(many):
        for _ in range(5):
            script.append(TOPIC, number, build_batch([b"x" * 1_000] * 10, timestamp_ms=script.cluster.wall_clock_ms()))
    held = list[int]()
    for _ in range(100):
        assert len(consumer.poll(1.0)) == 10
        script.sleep(2_000.0)  # periodic work of the network thread finds whatever room there is
        held.append(held_bytes(consumer))
        assert held[-1] <= 1.01 * consumer._session.link.buffer.size_bytes, "an answer is little more than its records"
    assert max(held) <= limit_bytes + (1 + brokers) * batch_bytes


def held_bytes(consumer: BytesConsumer) -> int:
    """What the consumer's fetches keep in memory: the frames that they are views of, each once."""
    fetches = [fetch for line in consumer._session.link.buffer._lines.values() for fetch in line]
    frames = [memoryview(fetch.records).obj for fetch in fetches]
    return sum(memoryview(frame).nbytes for frame in {id(frame): frame for frame in frames}.values())
