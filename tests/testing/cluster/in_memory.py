"""Clients of the in-process cluster without sockets and without real time, for tests of what its brokers answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

import trio
import trio.testing

from kwire.protocol.framing import Framing
from kwire.testing.cluster.connection import serve

if TYPE_CHECKING:
    from kwire.protocol.framing import Answer
    from kwire.protocol.schema import Message, Request
    from kwire.testing.cluster.state import ClusterState

R = TypeVar("R", bound="Message")

CLIENT_ID = "test"
CLOSED = "the broker has closed the connection"


class MemoryClient:
    """One connection to one broker."""

    def __init__(self, cluster: ClusterState, nursery: trio.Nursery, node_id: int = 0) -> None:
        self.stream, theirs = trio.testing.memory_stream_pair()
        self._framing = Framing(CLIENT_ID)
        self._answers: deque[Answer] = deque()
        nursery.start_soon(partial(serve, theirs, cluster.brokers[node_id], cluster))

    async def send(self, request: Request[Message], version: int | None = None) -> None:
        """Do not wait for the answer. Raises: EOFError, if the broker has closed."""
        data = self._framing.send(request, request.max_version if version is None else version)
        try:
            await self.stream.send_all(data)
        except trio.BrokenResourceError as error:
            raise EOFError(CLOSED) from error

    async def receive(self) -> Message:
        """The next answer. Raises: EOFError, if the broker has closed."""
        while not self._answers:
            buffer = self._framing.writable_buffer()
            data = await self.stream.receive_some(len(buffer))
            if not data:
                raise EOFError(CLOSED)
            buffer[: len(data)] = data
            self._answers.extend(self._framing.received(len(data)))
        return self._answers.popleft().response

    async def ask(self, request: Request[R], version: int | None = None) -> R:
        """One request, one answer; in the newest version unless told otherwise. Raises: as `receive`."""
        await self.send(request, version)
        return cast("R", await self.receive())


def in_trio(test: Callable[[trio.Nursery], Awaitable[None]]) -> Callable[[], None]:
    """A test as a task, on a clock that jumps; what it starts in the nursery ends with it."""

    # Not `wraps`: pytest would ask for a fixture called `nursery`.
    def run() -> None:
        async def bounded() -> None:
            with trio.fail_after(3_600):
                async with trio.open_nursery() as nursery:
                    await test(nursery)
                    nursery.cancel_scope.cancel()

        trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0))

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run
