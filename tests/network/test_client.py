"""NetworkClient and Connection on an in-memory network: every wait here is virtual, and takes no time."""

from __future__ import annotations

import logging
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.clock import NEVER_MS, monotonic_ms
from kwire.errors import (
    BootstrapError,
    DisconnectError,
    KafkaTimeoutError,
    ProtocolError,
    UnsupportedVersionError,
)
from kwire.managers.unsent import Channel
from kwire.model import Node
from kwire.network.connection import MAX_THROTTLED_MS
from kwire.network.outages import MAX_ADDRESSES
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.network_clients import is_busy

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.schema import Message, Request, Response
    from tests.network.conftest import (
        Answer,
        InVirtualTime,
        MakeFrame,
        MakeRig,
        MemoryNetwork,
        MemoryStream,
        Peer,
        Received,
        Rig,
        ScriptedBroker,
    )

BROKER = ("broker", 9092)
NODE = Node(1, *BROKER)


@pytest.fixture
def rig(network: MemoryNetwork, make_rig: MakeRig) -> Rig:
    """Knows one bootstrap server, `broker:9092`."""
    return make_rig(network, "broker:9092")


def nothing(request: Request[Message], version: int) -> None:
    """Never answers."""


# --- versions ----------------------------------------------------------------------------------------------------


def test_a_request_goes_out_in_the_highest_version_both_know(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker], says_metadata: Answer
) -> None:
    offer = [(ApiVersionsRequest.api_key, 0, 4), (MetadataRequest.api_key, 0, 9)]
    broker = scripted_broker(says_metadata, versions_of(offer))
    rig.network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            assert isinstance((await rig.send().wait()).answer, MetadataResponse)
            refused = await rig.send(FindCoordinatorRequest(key="group")).wait()
            assert isinstance(refused.error, UnsupportedVersionError)
            assert isinstance((await rig.send().wait()).answer, MetadataResponse), "the connection is still good"

    in_virtual_time(scenario)
    assert [(type(request), version) for _, request, version in broker.asked] == [
        (ApiVersionsRequest, ApiVersionsRequest.max_version),
        (MetadataRequest, 9),
        (MetadataRequest, 9),
    ]


def versions_of(offer: list[tuple[int, int, int]]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in offer]
    )


def test_an_old_broker_is_asked_again_in_version_0(
    in_virtual_time: InVirtualTime, rig: Rig, network: MemoryNetwork, old_broker: list[int]
) -> None:
    """KIP-511: to a version it does not know it answers error 35, in version 0."""

    async def scenario() -> None:
        async with rig.running():
            assert isinstance((await rig.send().wait()).answer, MetadataResponse)

    in_virtual_time(scenario)
    assert old_broker == [ApiVersionsRequest.max_version, 0]


@pytest.fixture
def old_broker(network: MemoryNetwork, peer: type[Peer]) -> list[int]:
    """Speaks ApiVersions 0 alone; the versions it was asked in."""
    asked: list[int] = []

    async def behave(stream: MemoryStream) -> None:
        one = peer(stream)
        while (received := await one.next_request()) is not None:
            request, version, header = received
            response: Response = MetadataResponse()
            if isinstance(request, ApiVersionsRequest):
                asked.append(version)
                response = versions_of([(ApiVersionsRequest.api_key, 0, 0), (MetadataRequest.api_key, 0, 4)])
                response.error_code = ErrorCode.UNSUPPORTED_VERSION.value if version else 0
                version = 0
            await one.answer(header, version, response)

    network.hosts[BROKER] = behave
    return asked


def test_a_broker_that_refuses_the_handshake_is_named(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker]
) -> None:
    refusal = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST.value)
    rig.network.hosts[BROKER] = scripted_broker(nothing, refusal)

    async def scenario() -> None:
        async with rig.running():
            outcome = await rig.send().wait()
            assert isinstance(outcome.error, BootstrapError)
            assert "broker:9092 refuses ApiVersions v" in str(outcome.error)
            assert "INVALID_REQUEST" in str(outcome.error)

    in_virtual_time(scenario)


# --- silence -----------------------------------------------------------------------------------------------------


