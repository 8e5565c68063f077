"""The steps between a connected socket and the first request: where encryption and authentication go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.errors import BootstrapError, ProtocolError
from kwire.network.handshake import HANDSHAKE, Handshake, HandshakeStep
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from kwire.protocol.schema import Message, Request, Response
    from tests.network.conftest import InVirtualTime, MakeRig, MemoryNetwork, ScriptedBroker

BROKER = ("broker", 9092)
VOUCHER = "a request that stands for one of authentication"


def answer(request: Request[Message], version: int) -> Response | None:
    if isinstance(request, HeartbeatRequest):
        return HeartbeatResponse(error_code=0) if request.group_id == VOUCHER else None
    return MetadataResponse()


async def authenticate(handshake: Handshake) -> None:
    await handshake.ask(HeartbeatRequest(group_id=VOUCHER), handshake.versions.pick(HeartbeatRequest))


async def is_refused(handshake: Handshake) -> None:
    raise ProtocolError("these credentials are unknown")


async def waits_in_vain(handshake: Handshake) -> None:
    await handshake.ask(HeartbeatRequest(group_id="another"), handshake.versions.pick(HeartbeatRequest))


@pytest.fixture
def kinds_asked(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> tuple[list[type[Request[Message]]], Exception | None]:
    """What a broker is asked when Metadata is wanted and there is another step behind those there are."""
    step: HandshakeStep = request.param
    monkeypatch.setattr("kwire.network.handshake.HANDSHAKE", {**HANDSHAKE, "authentication": step})
    rig = make_rig(network, "broker:9092")
    broker = scripted_broker(answer)
    network.hosts[BROKER] = broker

    async def scenario() -> Exception | None:
        async with rig.running():
            return (await rig.send(timeout_ms=90_000).wait()).error

    error = in_virtual_time(scenario)
    return [type(asked) for _, asked, _ in broker.asked], error


@pytest.mark.parametrize("kinds_asked", [authenticate], indirect=True)
def test_a_step_asks_and_gets_its_answer_before_any_request_goes_out(
    kinds_asked: tuple[list[type[Request[Message]]], Exception | None],
) -> None:
    assert kinds_asked == ([ApiVersionsRequest, HeartbeatRequest, MetadataRequest], None)


@pytest.mark.parametrize(
    ("kinds_asked", "reason"),
    [
        (is_refused, "broker broker:9092: these credentials are unknown"),
        (waits_in_vain, "broker broker:9092: no answer to Heartbeat in time"),
    ],
    indirect=["kinds_asked"],
)
def test_a_step_that_fails_ends_the_connection_and_is_named(
    kinds_asked: tuple[list[type[Request[Message]]], Exception | None], reason: str
) -> None:
    asked, error = kinds_asked
    assert MetadataRequest not in asked
    assert isinstance(error, BootstrapError)
    assert reason in str(error)
