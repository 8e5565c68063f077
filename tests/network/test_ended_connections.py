"""A connection that has ended is gone at once, with its TLS: nothing of it waits for a full collection of Python's.

Those come when many new objects have stayed, which in a program that reads a topic is once in hours. On a bad network
each lost connection would be kept until then.
"""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest
import trio

from kwire import Consumer
from kwire.errors import AuthenticationError, DisconnectError, NoTokenError
from kwire.network.connection import Connection
from kwire.network.connection_errors import forget_frames
from kwire.protocol.messages.api_versions import ApiVersionsResponse
from kwire.protocol.messages.metadata import MetadataResponse
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kwire.protocol.schema import Message, Request
    from tests.network.conftest import Answer, InVirtualTime, MakeRig, MemoryNetwork, MemoryStream, ScriptedBroker

BROKER = ("broker", 9092)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[weakref.WeakSet[Connection]]:
    """All connections that are made, as long as there are any; nothing is collected meanwhile."""
    found: weakref.WeakSet[Connection] = weakref.WeakSet()
    construct = Connection.__init__

    def noting(self: Connection, *args: object, **settings: object) -> None:
        found.add(self)
        construct(self, *args, **settings)  # type: ignore[arg-type]  # whatever it is given

    monkeypatch.setattr(Connection, "__init__", noting)
    gc.collect()
    gc.disable()
    yield found
    gc.enable()


async def hangs_up(stream: MemoryStream) -> None:
    """After the connection is made."""
    await trio.lowlevel.checkpoint()


async def is_deaf(stream: MemoryStream) -> None:
    await trio.sleep_forever()


def nothing(request: Request[Message], version: int) -> None:
    """Never answers."""


def nonsense(request: Request[Message], version: int) -> bytes:
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


def test_one_that_idles_is_gone_when_it_is_closed(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    says_metadata: Answer,
    made: weakref.WeakSet[Connection],
) -> None:
    rig = make_rig(network, "broker:9092", connections_max_idle_ms=5_000)
    network.hosts[BROKER] = scripted_broker(says_metadata)

    async def scenario() -> None:
        async with rig.running():
            assert isinstance((await rig.send().wait()).answer, MetadataResponse)
            assert len(made) == 1
            await trio.sleep(20)
            assert len(made) == 0

    in_virtual_time(scenario)


@pytest.mark.parametrize("how", ["refuses", "hangs up", "is silent", "is silent in the handshake", "talks nonsense"])
def test_one_that_breaks_is_gone_though_its_error_is_kept(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    made: weakref.WeakSet[Connection],
    how: str,
) -> None:
    rig = make_rig(network, "broker:9092", request_timeout_ms=2_000, reconnect_backoff_ms=60_000)
    behaviours: dict[str, Callable[[MemoryStream], Awaitable[None]]] = {
        "hangs up": hangs_up,
        "is silent": scripted_broker(nothing),
        "is silent in the handshake": is_deaf,
        "talks nonsense": scripted_broker(nonsense),
    }
    if how != "refuses":
        network.hosts[BROKER] = behaviours[how]

    async def scenario() -> None:
        async with rig.running():
            assert (await rig.send().wait()).error is not None
            await trio.sleep(1)
            assert rig.client.connection_failures, "the client knows why there is no connection"
            assert len(made) == 0

    in_virtual_time(scenario)


def test_one_that_is_refused_in_the_handshake_is_gone(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    scripted_broker: type[ScriptedBroker],
    made: weakref.WeakSet[Connection],
) -> None:
    rig = make_rig(network, "broker:9092", reconnect_backoff_ms=60_000)
    network.hosts[BROKER] = scripted_broker(nothing, ApiVersionsResponse(error_code=42))

    async def scenario() -> None:
        async with rig.running():
            assert "INVALID_REQUEST" in str((await rig.send().wait()).error)
            await trio.sleep(1)
            assert len(made) == 0

    in_virtual_time(scenario)


@pytest.mark.slow
def test_a_closed_consumer_keeps_no_connection_and_no_answer(made: weakref.WeakSet[Connection]) -> None:
    """The parts of its network thread know each other, and wait for a full collection; what is large must not."""
    with Cluster(topics={"orders": 4}) as cluster:
        for partition in range(4):
            cluster.produce("orders", *[bytes(10_000)] * 20, partition=partition)
        consumer: Consumer[bytes, bytes] = Consumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, group_id="billing", auto_offset_reset="earliest",
            max_poll_records=1,
        )  # fmt: skip
        buffer = consumer._session.link.buffer
        with consumer:
            while not consumer.poll(1.0):
                pass
            assert made
            assert buffer.size_bytes > 100_000
        del consumer
        assert len(made) == 0
        assert buffer.size_bytes == 0


# --- tracebacks --------------------------------------------------------------------------------------------------


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001  whatever it is
        return caught


def test_errors_are_kept_without_the_frames_of_the_connection() -> None:
    cause = raised(ConnectionResetError("reset"))
    error = raised(DisconnectError("broker"), cause)
    forget_frames(error)
    assert error.__traceback__ is None
    assert error.__cause__ is cause
    assert cause.__traceback__ is None


@pytest.mark.parametrize(
    ("error", "of_user"),
    [
        (NoTokenError("no token"), OSError("of the user's HTTP client")),
        (AuthenticationError("no"), ValueError("a bug")),
    ],
)
def test_what_the_users_own_code_has_raised_keeps_its_traceback(error: Exception, of_user: Exception) -> None:
    cause = raised(of_user)
    forget_frames(raised(error, cause))
    assert error.__traceback__ is None
    assert cause.__traceback__ is not None


def test_a_circle_of_errors_ends() -> None:
    one, other = OSError("one"), OSError("other")
    one.__context__, other.__context__ = other, one
    forget_frames(raised(one))
    assert one.__traceback__ is None