def test_a_request_without_an_answer_ends_the_connection_and_all_that_is_in_flight(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    """That is what half-open looks like: the socket is there, the broker is not. The next request dials anew."""
    rig = make_rig(network, "broker:9092", request_timeout_ms=10_000)
    broker = scripted_broker(nothing)
    network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            first, second = rig.send(), rig.send()
            await trio.sleep(4)
            third = rig.send()
            for outcome in (first, second, third):
                await outcome.wait()
                assert isinstance(outcome.error, DisconnectError)
                assert "no answer in time; connection given up" in str(outcome.error)
                assert outcome.at_s == pytest.approx(trio.current_time(), abs=0.1)
            assert first.at_s == pytest.approx(10, abs=0.1)
            broker._answer = lambda request, version: MetadataResponse()
            assert (await rig.send().wait()).error is None
            assert (first.calls, second.calls, third.calls) == (1, 1, 1)

    in_virtual_time(scenario)
    assert broker.connections == 2


def test_a_request_may_have_a_longer_time_of_its_own(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    """A JoinGroup waits for the other members, for minutes."""
    rig = make_rig(network, "broker:9092", request_timeout_ms=10_000)
    network.hosts[BROKER] = scripted_broker(nothing)

    async def scenario() -> None:
        async with rig.running():
            assert (await rig.send(timeout_ms=300_000).wait()).at_s == pytest.approx(300, abs=0.1)

    in_virtual_time(scenario)


def test_of_several_requests_the_one_that_expires_first_ends_the_connection(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    """Whichever was sent first."""
    rig = make_rig(network, "broker:9092")
    network.hosts[BROKER] = scripted_broker(nothing)

    async def scenario() -> None:
        async with rig.running():
            patient, impatient, last = (
                rig.send(timeout_ms=60_000),
                rig.send(timeout_ms=20_000),
                rig.send(timeout_ms=30_000),
            )
            for outcome in (patient, impatient, last):
                assert isinstance((await outcome.wait()).error, DisconnectError)
                assert outcome.at_s == pytest.approx(20, abs=0.1)

    in_virtual_time(scenario)


def test_an_answer_leaves_the_others_their_time(
    in_virtual_time: InVirtualTime, rig: Rig, peer: type[Peer], offer: Callable[[], ApiVersionsResponse]
) -> None:
    """Of each, whether it would have expired before those behind it, or after."""

    async def slow_broker(stream: MemoryStream) -> None:
        one = peer(stream)
        for after_s, answer in ((0, offer()), (5, MetadataResponse()), (10, MetadataResponse())):
            received = await one.next_request()
            assert received is not None
            _request, version, header = received
            await trio.sleep(after_s)
            await one.answer(header, version, answer)
        await trio.sleep_forever()

    rig.network.hosts[BROKER] = slow_broker

    async def scenario() -> None:
        async with rig.running():
            sent = [rig.send(timeout_ms=timeout_ms) for timeout_ms in (60_000, 20_000, 30_000)]
            assert [(await each.wait()).at_s for each in sent] == pytest.approx([5, 15, 30], abs=0.1)
            assert [each.error is None for each in sent] == [True, True, False]

    in_virtual_time(scenario)


def test_dialling_into_a_black_hole_is_given_up_and_takes_longer_each_time(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig
) -> None:
    rig = make_rig(
        network,
        "broker:9092",
        socket_connection_setup_timeout_ms=1_000,
        socket_connection_setup_timeout_max_ms=4_000,
        reconnect_backoff_ms=0,
        reconnect_backoff_max_ms=0,
    )
    network.black_holes.add(BROKER)

    async def scenario() -> None:
        async with rig.running():
            outcome = await rig.send(node=NODE).wait()
            assert isinstance(outcome.error, DisconnectError)
            assert "broker:9092 (id 1): no connection in time" in str(outcome.error)
            for _ in range(4):
                await rig.send(node=NODE).wait()

    in_virtual_time(scenario)
    dials = network.dials_of("broker")
    gaps = [later - earlier for earlier, later in pairwise(dials)]
    assert gaps == pytest.approx([1, 2, 4, 4], abs=0.1)


def test_a_request_that_cannot_be_sent_times_out_with_the_reason(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig
) -> None:
    rig = make_rig(network, "broker:9092", reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)

    async def scenario() -> None:
        async with rig.running():
            assert isinstance((await rig.send().wait()).error, BootstrapError)
            outcome = await rig.send(timeout_ms=1_000).wait()
            assert isinstance(outcome.error, KafkaTimeoutError)
            assert str(outcome.error).startswith("MetadataRequest could not be sent to any broker in time (broker")
            assert "nobody listens at broker" in str(outcome.error)

    in_virtual_time(scenario)


# --- dialling ----------------------------------------------------------------------------------------------------


def test_a_broker_that_refuses_is_dialled_less_and_less_often(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig
) -> None:
    rig = make_rig(network, "broker:9092", reconnect_backoff_ms=100, reconnect_backoff_max_ms=1_000)

    async def scenario() -> None:
        async with rig.running():
            for _ in range(7):
                assert isinstance((await rig.send().wait()).error, BootstrapError)

    in_virtual_time(scenario)
    dials = network.dials_of("broker")
    gaps = [later - earlier for earlier, later in pairwise(dials)]
    assert gaps == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1], abs=0.01)


def test_a_success_forgets_the_failures_before(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
) -> None:
    rig = make_rig(network, "broker:9092", reconnect_backoff_ms=1_000, reconnect_backoff_max_ms=60_000)

    async def scenario() -> None:
        async with rig.running():
            for _ in range(4):
                await rig.send().wait()
            network.hosts[BROKER] = scripted_broker(says_metadata)
            assert (await rig.send().wait()).error is None
            assert rig.client.ever_connected
            assert rig.client.bootstrap_error is None
            network.hosts.clear()
            rig.client.close()
            await trio.sleep(0.01)
            before_s = trio.current_time()
            await rig.send().wait()  # the pause after being closed, 1 s, then refused
            await rig.send().wait()  # 2 s for the second failure in a row
            assert trio.current_time() - before_s == pytest.approx(3, abs=0.1)

    in_virtual_time(scenario)


def test_when_nobody_can_be_reached_each_reason_is_told_once(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig
) -> None:
    rig = make_rig(network, "one:1", "two:2", "three:3", socket_connection_setup_timeout_ms=1_000)
    network.black_holes.add(("two", 2))

    async def scenario() -> None:
        async with rig.running():
            outcome = rig.send()
            await outcome.wait()
            assert outcome.error is rig.client.bootstrap_error
            assert str(outcome.error) == (
                "no broker can be reached: broker one:1: nobody listens at one; "
                "broker two:2: no connection in time; broker three:3: nobody listens at three"
            )

    in_virtual_time(scenario)


def test_a_dead_bootstrap_server_does_not_hide_a_live_one(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
) -> None:
    rig = make_rig(network, "one:1", "two:2")
    network.hosts["two", 2] = scripted_broker(says_metadata)

    async def scenario() -> None:
        async with rig.running():
            outcome = await rig.send().wait()
            assert outcome.error is None
            assert outcome.at_s < 1

    in_virtual_time(scenario)


def test_when_all_known_brokers_are_gone_the_bootstrap_servers_are_asked_again(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    rig: Rig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
) -> None:
    """KIP-899: the whole cluster may have moved."""
    network.hosts[BROKER] = scripted_broker(says_metadata)
    rig.nodes = {7: Node(7, "gone", 1), 8: Node(8, "gone-too", 1)}

    async def scenario() -> None:
        async with rig.running():
            while (await rig.send().wait()).error is not None:
                assert trio.current_time() < 10

    in_virtual_time(scenario)
    assert network.dials_of("gone")
    assert network.dials_of("gone-too")


def test_channels_do_not_wait_for_each_other(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker]
) -> None:
    """A long poll on one connection holds up no heartbeat on the other."""

    def answer_heartbeats(request: Request[Message], version: int) -> HeartbeatResponse | None:
        return HeartbeatResponse() if isinstance(request, HeartbeatRequest) else None

    broker = scripted_broker(answer_heartbeats)
    rig.network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            waits = rig.send(node=NODE, channel=Channel.FETCH)
            beat = await rig.send(HeartbeatRequest(), node=NODE, channel=Channel.COORDINATOR).wait()
            assert beat.error is None
            assert beat.at_s < 1
            assert waits.calls == 0

    in_virtual_time(scenario)
    assert broker.connections == 2


