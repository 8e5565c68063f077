"""Large answers beside a thread that computes: the switch interval of the interpreter while they come in."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.model import Node
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.switch_interval import SHORT_INTERVAL_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.messages.api_versions import ApiVersionsResponse
    from tests.network.conftest import InVirtualTime, MakeRig, MemoryNetwork, MemoryStream, Peer, Rig

BROKER = ("broker", 9092)
NODE = Node(1, *BROKER)
SHORT = pytest.approx(SHORT_INTERVAL_S)
LARGE = MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number:0100}") for number in range(1_000)])


class SlowBroker:
    """Answers Metadata with a large answer at once, and a heartbeat when it is told to, or hangs up then."""

    def __init__(self, peer: type[Peer], versions: ApiVersionsResponse) -> None:
        self.goes_on = trio.Event()
        self.hangs_up = False
        self._peer = peer
        self._versions = versions

    async def __call__(self, stream: MemoryStream) -> None:
        peer = self._peer(stream)
        while (received := await peer.next_request()) is not None:
            request, version, header = received
            if isinstance(request, HeartbeatRequest):
                await self.goes_on.wait()
                if self.hangs_up:
                    return
                await peer.answer(header, version, HeartbeatResponse())
            else:
                await peer.answer(header, version, LARGE if isinstance(request, MetadataRequest) else self._versions)


@pytest.fixture
def broker(network: MemoryNetwork, peer: type[Peer], offer: Callable[[], ApiVersionsResponse]) -> SlowBroker:
    broker = network.hosts[BROKER] = SlowBroker(peer, offer())
    return broker


@pytest.fixture
def rig(network: MemoryNetwork, make_rig: MakeRig) -> Rig:
    return make_rig(network, "broker:9092")


@pytest.mark.parametrize("hangs_up", [False, True])
def test_it_is_short_from_a_large_answer_to_the_next_small_one_or_the_end_of_the_connection(
    hangs_up: bool, in_virtual_time: InVirtualTime, rig: Rig, broker: SlowBroker
) -> None:
    before_s = sys.getswitchinterval()

    async def scenario() -> None:
        async with rig.running():
            large, small = rig.send(node=NODE), rig.send(HeartbeatRequest(), node=NODE)
            assert isinstance((await large.wait()).answer, MetadataResponse)
            assert sys.getswitchinterval() == SHORT
            broker.hangs_up = hangs_up
            broker.goes_on.set()
            assert ((await small.wait()).answer is None) == hangs_up
            assert sys.getswitchinterval() == before_s

    in_virtual_time(scenario)


def test_it_is_restored_by_a_large_answer_when_nothing_more_is_asked_for(
    in_virtual_time: InVirtualTime, rig: Rig, broker: SlowBroker
) -> None:
    before_s = sys.getswitchinterval()

    async def scenario() -> None:
        async with rig.running():
            assert isinstance((await rig.send(node=NODE).wait()).answer, MetadataResponse)
            assert sys.getswitchinterval() == before_s

    in_virtual_time(scenario)
