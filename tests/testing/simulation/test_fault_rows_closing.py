"""Fault rows of clocks, and of the end of a consumer (S)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kwire.errors import CommitFailedError, IllegalStateError
from kwire.model import TopicPartition
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.testing.simulation.script import Script
from kwire.testing.simulation.weather import Weather

if TYPE_CHECKING:
    from tests.testing.simulation.row_world import (
        BOTH,
        GROUP,
        T0,
        TOPIC,
        Listening,
        both_protocols,
        group_of_two,
        reading,
        scripted,
    )
else:
    from row_world import BOTH, GROUP, T0, TOPIC, Listening, both_protocols, group_of_two, reading, scripted

# --- the last commit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0.1, 2.0])
@both_protocols
@scripted()
def test_row_48_the_last_commit_goes_out_though_a_heartbeat_has_no_answer(
    script: Script, protocol: str, timeout: float
) -> None:
    """Behind it: no later commit is made that this one could undo."""
    consumer, _ = reading(script, group_protocol=protocol, enable_auto_commit=True, auto_commit_interval_ms=600_000)
    beat = HeartbeatRequest if protocol == "classic" else ConsumerGroupHeartbeatRequest
    rule = script.cluster.control.on(beat, times=1).delay(5_000, handled=True)
    script.until(lambda: rule.fired)
    consumer.close(timeout)
    script.sleep(6_000)
    assert script.cluster.committed(GROUP)[T0].offset == 1


# --- clocks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
@both_protocols
@scripted()
def test_row_45_the_wall_clock_steps_by_an_hour(script: Script, protocol: str, step_ms: int) -> None:
    consumer, heard = reading(script, group_protocol=protocol)
    beats = [
        script.cluster.control.on(HeartbeatRequest).observe(),
        script.cluster.control.on(ConsumerGroupHeartbeatRequest).observe(),
    ]
    script.time.wall_clock_step_ms = step_ms
    for _ in range(15):
        script.recovers(10, partial(script.read, consumer, script.send(TOPIC)))
        consumer.commit_sync(timeout=1.0)
        script.sleep(1_000)
    assert 14 <= sum(rule.fired for rule in beats) <= 17
    assert heard.kinds() == ["assigned"]


@both_protocols
@scripted()
def test_row_45_a_machine_is_suspended(script: Script, protocol: str) -> None:
    """For less than a session: one heartbeat afterwards, and not all that were left out."""
    consumer, heard = reading(script, group_protocol=protocol)
    process = script.process_of(consumer)
    beats = [
        script.cluster.control.on(HeartbeatRequest).observe(),
        script.cluster.control.on(ConsumerGroupHeartbeatRequest).observe(),
    ]
    for _ in range(3):
        process.freeze()
        script.sleep(8_500)  # longer than a request may take
        process.thaw()
        before = sum(rule.fired for rule in beats)
        script.recovers(1_000, partial(script.read, consumer, script.send(TOPIC)))
        script.sleep(500)
        assert sum(rule.fired for rule in beats) - before <= 2
        script.recovers(1_000, consumer.commit_sync)
        script.sleep(2_000)
    assert heard.kinds() == ["assigned"]


# --- closing --------------------------------------------------------------------------------------------------


def while_idle(script: Script, protocol: str) -> Callable[[], None]:
    return reading(script, group_protocol=protocol)[0].close


def before_anything(script: Script, protocol: str) -> Callable[[], None]:
    return script.consumer(TOPIC, group_protocol=protocol).close


def while_joining(script: Script, protocol: str) -> Callable[[], None]:
    script.cluster.create_topic(TOPIC, 1, 3)
    script.cluster.control.on(JoinGroupRequest).drop()
    script.cluster.control.on(ConsumerGroupHeartbeatRequest).drop()
    consumer = script.consumer(TOPIC, group_protocol=protocol)
    consumer.poll(1.0)
    return consumer.close


def while_rebalancing(script: Script, protocol: str) -> Callable[[], None]:
    """The other member does not poll, so the rebalance does not end."""
    reading(script, 2, group_protocol=protocol)
    consumer = script.consumer(TOPIC, group_protocol=protocol)
    consumer.poll(2.0)
    return consumer.close


def while_brokers_are_dead(script: Script, protocol: str) -> Callable[[], None]:
    consumer, _ = reading(script, group_protocol=protocol)
    for node_id in script.cluster.brokers:
        script.cluster.kill_broker(node_id)
    return consumer.close


def while_brokers_stand_still(script: Script, protocol: str) -> Callable[[], None]:
    consumer, _ = reading(script, group_protocol=protocol, enable_auto_commit=True)
    for node_id in script.cluster.brokers:
        script.cluster.pause_broker(node_id)
    return consumer.close


def while_bytes_vanish(script: Script, protocol: str) -> Callable[[], None]:
    consumer, _ = reading(script, group_protocol=protocol, enable_auto_commit=True)
    script.network.trouble(lambda _client, _host: True, Weather(swallows=True))
    return consumer.close


SITUATIONS = (
    before_anything,
    while_idle,
    while_joining,
    while_rebalancing,
    while_brokers_are_dead,
    while_brokers_stand_still,
    while_bytes_vanish,
)


@pytest.mark.parametrize("situation", SITUATIONS)
@both_protocols
@scripted()
def test_row_48_closing_takes_no_longer_than_it_may(
    script: Script, protocol: str, situation: Callable[[Script, str], Callable[[], None]]
) -> None:
    close = situation(script, protocol)

    def close_whatever_it_raises() -> None:
        try:
            close()
        except CommitFailedError:
            assert situation in (while_brokers_stand_still, while_bytes_vanish)

    script.recovers(5_000 + 150, close_whatever_it_raises)
    script.recovers(10, close)
    script.cluster.control.clear()
    for node_id in script.cluster.brokers:
        script.cluster.start_broker(node_id)
        script.cluster.resume_broker(node_id)


@both_protocols
@scripted()
def test_row_48_closing_in_a_callback_is_refused(script: Script, protocol: str) -> None:
    script.cluster.create_topic(TOPIC, 1, 3)
    consumer = script.consumer(group_protocol=protocol)
    refused: list[Exception] = []

    class Closing(Listening):
        def _hear(self, kind: str, partitions: Collection[TopicPartition]) -> None:
            super()._hear(kind, partitions)
            try:
                consumer.close()
            except IllegalStateError as error:
                refused.append(error)

    heard = Closing(script)
    consumer.subscribe([TOPIC], listener=heard)
    script.read(consumer, script.send(TOPIC))
    assert heard.kinds() == ["assigned"]
    assert len(refused) >= 1


@both_protocols
@scripted()
def test_row_48_closing_while_a_handler_is_at_work(script: Script, protocol: str) -> None:
    """The application that is to stop finishes its record; its member leaves at once."""
    one, two = group_of_two(script, group_protocol=protocol)
    one.processing_ms = 1_000.0
    sent = script.send(TOPIC, 1, min(one.owned).partition)
    script.until(lambda: one.values == sent)
    one.stop()
    assert one.close_took_ms < 1_000
    script.recovers(3_000, lambda: script.until(lambda: two.owned == BOTH))
    assert one.committed == sent