def test_a_broker_that_allows_a_client_one_connection_is_no_outage(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kafka closes each one above max.connections.per.ip as soon as it is made. The other one has answered just now."""
    caplog.set_level(logging.INFO, "kwire.network")
    rig = make_rig(network, "broker:9092", request_timeout_ms=5_000)
    broker = scripted_broker(lambda request, version: MetadataResponse())

    async def serve_one(stream: MemoryStream) -> None:
        if not broker.connections:
            await broker(stream)

    rig.network.hosts[BROKER] = serve_one

    async def scenario() -> None:
        async with rig.running():
            assert (await rig.send(node=NODE).wait()).error is None
            assert isinstance((await rig.send(node=NODE, channel=Channel.SECOND_FETCH).wait()).error, DisconnectError)
            assert rig.client.broker_failures(trio.current_time() * 1000) == []
            assert (await rig.send(node=NODE).wait()).error is None

    in_virtual_time(scenario)
    assert [record.levelno for record in caplog.records] == [logging.INFO]


def test_a_broker_that_throttles_is_sent_nothing_more_until_the_time_is_over(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    """KIP-219: it would not be read, so its time would run out at the broker, and a good connection be given up."""
    rig = make_rig(network, "broker:9092", request_timeout_ms=10_000)
    throttles_ms = [40_000, 0]
    broker = scripted_broker(lambda request, version: MetadataResponse(throttle_time_ms=throttles_ms.pop(0)))
    network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            assert (await rig.send().wait()).error is None
            given_up = await rig.send().wait()
            assert isinstance(given_up.error, KafkaTimeoutError)
            assert given_up.at_s == pytest.approx(10, abs=0.1)
            await trio.sleep(25)
            patient = await rig.send().wait()
            assert patient.error is None
            assert patient.at_s == pytest.approx(40, abs=0.1)

    in_virtual_time(scenario)
    assert broker.times_of(MetadataRequest) == [pytest.approx(0, abs=0.1), pytest.approx(40, abs=0.1)]
    assert broker.connections == 1


def test_nobody_is_throttled_for_days(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    rig = make_rig(network, "broker:9092", request_timeout_ms=100_000)
    throttles_ms = [2**31 - 1, -(2**31), 0]
    broker = scripted_broker(lambda request, version: MetadataResponse(throttle_time_ms=throttles_ms.pop(0)))
    network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            for _ in range(3):
                assert (await rig.send().wait()).error is None

    in_virtual_time(scenario)
    expected_s = [0, MAX_THROTTLED_MS / 1000, MAX_THROTTLED_MS / 1000]
    assert broker.times_of(MetadataRequest) == [pytest.approx(at_s, abs=0.1) for at_s in expected_s]


def test_what_any_broker_can_answer_goes_to_one_that_does_not_throttle(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    rig = make_rig(network, "broker:9092", "other:9092")
    throttling = scripted_broker(lambda request, version: MetadataResponse(throttle_time_ms=5_000))
    other = scripted_broker(lambda request, version: MetadataResponse())
    network.hosts.update({BROKER: throttling, ("other", 9092): other})
    rig.nodes = {1: NODE, 2: Node(2, "other", 9092)}

    async def scenario() -> None:
        async with rig.running():
            await rig.send(node=rig.nodes[2]).wait()
            await rig.send(node=NODE).wait()
            for _ in range(3):
                assert (await rig.send().wait()).at_s < 1

    in_virtual_time(scenario)
    assert len(throttling.times_of(MetadataRequest)) == 1
    assert len(other.times_of(MetadataRequest)) == 4


def test_what_any_broker_can_answer_goes_over_a_new_connection_if_all_others_are_throttled(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    """It waited for the one connection there was, up to a minute, beside brokers that had nothing to do."""
    rig = make_rig(network, "broker:9092", request_timeout_ms=100_000)
    brokers = [scripted_broker(lambda request, version: MetadataResponse(throttle_time_ms=40_000)) for _ in range(3)]
    network.hosts.update({(f"broker-{number}", 9092): broker for number, broker in enumerate(brokers)})
    rig.nodes = {number: Node(number, f"broker-{number}", 9092) for number in range(3)}

    async def scenario() -> None:
        async with rig.running():
            await rig.send(node=rig.nodes[0]).wait()
            for _ in range(2):
                assert (await rig.send().wait()).at_s < 1
            late = [rig.send() for _ in range(10)]  # nobody is left
            assert [(await each.wait()).at_s for each in late[:3]] == [pytest.approx(40, abs=0.5)] * 3

    in_virtual_time(scenario)
    assert [broker.connections for broker in brokers] == [1, 1, 1]


def test_brokers_that_are_gone_are_dialled_no_more_often_beside_one_that_throttles(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    rig = make_rig(
        network,
        "broker:9092",
        request_timeout_ms=100_000,
        reconnect_backoff_ms=1_000,
        reconnect_backoff_max_ms=20_000,
    )
    throttles_ms = [40_000, 0]
    broker = scripted_broker(lambda request, version: MetadataResponse(throttle_time_ms=throttles_ms.pop(0)))
    network.hosts[BROKER] = broker
    rig.nodes = {1: NODE, 2: Node(2, "gone", 1), 3: Node(3, "gone-too", 1)}

    async def scenario() -> None:
        async with rig.running():
            await rig.send(node=NODE).wait()
            assert (await rig.send().wait()).at_s == pytest.approx(40, abs=0.1)

    in_virtual_time(scenario)
    assert broker.connections == 1
    for host in ("gone", "gone-too"):
        assert 3 <= len(network.dials_of(host)) <= 8


def test_a_dial_that_leads_nowhere_does_not_outlast_the_throttling_of_another_broker(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    rig = make_rig(network, "broker:9092", socket_connection_setup_timeout_ms=30_000)
    throttles_ms = [7_300, 0]
    network.hosts[BROKER] = scripted_broker(
        lambda request, version: MetadataResponse(throttle_time_ms=throttles_ms.pop(0))
    )
    network.black_holes.add(("hole", 1))
    rig.nodes = {1: NODE, 2: Node(2, "hole", 1)}

    async def scenario() -> None:
        async with rig.running():
            await rig.send(node=NODE).wait()
            assert (await rig.send().wait()).at_s == pytest.approx(7.3, abs=0.1)

    in_virtual_time(scenario)
    assert len(network.dials_of("hole")) == 1


def test_a_broker_that_moves_is_followed(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    rig: Rig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
) -> None:
    network.hosts[BROKER] = scripted_broker(nothing)
    network.hosts["elsewhere", 1] = scripted_broker(says_metadata)

    async def scenario() -> None:
        async with rig.running():
            stays = rig.send(node=NODE)
            await trio.sleep(1)
            goes = await rig.send(node=Node(NODE.id, "elsewhere", 1)).wait()
            assert goes.error is None
            assert isinstance((await stays.wait()).error, DisconnectError)
            assert "has moved to elsewhere:1" in str(stays.error)

    in_virtual_time(scenario)


def test_an_idle_connection_is_closed_and_dialled_again_when_needed(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
) -> None:
    rig = make_rig(network, "broker:9092", connections_max_idle_ms=60_000)
    broker = scripted_broker(says_metadata)
    network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            await rig.send().wait()
            await trio.sleep(59)
            await rig.send().wait()
            assert broker.connections == 1
            await trio.sleep(61)
            assert rig.client.poll(trio.current_time() * 1000) == NEVER_MS, "there is nothing left to watch"
            await rig.send().wait()
            assert broker.connections == 2

    in_virtual_time(scenario)


@pytest.mark.parametrize("never", [-1, 0])
def test_a_connection_may_idle_for_ever(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
    never: int,
) -> None:
    """librdkafka's default, 0, closed each connection before a request could go out."""
    rig = make_rig(network, "broker:9092", connections_max_idle_ms=never)
    broker = scripted_broker(says_metadata)
    network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            await rig.send().wait()
            await trio.sleep(3_000)
            await rig.send().wait()
            assert broker.connections == 1

    in_virtual_time(scenario)


def test_a_connection_may_idle_for_less_than_a_request_may_take(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
) -> None:
    """The client looks at its connections when the first of them may have to be given up; an answer brings that
    nearer then."""
    rig = make_rig(network, "broker:9092", connections_max_idle_ms=5_000, request_timeout_ms=30_000)
    network.hosts[BROKER] = scripted_broker(says_metadata)

    async def scenario() -> None:
        async with rig.running():
            await rig.send().wait()
            await trio.sleep(5.1)
            assert rig.client.poll(trio.current_time() * 1000) == NEVER_MS, "there is nothing left to watch"

    in_virtual_time(scenario)


def test_waiting_costs_no_turns(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, scripted_broker: type[ScriptedBroker]
) -> None:
    """Whatever it waits for (an answer, a black hole, a back-off), the loop sleeps: at most one turn in 5 s."""
    rig = make_rig(network, "broker:9092", request_timeout_ms=600_000, socket_connection_setup_timeout_ms=600_000)
    network.hosts[BROKER] = scripted_broker(nothing)
    network.black_holes.add(("hole", 1))

    async def scenario() -> None:
        async with rig.running():
            rig.send()
            rig.send(node=Node(2, "hole", 1))
            await trio.sleep(1)
            before = rig.turns
            await trio.sleep(500)
            assert rig.turns - before <= 102

    in_virtual_time(scenario)


# --- bytes -------------------------------------------------------------------------------------------------------


def test_an_answer_in_pieces_of_one_byte(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    rig: Rig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
) -> None:
    whole = scripted_broker(says_metadata)

    async def sliced(stream: MemoryStream) -> None:
        await whole(OneByteAtATime(stream))  # type: ignore[arg-type]  # has all it uses

    network.hosts[BROKER] = sliced

    async def scenario() -> None:
        async with rig.running():
            outcomes = [rig.send() for _ in range(5)]
            for outcome in outcomes:
                assert isinstance((await outcome.wait()).answer, MetadataResponse)

    in_virtual_time(scenario)


class OneByteAtATime:
    def __init__(self, stream: MemoryStream) -> None:
        self._stream = stream
        self.receive_into = stream.receive_into

    async def send_all(self, data: bytes) -> None:
        for byte in data:
            await self._stream.send_all(bytes([byte]))
            await trio.lowlevel.checkpoint()


def test_what_does_not_go_out_at_once_follows_in_order(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    rig: Rig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
) -> None:
    """A socket may take a part of a frame. The rest is the writer's, and whatever comes meanwhile must not overtake it:
    here the second request is made between the first half of the first one and its second."""
    network.hosts[BROKER] = scripted_broker(says_metadata)
    connect = network.connect
    streams: list[TakesFive] = []

    async def connect_to_little_room(host: str, port: int) -> object:
        streams.append(TakesFive(await connect(host, port)))
        return streams[-1]

    network.connect = connect_to_little_room  # type: ignore[method-assign,assignment]  # a stream all the same

    async def scenario() -> None:
        async with rig.running():
            for outcome in [rig.send() for _ in range(3)]:
                assert isinstance((await outcome.wait()).answer, MetadataResponse), outcome.error
            assert isinstance((await rig.send().wait()).answer, MetadataResponse)

    in_virtual_time(scenario)
    assert [stream.offers for stream in streams] == [2], "the first of three at once, and the one that came alone"


class TakesFive:
    """Takes five bytes at once, and the rest when there is time."""

    def __init__(self, stream: object) -> None:
        self._stream = stream
        self._taken = b""
        self.offers = 0
        self.receive_into = stream.receive_into  # type: ignore[attr-defined]  # a ByteStream
        self.reset_when_closed = stream.reset_when_closed  # type: ignore[attr-defined]  # as above
        self.aclose = stream.aclose  # type: ignore[attr-defined]  # as above

    def send_now(self, data: bytes) -> int:
        self.offers += 1
        self._taken += data[:5]
        return 5

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        taken, self._taken = self._taken, b""
        await self._stream.send_all(taken + data)  # type: ignore[attr-defined]  # as above


HOSTILE: dict[str, tuple[bytes, str]] = {
    "negative length": (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
    "too large": (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
    "too short": (b"\x00\x00\x00\x02ab", "a frame of 2 bytes"),
    "unknown correlation id": (b"\x00\x00\x00\x08\x00\x00\xff\xff\x00\x00\x00\x00", "correlation id 65535 came"),
    "cut short": (b"\x00\x00\x00\x05\x00\x00\x00\x01\x00", "MetadataResponse"),
    "http": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka"),
}


@pytest.mark.parametrize(("data", "sentence"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_end_the_connection_and_nothing_else(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker], data: bytes, sentence: str
) -> None:
    broker = scripted_broker(lambda request, version: data)
    rig.network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            outcome = await rig.send().wait()
            assert isinstance(outcome.error, ProtocolError), outcome.error
            assert sentence in str(outcome.error)
            assert "broker:9092" in str(outcome.error)
            broker._answer = lambda request, version: MetadataResponse()
            assert (await rig.send().wait()).error is None

    in_virtual_time(scenario)
    assert broker.connections == 2


def test_an_answer_nobody_asked_for_ends_the_connection(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker], make_frame: MakeFrame
) -> None:
    def twice(request: Request[Message], version: int) -> bytes:
        return make_frame(1, version, MetadataResponse()) * 2

    rig.network.hosts[BROKER] = scripted_broker(twice)

    async def scenario() -> None:
        async with rig.running():
            assert (await rig.send().wait()).error is None
            await trio.sleep(0.01)
            assert not is_busy(rig.client)
            assert rig.network.dials_of("broker") == [0]
            second = await rig.send().wait()
            assert second.error is None or isinstance(second.error, ProtocolError)

    in_virtual_time(scenario)


def test_a_request_that_cannot_be_written_fails_alone(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker], says_metadata: Answer
) -> None:
    broker = scripted_broker(says_metadata)
    rig.network.hosts[BROKER] = broker

    async def scenario() -> None:
        async with rig.running():
            good = rig.send()
            bad = await rig.send(FindCoordinatorRequest(coordinator_keys=["\ud800"])).wait()
            assert isinstance(bad.error, ProtocolError)
            assert "FindCoordinatorRequest" in str(bad.error)
            assert (await good.wait()).error is None

    in_virtual_time(scenario)
    assert broker.connections == 1


def test_a_broker_that_hangs_up_at_any_moment(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    rig: Rig,
    scripted_broker: type[ScriptedBroker],
    make_frame: MakeFrame,
) -> None:
    """Before anything, within the handshake, within an answer: the request fails with a DisconnectError, once."""
    whole: list[bytes] = []

    def record(request: Request[Message], version: int) -> bytes:
        return make_frame(1, version, MetadataResponse())

    def cut_after(limit_bytes: int) -> Callable[[MemoryStream], object]:
        async def behave(stream: MemoryStream) -> None:
            await scripted_broker(record)(Limited(stream, limit_bytes, whole))  # type: ignore[arg-type]  # as above

        return behave

    async def scenario() -> None:
        async with rig.running():
            network.hosts[BROKER] = cut_after(1_000_000)  # type: ignore[assignment]  # it is awaitable
            assert (await rig.send().wait()).error is None
            total_bytes = sum(map(len, whole))
            for limit_bytes in (0, 1, 3, 4, 5, 20, total_bytes - 40, total_bytes - 5, total_bytes - 1):
                rig.client.close()
                await trio.sleep(1)  # the back-off
                network.hosts[BROKER] = cut_after(limit_bytes)  # type: ignore[assignment]  # as above
                outcome = await rig.send(node=NODE).wait()
                assert isinstance(outcome.error, DisconnectError), (limit_bytes, outcome.error)
                assert outcome.calls == 1

    in_virtual_time(scenario)


class Limited:
    """Hangs up after so many bytes."""

    def __init__(self, stream: MemoryStream, limit_bytes: int, sent: list[bytes]) -> None:
        self._stream = stream
        self._left_bytes = limit_bytes
        self._sent = sent
        self.receive_into = stream.receive_into

    async def send_all(self, data: bytes) -> None:
        now, self._left_bytes = data[: self._left_bytes], max(0, self._left_bytes - len(data))
        self._sent.append(now)
        await self._stream.send_all(now)
        if len(now) < len(data):
            raise ConnectionResetError


# --- races -------------------------------------------------------------------------------------------------------


def test_an_answer_that_arrives_while_the_connection_is_given_up_is_dropped(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    rig: Rig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
) -> None:
    """The order of events that once killed the network thread:

    1. the reader's `recv_into` takes the bytes of an answer, and yields before it returns them (trio always does);
    2. the loop's turn gives the connection up (a timeout, a moved broker), and fails what is in flight;
    3. the reader goes on with the bytes, and found no request that they could answer: IndexError.
    """
    network.hosts[BROKER] = scripted_broker(says_metadata)
    connect = network.connect

    async def connect_with_a_late_reader(host: str, port: int) -> object:
        return LateReader(await connect(host, port), give_up=rig.client.close)

    network.connect = connect_with_a_late_reader  # type: ignore[method-assign,assignment]  # a stream all the same

    async def scenario() -> None:
        async with rig.running():
            outcome = await rig.send().wait()
            assert isinstance(outcome.error, DisconnectError)
            assert outcome.calls == 1
            await trio.sleep(1)  # the nursery would have raised what the reader did

    in_virtual_time(scenario)


class LateReader:
    """Has the connection given up between taking the second answer's bytes and returning them."""

    def __init__(self, stream: object, give_up: Callable[[], None]) -> None:
        self._stream = stream
        self._give_up = give_up
        self._reads = 0
        self.send_now = stream.send_now  # type: ignore[attr-defined]  # a ByteStream
        self.send_all = stream.send_all  # type: ignore[attr-defined]  # as above
        self.reset_when_closed = stream.reset_when_closed  # type: ignore[attr-defined]  # as above
        self.aclose = stream.aclose  # type: ignore[attr-defined]  # as above

    async def receive_into(self, buffer: memoryview, missing_bytes: int) -> int:
        received: int = await self._stream.receive_into(buffer, missing_bytes)  # type: ignore[attr-defined]  # as above
        self._reads += 1
        if self._reads == 2:
            self._give_up()
            await trio.lowlevel.cancel_shielded_checkpoint()
        return received


def test_closing_fails_what_waits_and_what_is_in_flight(
    in_virtual_time: InVirtualTime, rig: Rig, scripted_broker: type[ScriptedBroker]
) -> None:
    rig.network.hosts[BROKER] = scripted_broker(nothing)

    async def scenario() -> None:
        async with rig.running():
            in_flight = rig.send()
            await trio.sleep(0.1)
            assert is_busy(rig.client)
            rig.client.close()
            assert isinstance((await in_flight.wait()).error, DisconnectError)
            assert "the consumer was closed" in str(in_flight.error)

    in_virtual_time(scenario)


def test_closing_gives_up_a_dial_that_nobody_answers(in_virtual_time: InVirtualTime, rig: Rig) -> None:
    rig.network.black_holes.add(BROKER)
    in_virtual_time(partial(assert_closing_ends_it_at_once, rig))


def test_closing_gives_up_a_handshake_that_nobody_answers(
    in_virtual_time: InVirtualTime, rig: Rig, silent_broker: list[Received]
) -> None:
    in_virtual_time(partial(assert_closing_ends_it_at_once, rig))
    assert [type(request) for request, _, _ in silent_broker] == [ApiVersionsRequest]


async def assert_closing_ends_it_at_once(rig: Rig) -> None:
    """What waited for the connection is told in the next turn, not when the connection's time is over."""
    async with rig.running():
        waiting = rig.send(node=NODE)
        await trio.sleep(0.1)
        began_s = trio.current_time()
        rig.client.close()
        assert isinstance((await waiting.wait()).error, DisconnectError)
        assert trio.current_time() - began_s < 0.1


@pytest.fixture
def silent_broker(network: MemoryNetwork, peer: type[Peer]) -> list[Received]:
    """Takes connections and never says a word; what it was asked."""
    asked: list[Received] = []

    async def behave(stream: MemoryStream) -> None:
        one = peer(stream)
        while (received := await one.next_request()) is not None:
            asked.append(received)

    network.hosts[BROKER] = behave
    return asked


# --- servers that say nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("silent", "most_s"), [(1, 1.1), (2, 3.1), (3, 7.1), (4, 15.1)])
def test_while_one_bootstrap_server_says_nothing_the_next_one_is_asked(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
    silent: int,
    most_s: float,
) -> None:
    """A load balancer that has no broker takes the connection, and the bytes. It held up the start for 30 s."""
    names = [*(f"silent{number}" for number in range(silent)), "broker"]
    network.hosts |= {(name, 9092): Silent() for name in names}
    network.hosts[BROKER] = scripted_broker(says_metadata, versions_of([(MetadataRequest.api_key, 0, 9)]))

    async def scenario() -> float:
        rig = make_rig(network, ",".join(f"{name}:9092" for name in names))
        async with rig.running():
            began_s = trio.current_time()
            assert isinstance((await rig.send().wait()).answer, MetadataResponse)
            return trio.current_time() - began_s

    assert in_virtual_time(scenario) < most_s


def test_each_silent_server_more_is_asked_after_twice_the_time(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig
) -> None:
    network.hosts |= {(f"silent{number}", 9092): Silent() for number in range(9)}

    async def scenario() -> None:
        rig = make_rig(network, ",".join(f"{name}:{port}" for name, port in network.hosts))
        async with rig.running():
            rig.send()
            await trio.sleep(20)

            failures = rig.client.broker_failures(monotonic_ms())
            assert {str(each.error) for each in failures} == {"no answer to ApiVersions yet"}
            assert len(failures) == 5

    in_virtual_time(scenario)
    assert sum(host.connections for host in network.hosts.values() if isinstance(host, Silent)) == 5


class Silent:
    """Takes connections, and what is sent, and says nothing."""

    connections = 0

    async def __call__(self, _stream: MemoryStream) -> None:
        self.connections += 1
        await trio.sleep_forever()


def test_a_broker_that_metadata_lists_no_more_is_left_when_its_last_answer_is_there(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    rig: Rig,
    peer: type[Peer],
    offer: Callable[[], ApiVersionsResponse],
) -> None:
    """A fetch waits for records nearly always. The connection then stayed until metadata changed once more, or for as
    long as an idle one may."""
    goes_on = trio.Event()

    async def slow(stream: MemoryStream) -> None:
        of_client = peer(stream)
        while (received := await of_client.next_request()) is not None:
            request, version, header = received
            is_versions = isinstance(request, ApiVersionsRequest)
            if not is_versions:
                await goes_on.wait()
            await of_client.answer(header, version, offer() if is_versions else MetadataResponse())

    network.hosts[BROKER] = slow
    rig.nodes = {1: NODE}

    async def scenario() -> None:
        async with rig.running():
            outcome = rig.send(node=NODE)
            await trio.sleep(1)
            rig.nodes = {2: Node(2, "other", 9092)}
            rig._waker.wake()
            await trio.sleep(1)
            assert rig.client.is_connected(NODE, Channel.CONTROL)
            goes_on.set()
            assert (await outcome.wait()).error is None
            await trio.sleep(1)
            assert not rig.client.is_connected(NODE, Channel.CONTROL)

    in_virtual_time(scenario)


def test_the_addresses_of_brokers_that_were_of_use_are_bounded(rig: Rig) -> None:
    """A cluster may name others each time."""
    for number in range(MAX_ADDRESSES + 5):
        rig.client._note_known((f"broker-{number}", 9092))
    rig.client._note_known(("broker-5", 9092))
    rig.client._note_known(("one more", 9092))
    known = rig.client._known_addresses
    assert len(known) == MAX_ADDRESSES
    assert ("broker-5", 9092) in known
    assert ("broker-6", 9092) not in known
