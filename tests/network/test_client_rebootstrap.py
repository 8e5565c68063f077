"""When known brokers are of no use: the client goes back to its bootstrap servers (KIP-899), or is told to hang up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kwire.errors import BootstrapError, DisconnectError
from kwire.managers.unsent import Channel
from kwire.model import Node

if TYPE_CHECKING:
    from kwire.protocol.schema import Message, Request
    from tests.network.conftest import Answer, InVirtualTime, MakeRig, MemoryNetwork, Rig, ScriptedBroker

BOOTSTRAP = ("first", 9092)
OLD, NEW = Node(7, "old", 9092), Node(7, "new", 9092)


@pytest.fixture
def answering(scripted_broker: type[ScriptedBroker], says_metadata: Answer) -> ScriptedBroker:
    return scripted_broker(says_metadata)


@pytest.fixture
def rig(network: MemoryNetwork, make_rig: MakeRig) -> Rig:
    return make_rig(network, "first:9092")


@pytest.fixture
def steadfast(network: MemoryNetwork, make_rig: MakeRig) -> Rig:
    return make_rig(network, "first:9092", metadata_recovery_strategy="none")


def nothing(request: Request[Message], version: int) -> None:
    """Never answers."""


async def outcomes(rig: Rig, duration_s: float) -> set[type[object]]:
    """What becomes of a request a second."""
    seen: set[type[object]] = set()
    for _ in range(int(duration_s)):
        outcome = await rig.send().wait()
        seen.add(type(outcome.error or outcome.answer))
        await trio.sleep(1)
    return seen


def test_without_the_strategy_only_the_known_brokers_are_asked(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, steadfast: Rig, answering: ScriptedBroker
) -> None:
    network.hosts[BOOTSTRAP] = answering
    steadfast.nodes = {7: OLD}

    async def scenario() -> None:
        async with steadfast.running():
            assert await outcomes(steadfast, 60) == {BootstrapError}

    in_virtual_time(scenario)
    assert not answering.connections


def test_without_the_strategy_a_known_broker_that_comes_back_is_found(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, steadfast: Rig, answering: ScriptedBroker
) -> None:
    steadfast.nodes = {7: OLD}

    async def scenario() -> None:
        async with steadfast.running():
            assert await outcomes(steadfast, 5) == {BootstrapError}
            network.hosts[OLD.host, OLD.port] = answering
            while (await steadfast.send().wait()).error is not None:
                assert trio.current_time() < 10

    in_virtual_time(scenario)


def test_without_the_strategy_the_bootstrap_servers_are_still_where_it_begins(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, steadfast: Rig, answering: ScriptedBroker
) -> None:
    network.hosts[BOOTSTRAP] = answering

    async def scenario() -> None:
        async with steadfast.running():
            assert (await steadfast.send().wait()).error is None

    in_virtual_time(scenario)


def test_known_brokers_that_come_back_first_are_heard_too(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, rig: Rig, answering: ScriptedBroker
) -> None:
    """Java forgets them when it goes back to its bootstrap servers, which may be gone for good."""
    rig.nodes = {7: OLD}

    async def scenario() -> None:
        async with rig.running():
            assert await outcomes(rig, 5) == {BootstrapError}
            network.hosts[OLD.host, OLD.port] = answering
            while (await rig.send().wait()).error is not None:
                assert trio.current_time() < 10

    in_virtual_time(scenario)
    assert network.dials_of("first")


def test_a_broker_that_has_moved_is_dialled_at_once_whatever_came_of_its_old_address(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, answering: ScriptedBroker
) -> None:
    """The back-off of an address where nobody listens any more used to hold up the first dial of the new one."""
    rig = make_rig(network, "first:9092", reconnect_backoff_ms=10_000, reconnect_backoff_max_ms=10_000)
    network.hosts[NEW.host, NEW.port] = answering

    async def scenario() -> None:
        async with rig.running():
            assert (await rig.send(node=OLD).wait()).error is not None
            asked_at_s = trio.current_time()
            outcome = await rig.send(node=NEW).wait()
            assert outcome.error is None
            assert outcome.at_s == pytest.approx(asked_at_s, abs=0.1)

    in_virtual_time(scenario)


def test_what_is_in_flight_at_an_old_address_fails_as_soon_as_the_new_one_is_known(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, rig: Rig, scripted_broker: type[ScriptedBroker]
) -> None:
    """A fetch used to wait there until its time was up, and the broker was not asked at its new address meanwhile."""
    network.hosts[OLD.host, OLD.port] = scripted_broker(nothing)
    rig.nodes = {7: OLD}

    async def scenario() -> None:
        async with rig.running():
            fetch = rig.send(node=OLD, channel=Channel.FETCH)
            heartbeat = rig.send(node=OLD, channel=Channel.COORDINATOR)
            await trio.sleep(1)
            rig.nodes = {7: NEW}
            rig.send(node=NEW)
            assert isinstance((await fetch.wait()).error, DisconnectError)
            assert fetch.at_s == pytest.approx(1, abs=0.1)
            await trio.sleep(1)
            assert heartbeat.error is None, "where the coordinator is, its look-up says"

    in_virtual_time(scenario)


# --- told to hang up (KIP-1102) ---------------------------------------------------------------------------------


def test_hanging_up_fails_what_is_in_flight_and_dials_the_bootstrap_servers_anew(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    rig: Rig,
    scripted_broker: type[ScriptedBroker],
    answering: ScriptedBroker,
) -> None:
    """Brokers that take requests and do not answer them: nothing else shows that they are of no use."""
    silent = scripted_broker(nothing)
    network.hosts[BOOTSTRAP] = answering
    network.hosts[OLD.host, OLD.port] = silent

    async def scenario() -> None:
        async with rig.running():
            assert (await rig.send().wait()).error is None
            rig.nodes = {7: OLD}
            open_ones = [rig.send(), rig.send(node=OLD, channel=Channel.FETCH)]
            await trio.sleep(1)
            rig.nodes = {}
            rig.client.close_connections()
            for outcome in open_ones:
                assert isinstance((await outcome.wait()).error, DisconnectError)
                assert outcome.at_s == pytest.approx(1, abs=0.1)
            outcome = await rig.send().wait()
            assert outcome.error is None
            assert outcome.at_s == pytest.approx(1, abs=0.1), "hanging up is no failure to back off from"

    in_virtual_time(scenario)
    assert answering.connections == 2, "the bootstrap server's name may lead elsewhere now"


def test_hanging_up_leaves_the_coordinator_alone(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, rig: Rig, answering: ScriptedBroker
) -> None:
    network.hosts[OLD.host, OLD.port] = answering

    async def scenario() -> None:
        async with rig.running():
            for _ in range(2):
                assert (await rig.send(node=OLD, channel=Channel.COORDINATOR).wait()).error is None
                rig.client.close_connections()

    in_virtual_time(scenario)
    assert answering.connections == 1


def test_hanging_up_while_a_broker_is_being_dialled(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, rig: Rig, answering: ScriptedBroker
) -> None:
    network.black_holes.add((OLD.host, OLD.port))
    network.hosts[BOOTSTRAP] = answering
    rig.nodes = {7: OLD}

    async def scenario() -> None:
        async with rig.running():
            waiting = rig.send()
            await trio.sleep(1)
            rig.nodes = {}
            rig.client.close_connections()
            outcome = await waiting.wait()
            assert outcome.error is None
            assert outcome.at_s < 7  # what is not sent yet goes to the bootstrap server, in the loop's next turn

    in_virtual_time(scenario)
