"""Peers that keep a client busy: with bytes that never become an answer, and with brokers that never end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kwire.errors import DisconnectError
from kwire.managers.unsent import Channel
from kwire.model import Node
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from tests.network.conftest import (
        InVirtualTime,
        MakeRig,
        MemoryNetwork,
        MemoryStream,
        Peer,
        ScriptedBroker,
    )

BROKER = ("broker", 9092)
TIMEOUT_S = 5
TRICKLE_S = 0.5


async def trickle(stream: MemoryStream) -> None:
    """An answer of 10,000 bytes, of which one comes every half second: for the next hour and a half."""
    await stream.send_all((10_000).to_bytes(4, "big") + bytes(4))
    while True:
        await trio.sleep(TRICKLE_S)
        await stream.send_all(b"\0")


def test_bytes_that_trickle_do_not_put_off_a_requests_end(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    peer: type[Peer],
) -> None:
    rig = make_rig(network, "broker:9092", request_timeout_ms=TIMEOUT_S * 1000)
    good = scripted_broker(lambda request, version: MetadataResponse())

    async def answer_versions_and_trickle(stream: MemoryStream) -> None:
        received = await peer(stream).next_request()
        assert received is not None
        _, version, header = received
        await peer(stream).answer(header, version, good._versions)
        await trickle(stream)

    network.hosts[BROKER] = answer_versions_and_trickle

    async def scenario() -> None:
        async with rig.running():
            outcome = await rig.send().wait()
            assert outcome.at_s == pytest.approx(TIMEOUT_S, abs=0.1)
            assert isinstance(outcome.error, DisconnectError)
            assert "no answer in time; connection given up" in str(outcome.error)
            network.hosts[BROKER] = good
            assert (await rig.send().wait()).error is None

    in_virtual_time(scenario)


def test_bytes_that_trickle_do_not_put_off_the_end_of_a_handshake(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig
) -> None:
    rig = make_rig(network, "broker:9092", request_timeout_ms=TIMEOUT_S * 1000)
    network.hosts[BROKER] = trickle

    async def scenario() -> None:
        async with rig.running():
            outcome = await rig.send(timeout_ms=60_000).wait()
            assert outcome.at_s == pytest.approx(TIMEOUT_S, abs=0.1)
            assert "no answer to ApiVersions in time" in str(outcome.error)

    in_virtual_time(scenario)


def test_brokers_with_other_ids_each_time_do_not_use_up_the_systems_sockets(
    in_virtual_time: InVirtualTime, make_rig: MakeRig, network: MemoryNetwork, scripted_broker: type[ScriptedBroker]
) -> None:
    """Each metadata names brokers that have never been heard of, at one address. Their connections stayed open until
    they had idled for nine minutes: thousands."""
    rig = make_rig(network, "broker:9092")
    open_streams = 0

    async def count(stream: MemoryStream) -> None:
        nonlocal open_streams
        open_streams += 1
        try:
            await scripted_broker(lambda request, version: MetadataResponse())(stream)
        finally:
            open_streams -= 1

    network.hosts[BROKER] = count

    async def scenario() -> None:
        async with rig.running():
            for number in range(100):
                node = Node(number, *BROKER)
                rig.nodes = {number: node}
                assert (await rig.send(node=node).wait()).error is None
                assert (await rig.send(node=node, channel=Channel.FETCH).wait()).error is None
                await trio.sleep(0.01)
            assert open_streams <= 6

    in_virtual_time(scenario)


def test_brokers_that_are_nowhere_are_forgotten(
    in_virtual_time: InVirtualTime, make_rig: MakeRig, network: MemoryNetwork
) -> None:
    rig = make_rig(network, "broker:9092")

    async def scenario() -> None:
        async with rig.running():
            for number in range(300):
                node = Node(number, f"nowhere-{number}", 1)
                rig.nodes = {number: node}
                assert (await rig.send(node=node).wait()).error is not None
                await trio.sleep(1)
            assert len(rig.client._failures) < 70
            assert len(rig.client.connection_failures) < 5_000
            assert "nowhere-299" in rig.client.connection_failures

    in_virtual_time(scenario)


def test_a_broker_that_metadata_drops_answers_what_is_in_flight(
    in_virtual_time: InVirtualTime, make_rig: MakeRig, network: MemoryNetwork, scripted_broker: type[ScriptedBroker]
) -> None:
    rig = make_rig(network, "broker:9092")
    broker = scripted_broker(lambda request, version: MetadataResponse() if len(broker.asked) > 2 else None)
    network.hosts[BROKER] = broker
    node = Node(1, *BROKER)

    async def scenario() -> None:
        async with rig.running():
            rig.nodes = {1: node}
            asked = rig.send(node=node)
            await trio.sleep(1)
            rig.nodes = {2: Node(2, "other", 1)}
            await trio.sleep(1)
            assert not asked.calls
            assert broker.connections == 1
            assert len(broker.times_of(MetadataRequest)) == 1

    in_virtual_time(scenario)
