"""A client that asks one question at a time and waits for the answer: for commands that look at a cluster or change it.

Calls block. A thread of its own runs trio; `broker_connections.py` says what happens there.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

import trio

from kwire.config import ConsumerConfig, Endpoint
from kwire.errors import IllegalStateError
from kwire.network.broker_connections import BrokerConnections, ConnectionAttempt
from kwire.protocol.registry import BrokerVersions
from kwire.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)
T = TypeVar("T")


class BrokerClient:
    """Asks brokers. Use as a context manager.

    Args:
        config: Where the cluster is, and how connections are secured.
        timeout_s: How long each step to a broker, and each answer, may take.

    Raises:
        ConfigError: Certificates or a login cannot be used.
    """

    def __init__(self, config: ConsumerConfig, timeout_s: float = 30.0) -> None:
        self.config = config
        self.timeout_s = timeout_s
        self._connections = BrokerConnections(config, timeout_s)
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run_thread, name="kwire-broker-client", daemon=True)
        self._failure: BaseException | None = None

    def __enter__(self) -> BrokerClient:
        """Raises: OSError, if there are no more file descriptors for an event loop, say."""
        self._thread.start()
        self._is_ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        token, self._token = self._token, None
        if token is not None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._scope.cancel)
            self._thread.join()

    def ask(
        self,
        request: Request[R],
        endpoint: Endpoint | None = None,
        *,
        min_version: int | None = None,
        max_version: int | None = None,
        for_version: Callable[[int], Request[R]] | None = None,
    ) -> R:
        """The answer of a broker, or of the first bootstrap server that can be used.

        Args:
            for_version: Makes the request for a version, where it depends on that.

        Raises:
            BootstrapError: No bootstrap server can be used.
            KafkaError: Whatever else keeps the broker from answering.
        """

        async def ask() -> R:
            at = endpoint or await self._connections.first_reachable()
            versions = (await self._connections.connected(at)).versions
            version = versions.pick(type(request), min_version=min_version, max_version=max_version)
            return await self._connections.ask(at, request if for_version is None else for_version(version), version)

        return self._do(ask)

    def reach(self, endpoint: Endpoint, attempt: ConnectionAttempt) -> BrokerVersions:
        """Connect to a broker and note in `attempt` how far that leads; what it speaks. Raises: KafkaError."""

        async def reach() -> BrokerVersions:
            return (await self._connections.connected(endpoint, attempt)).versions

        return self._do(reach)

    def first_reachable(self) -> Endpoint:
        """The first bootstrap server that can be used. Raises: KafkaError."""
        return self._do(self._connections.first_reachable)

    def certificate(self, endpoint: Endpoint) -> bytes | None:
        """What is shown at this port (DER), trusted or not; None if nobody speaks TLS there."""

        async def look() -> bytes | None:
            return await self._connections.look_at_certificate(endpoint)

        return self._do(look)

    def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        if self._token is None:
            raise IllegalStateError("a BrokerClient is used within its `with`")
        return trio.from_thread.run(work, trio_token=self._token)

    def _run_thread(self) -> None:
        try:
            trio.run(self._run)
        except BaseException as error:
            if self._is_ready.is_set():
                raise
            self._failure = error
            self._is_ready.set()

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._connections.security.run)
                self._is_ready.set()
                await trio.sleep_forever()
        await self._connections.close()
