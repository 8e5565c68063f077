"""Brokers that close the connection over a version of ApiVersions that they do not know, and others that are down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kwire.model import Node
from kwire.network.api_versions_fallback import NEWEST, PINNED_MS, ApiVersionsFallback
from kwire.network.outages import MAX_ADDRESSES
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.messages.api_versions import ApiVersionsResponse
    from tests.network.conftest import InVirtualTime, MakeRig, MemoryNetwork, MemoryStream, Peer, Rig

BROKER = ("broker", 9092)
NODE = Node(-1, *BROKER)


class TouchyBroker:
    """Closes the connection on ApiVersions above `knows`, and offers it up to `offers`. None of `knows`: it is down,
    and whatever stands in front of it takes connections and closes them."""

    def __init__(self, peer: type[Peer], versions: ApiVersionsResponse) -> None:
        self._peer = peer
        self._versions = versions
        self.knows: int | None = 3
        self.offers = 3
        self.asked: list[int] = []

    async def __call__(self, stream: MemoryStream) -> None:
        peer = self._peer(stream)
        while (received := await peer.next_request()) is not None:
            request, version, header = received
            if not isinstance(request, ApiVersionsRequest):
                await peer.answer(header, version, MetadataResponse())
                continue
            self.asked.append(version)
            if self.knows is None or version > self.knows:
                return
            self._versions.api_keys[self._place].max_version = self.offers
            await peer.answer(header, version, self._versions)

    @property
    def _place(self) -> int:
        return [api.api_key for api in self._versions.api_keys].index(ApiVersionsRequest.api_key)


@pytest.fixture
def rig(network: MemoryNetwork, make_rig: MakeRig) -> Rig:
    return make_rig(network, "broker:9092", connections_max_idle_ms=60_000)


@pytest.fixture
def broker(rig: Rig, peer: type[Peer], offer: Callable[[], ApiVersionsResponse]) -> TouchyBroker:
    touchy = TouchyBroker(peer, offer())
    rig.network.hosts[BROKER] = touchy
    return touchy


async def until_answered(rig: Rig) -> int:
    """How many requests failed before one was answered."""
    failed = 0
    while (await rig.send(MetadataRequest(topics=[])).wait()).error is not None:
        failed += 1
    return failed


async def connect_anew(rig: Rig, broker: TouchyBroker) -> list[int]:
    """The versions that the broker is asked in from an idle connection's end to the next answer."""
    await trio.sleep(61)
    before = len(broker.asked)
    await until_answered(rig)
    return broker.asked[before:]


def test_a_broker_that_hangs_up_on_a_version_is_asked_in_an_older_one_from_then_on(
    in_virtual_time: InVirtualTime, rig: Rig, broker: TouchyBroker
) -> None:
    async def scenario() -> None:
        async with rig.running():
            assert await until_answered(rig) == 1
            assert broker.asked == [NEWEST, 3]
            assert await connect_anew(rig, broker) == [3]
            assert await connect_anew(rig, broker) == [3]

    in_virtual_time(scenario)


def test_its_upgrade_is_seen_by_what_it_offers(in_virtual_time: InVirtualTime, rig: Rig, broker: TouchyBroker) -> None:
    async def scenario() -> None:
        async with rig.running():
            await until_answered(rig)
            broker.knows = broker.offers = NEWEST
            assert await connect_anew(rig, broker) == [3]
            assert await connect_anew(rig, broker) == [NEWEST]
            assert await connect_anew(rig, broker) == [NEWEST]

    in_virtual_time(scenario)


def test_a_broker_that_was_down_is_asked_in_the_newest_version_again(
    in_virtual_time: InVirtualTime, rig: Rig, broker: TouchyBroker
) -> None:
    """While it is down, connections to it end as if it hung up; and it may come back at any of them."""
    broker.knows, broker.offers = None, NEWEST

    async def scenario() -> None:
        async with rig.running():
            for _ in range(5):
                assert (await rig.send().wait()).error is not None
            assert broker.asked == [NEWEST, 3, 0, NEWEST, 3]
            broker.knows = NEWEST
            assert await until_answered(rig) == 0
            assert broker.asked[-1] == 0
            assert await connect_anew(rig, broker) == [NEWEST]

    in_virtual_time(scenario)


