"""Fault rows of connections and their bytes (S)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kwire.errors import BootstrapError, ProtocolError
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.testing.simulation.script import Script
from kwire.testing.simulation.weather import Weather

if TYPE_CHECKING:
    from tests.testing.simulation.row_world import TOPIC, both_protocols, everywhere, reading, scripted, send_to_each
else:
    from row_world import TOPIC, both_protocols, everywhere, reading, scripted, send_to_each

MIB = 1024 * 1024


# --- dialling -------------------------------------------------------------------------------------------------


@scripted()
def test_row_11_all_bootstrap_servers_are_black_holes(script: Script) -> None:
    """Attempts take longer and longer: 2, 4 and then 5 s for each of three brokers."""
    script.cluster.create_topic(TOPIC, 1, 3)
    clear_up = script.network.trouble(everywhere, Weather(swallows=True))
    consumer = script.consumer(
        TOPIC, socket_connection_setup_timeout_ms=2_000, socket_connection_setup_timeout_max_ms=5_000
    )
    with pytest.raises(BootstrapError):
        consumer.poll(60.0)
    assert 3 <= script.dials <= 3 * 60 / 4
    clear_up()
    script.recovers(2_000, partial(script.read, consumer, script.send(TOPIC)))


@both_protocols
@scripted()
def test_row_11_all_brokers_are_dead_for_a_minute(script: Script, protocol: str) -> None:
    """Each connection is dialled about once a second: fetches and look-ups have their own."""
    consumer, _ = reading(script, group_protocol=protocol)
    consumer.commit_sync()
    for node_id in script.cluster.brokers:
        script.cluster.kill_broker(node_id)
    dials = script.dials
    assert not consumer.poll(60.0)
    assert 60 / 2 <= script.dials - dials <= 3 * 2 * 60
    for node_id in script.cluster.brokers:
        script.cluster.start_broker(node_id)
    script.recovers(3_000, partial(script.read, consumer, script.send(TOPIC)))


@scripted()
def test_row_11_all_brokers_have_other_addresses_behind_the_bootstrap_name(script: Script) -> None:
    """KIP-899."""
    script.aliases["lb"] = "broker0"
    consumer, _ = reading(script, bootstrap_servers="lb:9092")
    for broker in script.cluster.brokers.values():
        script.cluster.kill_broker(broker.node_id)
        broker.host = f"new{broker.node_id}"
    for node_id in script.cluster.brokers:
        script.cluster.start_broker(node_id)
    script.aliases["lb"] = "new0"
    script.recovers(3_000, partial(script.read, consumer, script.send(TOPIC)))


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOBUFS, errno.EADDRNOTAVAIL])
@scripted()
def test_row_47_the_machine_has_no_more_sockets(script: Script, code: int) -> None:
    consumer, heard = reading(script)
    script.dial_error = OSError(code, "no")
    script.network.cut(everywhere)
    sent, dials = script.send(TOPIC), script.dials
    assert not consumer.poll(5.0)
    assert script.dials - dials <= 3 * 3 * 8, "the pauses grow to a second"
    script.dial_error = None
    script.recovers(2_000, partial(script.read, consumer, sent))
    assert heard.kinds() == ["assigned"]


# --- bytes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most_bytes", [1, 2, 7])
@scripted(brokers=1)
def test_row_13_bytes_come_in_slices(script: Script, most_bytes: int) -> None:
    consumer, _ = reading(script)
    script.network.trouble(everywhere, Weather(slice_bytes=most_bytes))
    values = [value for _ in range(3) for value in script.send(TOPIC, 10)]
    records = script.read(consumer, values)
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(1, 31))


@pytest.mark.slow
@both_protocols
@scripted()
def test_row_14_connections_live_for_a_second(script: Script, protocol: str) -> None:
    consumer, heard = reading(script, 3, group_protocol=protocol)
    for _ in range(50):
        script.sleep(script.rng.uniform(500.0, 1_500.0))
        script.network.cut(everywhere)
        script.recovers(2_000, partial(script.read, consumer, send_to_each(script)))
        consumer.commit_sync()
    assert heard.kinds() == ["assigned"]


@pytest.mark.slow
@scripted(brokers=1)
def test_row_15_an_answer_ends_at_each_of_its_bytes(script: Script) -> None:
    """Each is read once all the same: nothing of half an answer is handed out."""
    consumer, _ = reading(script)
    cut_at, size_bytes, is_armed = 0, 1, False

    def truncate(frame: bytes) -> bytes:
        nonlocal is_armed, size_bytes
        if not is_armed or b"value" not in frame:
            return frame
        is_armed, size_bytes = False, len(frame)
        return frame[:cut_at]

    script.tamper = truncate
    while cut_at < size_bytes:
        is_armed = True
        script.recovers(2_000, partial(script.read, consumer, script.send(TOPIC)))
        assert not is_armed
        cut_at += 1
    assert size_bytes > 100


def of_length(size_bytes: int) -> Callable[[bytes], bytes]:
    return lambda frame: size_bytes.to_bytes(4, "big", signed=True) + frame[4:]


def of_another_request(frame: bytes) -> bytes:
    """Its correlation id is nobody's, or somebody else's: what answers out of order look like."""
    return frame[:4] + b"\x7f\xff\xff\xff" + frame[8:]


BAD_FRAMES = {
    "negative": of_length(-1),
    "nothing": of_length(0),
    "no-header": of_length(3),
    "101 MiB": of_length(101 * MIB),
    "2 GiB": of_length(2**31 - 1),
    "correlation-id": of_another_request,
}


@pytest.mark.parametrize("kind", BAD_FRAMES)
@scripted()
def test_row_16_a_frame_that_cannot_be(script: Script, kind: str) -> None:
    """The connection is closed, the application told, once; another takes its place. Nobody waits for two gigabytes."""
    consumer, _ = reading(script)
    connections, spoilt = script.network.connections_made, 0

    def spoil(frame: bytes) -> bytes:
        nonlocal spoilt
        if spoilt or b"value" not in frame:
            return frame
        spoilt += 1
        return BAD_FRAMES[kind](frame)

    script.tamper = spoil
    sent = script.send(TOPIC)
    with pytest.raises(ProtocolError, match="broker0"):
        script.read(consumer, sent)
    script.recovers(1_000, partial(script.read, consumer, sent))
    assert spoilt == 1
    assert script.network.connections_made == connections + 1


# --- brokers that are slow ------------------------------------------------------------------------------------


@both_protocols
@scripted()
def test_row_42_fetches_are_throttled(script: Script, protocol: str) -> None:
    """The broker reads nothing more from that connection for as long (KIP-219). Heartbeats and commits have another."""
    consumer, heard = reading(script, 3, group_protocol=protocol)
    on = script.cluster.control.on
    beats = [on(HeartbeatRequest).observe(), on(ConsumerGroupHeartbeatRequest).observe()]
    fetches = on(FetchRequest).observe()
    script.cluster.throttle(FetchRequest, 3_000)
    for _ in range(4):
        consumer.poll(3.0)
        assert script.took_ms(consumer.commit_sync) < 100
    assert sum(rule.fired for rule in beats) >= 11
    assert fetches.fired <= 3 * (12 / 3 + 2)
    script.cluster.throttle(FetchRequest, 0)
    script.recovers(3_000 + 600, partial(script.read, consumer, send_to_each(script)))
    assert heard.kinds() == ["assigned"]


@both_protocols
@scripted()
def test_row_50_brokers_stand_still_one_by_one_and_go_on_in_another_order(script: Script, protocol: str) -> None:
    """For less than a session, with any coordinator."""
    consumer, heard = reading(script, 3, group_protocol=protocol)
    for _ in range(5):
        nodes = script.rng.sample(list(script.cluster.brokers), script.rng.randint(1, 3))
        for node_id in nodes:
            script.cluster.pause_broker(node_id)
            script.sleep(script.rng.uniform(10.0, 1_000.0))
        for node_id in script.rng.sample(nodes, len(nodes)):
            script.cluster.resume_broker(node_id)
            script.sleep(script.rng.uniform(10.0, 1_000.0))
        script.recovers(2_000, partial(script.read, consumer, send_to_each(script)))
        consumer.commit_sync()
    assert heard.kinds() == ["assigned"]
