"""A broker reads a request when it has answered the one before, perhaps long after the client has given that up. What
undoes later work by then is not sent behind a slow request, or is taken back by a reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kwire.clock import monotonic_ms
from kwire.errors import DisconnectError
from kwire.managers.unsent import Channel
from kwire.model import Node
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.metadata import MetadataResponse
from kwire.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.schema import Message, Request
    from tests.network.conftest import (
        InVirtualTime,
        MakeRig,
        MemoryNetwork,
        MemoryStream,
        Outcome,
        Peer,
        Received,
        Rig,
        ScriptedBroker,
    )

BROKER = ("broker", 9092)
NODE = Node(1, *BROKER)
TIMEOUT_MS = 10_000


@pytest.fixture
def rig(network: MemoryNetwork, make_rig: MakeRig) -> Rig:
    return make_rig(network, "broker:9092", request_timeout_ms=TIMEOUT_MS)


def silence(request: Request[Message], version: int) -> None:
    """Never answers."""


def only_stream(network: MemoryNetwork) -> MemoryStream:
    (stream,) = network.streams
    return stream


# --- taken back --------------------------------------------------------------------------------------------------


def test_a_connection_without_an_answer_in_time_is_reset(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker]
) -> None:
    rig.network.hosts[BROKER] = scripted_broker(silence)

    async def scenario() -> None:
        async with rig.running():
            assert isinstance((await rig.send().wait()).error, DisconnectError)
            assert only_stream(rig.network).is_reset_when_closed

    in_virtual_time(scenario)


def test_a_connection_whose_answer_makes_no_sense_is_reset_as_others_may_be_under_way(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker]
) -> None:
    rig.network.hosts[BROKER] = scripted_broker(lambda request, version: b"\xff\xff\xff\xff")

    async def scenario() -> None:
        async with rig.running():
            asked = [rig.send(), rig.send()]
            assert [(await each.wait()).error is not None for each in asked] == [True, True]
            assert only_stream(rig.network).is_reset_when_closed

    in_virtual_time(scenario)


def test_a_connection_to_where_the_broker_was_before_is_reset(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker]
) -> None:
    rig.network.hosts[BROKER] = scripted_broker(silence)
    rig.nodes = {1: NODE}

    async def scenario() -> None:
        async with rig.running():
            asked = rig.send(node=NODE)
            await trio.sleep(1)
            rig.nodes = {1: Node(1, "elsewhere", 1)}
            rig.send(node=rig.nodes[1])
            assert isinstance((await asked.wait()).error, DisconnectError)
            assert only_stream(rig.network).is_reset_when_closed

    in_virtual_time(scenario)


def test_a_connection_that_idles_ends_as_usual(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    rig = make_rig(network, "broker:9092", connections_max_idle_ms=5_000)
    network.hosts[BROKER] = scripted_broker(lambda request, version: MetadataResponse())

    async def scenario() -> None:
        async with rig.running():
            await rig.send().wait()
            await trio.sleep(6)
            assert rig.client.broker_failures(monotonic_ms()) == []
            assert not rig.client.is_connected(NODE, Channel.CONTROL)
            assert not only_stream(network).is_reset_when_closed

    in_virtual_time(scenario)


def test_what_a_closed_consumer_has_said_last_is_not_taken_back(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker]
) -> None:
    """That it leaves the group, say, though nobody waited for the answer."""
    rig.network.hosts[BROKER] = scripted_broker(silence)

    async def scenario() -> None:
        async with rig.running():
            last = rig.send()
            await trio.sleep(1)
            rig.client.close()
            assert isinstance((await last.wait()).error, DisconnectError)
            assert not only_stream(rig.network).is_reset_when_closed

    in_virtual_time(scenario)


# --- not sent ----------------------------------------------------------------------------------------------------


class SlowBroker:
    """Takes what comes, and answers heartbeats and commits, in their order, when it is told to."""

    def __init__(self, peer: type[Peer], offer: Callable[[], ApiVersionsResponse]) -> None:
        self.taken: list[type[Request[Message]]] = []
        self._peer = peer
        self._offer = offer
        self._unanswered: list[tuple[Peer, Received]] = []

    async def __call__(self, stream: MemoryStream) -> None:
        peer = self._peer(stream)
        while (received := await peer.next_request()) is not None:
            request, version, header = received
            if isinstance(request, ApiVersionsRequest):
                await peer.answer(header, version, self._offer())
            else:
                self.taken.append(type(request))
                self._unanswered.append((peer, received))

    async def answer(self) -> None:
        peer, (request, version, header) = self._unanswered.pop(0)
        answer = HeartbeatResponse() if isinstance(request, HeartbeatRequest) else OffsetCommitResponse()
        await peer.answer(header, version, answer)
        await trio.sleep(0.1)


@pytest.fixture
def slow_broker(network: MemoryNetwork, peer: type[Peer], offer: Callable[[], ApiVersionsResponse]) -> SlowBroker:
    broker = network.hosts[BROKER] = SlowBroker(peer, offer)
    return broker


async def sent(rig: Rig, request: Request[Message], *, only_behind_its_kind: bool = False) -> Outcome:
    outcome = rig.send(request, NODE, Channel.COORDINATOR, only_behind_its_kind=only_behind_its_kind)
    await trio.sleep(0.1)
    return outcome


def test_a_commit_is_not_sent_behind_a_slow_heartbeat_and_nothing_overtakes_it(
    in_virtual_time: InVirtualTime, rig: Rig, slow_broker: SlowBroker
) -> None:
    async def scenario() -> None:
        async with rig.running():
            await sent(rig, HeartbeatRequest())
            commit = await sent(rig, OffsetCommitRequest(), only_behind_its_kind=True)
            beat = await sent(rig, HeartbeatRequest())
            turns = rig.turns
            await trio.sleep(4)
            assert rig.turns == turns, "it waits without turning"
            assert slow_broker.taken == [HeartbeatRequest]
            await slow_broker.answer()
            assert slow_broker.taken == [HeartbeatRequest, OffsetCommitRequest, HeartbeatRequest]
            await slow_broker.answer()
            await slow_broker.answer()
            assert (commit.error, beat.error) == (None, None)
            assert commit.at_s < beat.at_s

    in_virtual_time(scenario)


def test_commits_are_sent_behind_each_other(in_virtual_time: InVirtualTime, rig: Rig, slow_broker: SlowBroker) -> None:
    """They come in order. And who commits each record need not wait for each answer."""

    async def scenario() -> None:
        async with rig.running():
            for _ in range(3):
                await sent(rig, OffsetCommitRequest(), only_behind_its_kind=True)
            assert slow_broker.taken == [OffsetCommitRequest] * 3

    in_virtual_time(scenario)


def test_a_commit_that_waits_behind_a_heartbeat_without_an_answer_fails_with_it(
    in_virtual_time: InVirtualTime, rig: Rig, slow_broker: SlowBroker
) -> None:
    """So that it is made again over a new connection, and once."""

    async def scenario() -> None:
        async with rig.running():
            beat = await sent(rig, HeartbeatRequest())
            commit = await sent(rig, OffsetCommitRequest(), only_behind_its_kind=True)
            assert isinstance((await beat.wait()).error, DisconnectError)
            assert isinstance((await commit.wait()).error, DisconnectError)
            assert beat.at_s == pytest.approx(TIMEOUT_MS / 1000, abs=0.5)
            assert commit.at_s == pytest.approx(beat.at_s, abs=0.1)
            assert slow_broker.taken == [HeartbeatRequest]

    in_virtual_time(scenario)


def test_a_commit_on_another_channel_does_not_wait(
    in_virtual_time: InVirtualTime, rig: Rig, slow_broker: SlowBroker
) -> None:
    async def scenario() -> None:
        async with rig.running():
            await sent(rig, HeartbeatRequest())
            rig.send(OffsetCommitRequest(), NODE, Channel.CONTROL, only_behind_its_kind=True)
            await trio.sleep(0.1)
            assert slow_broker.taken == [HeartbeatRequest, OffsetCommitRequest]

    in_virtual_time(scenario)
