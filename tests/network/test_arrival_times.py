"""How long an answer takes to come in, whatever it took the broker to begin: what tells a slow line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.messages.api_versions import ApiVersionsResponse
    from tests.network.conftest import InVirtualTime, MakeFrame, MakeRig, MemoryNetwork, MemoryStream, Peer

BROKER = ("broker", 9092)
BEGINS_AFTER_S, PAUSE_S = 3.0, 2.0
SMALL = MetadataResponse()
LARGE = MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number:0100}") for number in range(1_000)])


class HesitantBroker:
    """Waits for so many requests, then answers them in one stretch of bytes, written in so many pieces."""

    def __init__(
        self,
        peer: type[Peer],
        versions: ApiVersionsResponse,
        make_frame: MakeFrame,
        *,
        pieces: int,
        answers: list[MetadataResponse],
    ) -> None:
        self._peer = peer
        self._versions = versions
        self._make_frame = make_frame
        self._pieces = pieces
        self._answers = list(answers)

    async def __call__(self, stream: MemoryStream) -> None:
        peer = self._peer(stream)
        frames = b""
        while (received := await peer.next_request()) is not None:
            request, version, header = received
            if not isinstance(request, MetadataRequest):
                await peer.answer(header, version, self._versions)
                continue
            frames += self._make_frame(header.correlation_id, version, self._answers.pop(0))
            if not self._answers:
                await trio.sleep(BEGINS_AFTER_S)
                await self._write(stream, frames)

    async def _write(self, stream: MemoryStream, data: bytes) -> None:
        each = -(-len(data) // self._pieces)
        for start in range(0, len(data), each):
            if start:
                await trio.sleep(PAUSE_S)
            await stream.send_all(data[start : start + each])


@pytest.mark.parametrize(
    ("pieces", "answers", "took_s"),
    [
        pytest.param(1, [SMALL], [0.0], id="small-at-once"),
        pytest.param(1, [LARGE], [0.0], id="large-at-once"),
        pytest.param(4, [LARGE], [6.0], id="large-in-four"),
        pytest.param(2, [SMALL], [2.0], id="small-in-two"),
        pytest.param(1, [SMALL, SMALL], [0.0, 0.0], id="two-at-once"),
        # The first half ends in the large one: the other begins in the second half, and ends there.
        pytest.param(2, [LARGE, SMALL], [2.0, 0.0], id="a-small-one-behind"),
        # The small one is complete with the first piece, in which the large one begins.
        pytest.param(4, [SMALL, LARGE], [0.0, 6.0], id="a-small-one-in-front"),
    ],
)
def test_an_answer_arrives_from_its_first_byte_to_its_last(
    pieces: int,
    answers: list[MetadataResponse],
    took_s: list[float],
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    peer: type[Peer],
    offer: Callable[[], ApiVersionsResponse],
    make_frame: MakeFrame,
) -> None:
    rig = make_rig(network, "broker:9092")
    network.hosts[BROKER] = HesitantBroker(peer, offer(), make_frame, pieces=pieces, answers=answers)

    async def scenario() -> None:
        async with rig.running():
            outcomes = [rig.send() for _ in answers]
            for outcome, expected_s in zip(outcomes, took_s, strict=True):
                await outcome.wait()
                assert outcome.error is None
                assert outcome.arrival_ms == pytest.approx(1_000 * expected_s, abs=100)

    in_virtual_time(scenario)