def test_dials_of_a_broker_that_always_hangs_up_keep_to_the_back_off(
    in_virtual_time: InVirtualTime, rig: Rig, broker: TouchyBroker
) -> None:
    broker.knows = None

    async def scenario() -> None:
        async with rig.running():
            with trio.move_on_after(60):
                await until_answered(rig)
        assert 60 <= len(broker.asked) <= 70  # a second between two of them, but for the first few

    in_virtual_time(scenario)


def test_a_broker_that_hangs_up_on_what_it_offers_is_tried_once_and_then_left_alone_for_an_hour(
    in_virtual_time: InVirtualTime, rig: Rig, broker: TouchyBroker
) -> None:
    broker.offers = 4

    async def scenario() -> None:
        async with rig.running():
            await until_answered(rig)
            assert await connect_anew(rig, broker) == [4, 3]
            for _ in range(5):
                assert await connect_anew(rig, broker) == [3]

    in_virtual_time(scenario)
    fallback = ApiVersionsFallback()
    fallback.closed_by(NODE, NEWEST)
    fallback.answered(NODE, 3, 4, 0)
    fallback.closed_by(NODE, 4)
    fallback.answered(NODE, 3, 4, 0)
    assert fallback.version_for(NODE, PINNED_MS - 1) == 3
    assert fallback.version_for(NODE, PINNED_MS) == NEWEST


def test_connections_that_were_under_way_together_count_once() -> None:
    fallback = ApiVersionsFallback()
    for _ in range(3):
        fallback.closed_by(NODE, NEWEST)
    assert fallback.version_for(NODE, 0) == 3
    for _ in range(3):
        fallback.answered(NODE, 3, NEWEST, 0)  # of which one is the connection that has been there all along
    assert fallback.version_for(NODE, 0) == NEWEST


def test_what_was_learned_of_one_address_says_nothing_of_another() -> None:
    fallback = ApiVersionsFallback()
    fallback.closed_by(NODE, NEWEST)
    assert fallback.version_for(Node(-1, "broker", 9093), 0) == NEWEST
    assert fallback.version_for(Node(7, "broker", 9092), 0) == 3, "its id is learned after its address"


@pytest.mark.parametrize(("offered", "asked_next"), [(4, 4), (3, 3), (1, 1), (None, 0), (9, 0)])
def test_a_broker_that_answers_error_35_is_asked_on_the_same_connection_in_what_it_offers(
    in_virtual_time: InVirtualTime,
    rig: Rig,
    peer: type[Peer],
    offer: Callable[[], ApiVersionsResponse],
    refusal: Callable[[int | None], ApiVersionsResponse],
    offered: int | None,
    asked_next: int,
) -> None:
    """KIP-511. As in Java: in the newest version it says it has; in 0 if it does not say, or says what cannot be."""
    asked: list[int] = []

    async def broker(stream: MemoryStream) -> None:
        end = peer(stream)
        while (received := await end.next_request()) is not None:
            request, version, header = received
            if not isinstance(request, ApiVersionsRequest):
                await end.answer(header, version, MetadataResponse())
                continue
            asked.append(version)
            first = len(asked) == 1
            await end.answer(header, 0 if first else version, refusal(offered) if first else offer())

    rig.network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            assert await until_answered(rig) == 0
        assert asked == [NEWEST, asked_next]

    in_virtual_time(scenario)


def test_what_is_remembered_of_addresses_is_bounded() -> None:
    """A load balancer may hand out others each time."""
    fallback, nodes = ApiVersionsFallback(), [Node(-1, f"broker-{number}", 9092) for number in range(MAX_ADDRESSES + 1)]
    for node in nodes:
        fallback.closed_by(node, NEWEST)
    assert fallback.version_for(nodes[0], 0.0) == NEWEST
    assert {fallback.version_for(node, 0.0) for node in nodes[1:]} == {3}
