"""A large answer over a slow line: it is waited for while it comes in, and no longer."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.errors import DisconnectError
from kwire.network.connection import MOST_TIMEOUTS
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kwire.protocol.messages.api_versions import ApiVersionsResponse
    from tests.network.conftest import InVirtualTime, MakeFrame, MakeRig, MemoryNetwork, MemoryStream, Peer, Rig

BROKER = ("broker", 9092)
TIMEOUT_S = 5
LARGE = MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number:0100}") for number in range(1_000)])
SMALL = MetadataResponse(topics=LARGE.topics[:100])


class SlowBroker:
    """Answers Metadata in pieces: so much of the frame (shares), one each second."""

    def __init__(self, peer: type[Peer], versions: ApiVersionsResponse, make_frame: MakeFrame) -> None:
        self.answer = LARGE
        self.shares: Iterable[float] = ()
        self._peer = peer
        self._versions = versions
        self._make_frame = make_frame

    async def __call__(self, stream: MemoryStream) -> None:
        peer = self._peer(stream)
        while (received := await peer.next_request()) is not None:
            request, version, header = received
            if isinstance(request, MetadataRequest):
                await self._write(stream, self._make_frame(header.correlation_id, version, self.answer))
            else:
                await peer.answer(header, version, self._versions)

    async def _write(self, stream: MemoryStream, frame: bytes) -> None:
        sent = 0
        for share in self.shares:
            end = sent + max(1, round(share * len(frame)))
            await stream.send_all(frame[sent:end])
            sent = end
            await trio.sleep(1)
        await trio.sleep_forever()


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
    broker.shares = repeat(1 / pieces + 1e-6, pieces)
    at_s, is_answered = ends_after_s(rig, in_virtual_time)
    assert is_answered
    assert at_s == pytest.approx(pieces - 1, abs=0.2)


def test_one_that_would_take_too_long_is_given_up_in_time(
    in_virtual_time: InVirtualTime, rig: Rig, broker: SlowBroker
) -> None:
    """Bytes that trickle come without end."""
    broker.shares = repeat(1 / (1.2 * TIMEOUT_S * MOST_TIMEOUTS), 1_000)
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
    broker.answer = SMALL
    broker.shares = repeat(0.1, 10)
    at_s, is_answered = ends_after_s(rig, in_virtual_time)
    assert not is_answered
    assert at_s == pytest.approx(TIMEOUT_S, abs=0.2)
