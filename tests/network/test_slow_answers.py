"""A large answer over a slow line: how long it takes to come in is told, and it is waited for so long, no longer."""

from __future__ import annotations

import math
from itertools import repeat
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.errors import DisconnectError
from kwire.network.connection import MAX_TIMEOUTS
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kwire.protocol.messages.api_versions import ApiVersionsResponse
    from tests.network.conftest import InVirtualTime, MakeFrame, MakeRig, MemoryNetwork, MemoryStream, Peer, Rig

BROKER = ("broker", 9092)
TIMEOUT_S = 5
LARGE = MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number:0100}") for number in range(1_000)])
SMALL = MetadataResponse(topics=LARGE.topics[:100])
TINY = MetadataResponse()


class SlowBroker:
    """Waits for a request for each of its answers, then writes them in one stretch of bytes, in pieces.

    Attributes:
        shares: How much of the bytes each piece has.
        begins_after_s, pause_s: In front of the first piece, and between two.
    """

    def __init__(self, peer: type[Peer], versions: ApiVersionsResponse, make_frame: MakeFrame) -> None:
        self.answers = [LARGE]
        self.shares: Iterable[float] = ()
        self.begins_after_s, self.pause_s = 0.0, 1.0
        self._peer = peer
        self._versions = versions
        self._make_frame = make_frame

    async def __call__(self, stream: MemoryStream) -> None:
        peer = self._peer(stream)
        left, frames = list(self.answers), b""
        while (received := await peer.next_request()) is not None:
            request, version, header = received
            if not isinstance(request, MetadataRequest):
                await peer.answer(header, version, self._versions)
                continue
            frames += self._make_frame(header.correlation_id, version, left.pop(0))
            if not left:
                await trio.sleep(self.begins_after_s)
                await self._write(stream, frames)

    async def _write(self, stream: MemoryStream, data: bytes) -> None:
        sent = 0
        for share in self.shares:
            if sent:
                await trio.sleep(self.pause_s)
            end = sent + max(1, math.ceil(share * len(data)))
            await stream.send_all(data[sent:end])
            sent = end


@pytest.fixture
def broker(
    network: MemoryNetwork, peer: type[Peer], offer: Callable[[], ApiVersionsResponse], make_frame: MakeFrame
) -> SlowBroker:
    broker = network.hosts[BROKER] = SlowBroker(peer, offer(), make_frame)
    return broker


@pytest.fixture
def rig(network: MemoryNetwork, make_rig: MakeRig) -> Rig:
    return make_rig(network, "broker:9092", request_timeout_ms=TIMEOUT_S * 1_000)


def ends_after_s(rig: Rig, in_virtual_time: InVirtualTime) -> tuple[float, bool]:
    """When a request has ended, and whether it was answered."""

    async def scenario() -> tuple[float, bool]:
        async with rig.running():
            outcome = await rig.send().wait()
            assert outcome.answer is not None or isinstance(outcome.error, DisconnectError)
            return outcome.at_s, outcome.answer is not None

    return in_virtual_time(scenario)


@pytest.mark.parametrize("pieces", [3, 12, 40])
def test_a_large_answer_that_comes_in_is_waited_for(
    in_virtual_time: InVirtualTime, rig: Rig, broker: SlowBroker, pieces: int
) -> None:
    """Given up, it would be asked for again, and no sooner be there: a batch of a megabyte at 25 KB/s."""
    broker.shares = repeat(1 / pieces, pieces)
    at_s, is_answered = ends_after_s(rig, in_virtual_time)
    assert is_answered
    assert at_s == pytest.approx(pieces - 1, abs=0.2)


def test_one_that_would_take_too_long_is_given_up_in_time(
    in_virtual_time: InVirtualTime, rig: Rig, broker: SlowBroker
) -> None:
    """Bytes that trickle come without end."""
    broker.shares = repeat(1 / (1.2 * TIMEOUT_S * MAX_TIMEOUTS), 1_000)
    at_s, is_answered = ends_after_s(rig, in_virtual_time)
    assert not is_answered
    assert at_s == pytest.approx(TIMEOUT_S, abs=0.2)


def test_one_that_stops_coming_is_given_up_within_the_time_of_two_requests(
    in_virtual_time: InVirtualTime, rig: Rig, broker: SlowBroker
) -> None:
    broker.shares = repeat(0.1, 6)
    at_s, is_answered = ends_after_s(rig, in_virtual_time)
    assert not is_answered
    assert at_s <= 5 + 2 * TIMEOUT_S


def test_a_small_one_has_its_time_and_no_more(in_virtual_time: InVirtualTime, rig: Rig, broker: SlowBroker) -> None:
    broker.answers = [SMALL]
    broker.shares = repeat(0.1, 10)
    at_s, is_answered = ends_after_s(rig, in_virtual_time)
    assert not is_answered
    assert at_s == pytest.approx(TIMEOUT_S, abs=0.2)


@pytest.mark.parametrize(
    ("pieces", "answers", "took_s"),
    [
        pytest.param(1, [TINY], [0.0], id="small-at-once"),
        pytest.param(1, [LARGE], [0.0], id="large-at-once"),
        pytest.param(4, [LARGE], [6.0], id="large-in-four"),
        pytest.param(2, [TINY], [2.0], id="small-in-two"),
        pytest.param(1, [TINY, TINY], [0.0, 0.0], id="two-at-once"),
        # The first half ends in the large one: the other begins in the second half, and ends there.
        pytest.param(2, [LARGE, TINY], [2.0, 0.0], id="a-small-one-behind"),
        # The small one is complete with the first piece, in which the large one begins.
        pytest.param(4, [TINY, LARGE], [0.0, 6.0], id="a-small-one-in-front"),
    ],
)
def test_an_answer_arrives_from_its_first_byte_to_its_last(
    pieces: int,
    answers: list[MetadataResponse],
    took_s: list[float],
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    broker: SlowBroker,
) -> None:
    """However long the broker takes to begin."""
    rig = make_rig(network, "broker:9092")
    broker.answers, broker.shares = answers, repeat(1 / pieces, pieces)
    broker.begins_after_s, broker.pause_s = 3.0, 2.0

    async def scenario() -> None:
        async with rig.running():
            outcomes = [rig.send() for _ in answers]
            for outcome, expected_s in zip(outcomes, took_s, strict=True):
                await outcome.wait()
                assert outcome.error is None
                assert outcome.arrival_ms == pytest.approx(1_000 * expected_s, abs=100)

    in_virtual_time(scenario)
