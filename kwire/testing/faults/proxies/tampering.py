"""A TCP proxy that tampers with Kafka's bytes: what toxiproxy cannot do. On a thread and a trio run of its own.

    with TamperingProxy(to=("127.0.0.1", 9092)) as proxy:
        connect(proxy.address)
        proxy.tamper(FlipBit(place=Place.PAYLOAD, api_key=1, nth=3))
        proxy.heal()

By default it passes bytes on as they come. Orders may be given from any thread, and are in effect when the call
returns. What can be ordered stands in `tamperings`. The harness uses it through `chain`.
"""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import trio

from kwire.errors import IllegalStateError
from kwire.testing.faults.proxies.door import Entrance, bind
from kwire.testing.faults.proxies.link import ProxyLink
from kwire.testing.faults.proxies.orders import Counts, Door, ProxyOrders
from kwire.testing.faults.proxies.tamperings import ChaosDialer, Tampering

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

HOST = "127.0.0.1"  # not "localhost", which may mean IPv6 first
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
OUT_OF_FILES_PAUSE_S = 0.1


class TamperingProxy:
    """Use as a context manager.

    Args:
        listen_port: Where clients connect; 0 for any that is free.
        to: Host and port that they are led to. Until it is known, they are refused.
        is_encrypted: Whether they use TLS, so that answers cannot be tampered with, but the flow of bytes.
    """

    def __init__(self, listen_port: int = 0, to: tuple[str, int] | None = None, *, is_encrypted: bool = False) -> None:
        self._listen_port = listen_port
        self._to = to
        self._is_encrypted = is_encrypted
        self._orders = ProxyOrders()
        self._links: dict[ProxyLink, None] = {}
        self._chances: dict[ChaosDialer, random.Random] = {}
        self._scope = trio.CancelScope()
        self._error: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        where = "not started" if self._thread is None else f"{HOST}:{self._listen_port}"
        return f"<TamperingProxy: {where} to {self._to}>"

    # --- life ------------------------------------------------------------------------------------------------

    def __enter__(self) -> TamperingProxy:
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """When this returns, clients can connect.

        Raises:
            IllegalStateError: It was started before.
            OSError: The port is taken.
        """
        if self._thread is not None:
            raise IllegalStateError("a proxy can be started once")
        holder = bind(HOST, self._listen_port)
        self._listen_port = holder.getsockname()[1]
        self._entrance = Entrance(holder)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run_thread, args=(ready,), name="kwire-tampering", daemon=True)
        self._thread.start()
        ready.wait()
        self._raise_failure()

    def stop(self) -> None:
        """Close every connection and release the port. Does nothing to a proxy that does not run."""
        token, self._token = self._token, None
        if token is None or self._thread is None:
            return
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(self._scope.cancel)
        self._thread.join()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise IllegalStateError("the proxy has failed") from self._error

    # --- from any thread -------------------------------------------------------------------------------------

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect."""
        if self._thread is None:
            raise IllegalStateError("a proxy has its address when it is started")
        return HOST, self._listen_port

    def lead_to(self, host: str, port: int) -> None:
        """Where new connections are led from now on."""
        self._do(self._lead_to, host, port)

    def tamper(self, *tamperings: Tampering) -> None:
        """Add orders to those that there are."""
        self._do(self._tamper, tamperings)

    def lift(self, tampering: Tampering) -> None:
        """Remove an order, if it is still there."""
        self._do(self._lift, tampering)

    def heal(self) -> None:
        """Remove all orders. Connections that have lost bytes are closed."""
        self._do(self._heal)

    def hang_up(self, *, abruptly: bool = False) -> int:
        """End every connection, with a reset if abruptly; how many there were."""
        return self._do(self._hang_up, abruptly)

    @property
    def active(self) -> tuple[Tampering, ...]:
        """Orders that last, or have not struck yet."""
        return self._do(self._active)

    @property
    def counts(self) -> Counts:
        """The counts of what it has done so far."""
        return self._do(self._count)

    def _do(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """Call a function on the proxy's thread."""
        self._raise_failure()
        if self._token is None:
            raise IllegalStateError("the proxy does not run")
        return trio.from_thread.run(function, *args, trio_token=self._token)

    # --- on the proxy's thread -------------------------------------------------------------------------------

    def _run_thread(self, ready: threading.Event) -> None:
        try:
            trio.run(self._run, ready)
        except BaseException as error:  # noqa: BLE001  kept for the caller's thread, which would otherwise never know
            self._error = error
        finally:
            ready.set()

    async def _run(self, ready: threading.Event) -> None:
        self._changing_door = trio.Lock()
        with self._scope, closing(self._entrance):
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._obey()
                self._token = trio.lowlevel.current_trio_token()
                ready.set()
                await trio.sleep_forever()

    async def _lead_to(self, host: str, port: int) -> None:
        self._to = (host, port)
        await self._obey()

    async def _tamper(self, tamperings: tuple[Tampering, ...]) -> None:
        for each in tamperings:
            self._orders.give(each)
            if isinstance(each, ChaosDialer):
                self._chances[each] = random.Random(each.seed)
                for link in self._links:
                    self._nursery.start_soon(self._end_some_time, link, each)
        await self._obey()

    async def _lift(self, tampering: Tampering) -> None:
        self._orders.lift(tampering)
        await self._obey()

    async def _heal(self) -> None:
        self._orders.clear()
        await self._obey()

    async def _hang_up(self, abruptly: bool) -> int:
        for link in self._links:
            link.end(abruptly=abruptly)
        return len(self._links)

    async def _active(self) -> tuple[Tampering, ...]:
        return self._orders.active

    async def _count(self) -> Counts:
        return replace(self._orders.counts, open_connections=len(self._links))

    async def _obey(self) -> None:
        """Do at once what orders that have changed mean for connections and for the door."""
        for link in self._links:
            if link.is_beyond_repair:  # before its next byte passes: nothing is awaited up to here
                link.end()
        async with self._changing_door:
            wanted = Door.REFUSING if self._to is None else self._orders.door
            if wanted is self._entrance.door:
                return
            await self._entrance.set(wanted)
            if wanted is Door.OPEN and self._entrance.listener is not None:
                self._nursery.start_soon(self._accept, self._entrance.listener)

    async def _accept(self, listener: trio.socket.SocketType) -> None:
        while True:
            try:
                client, _ = await listener.accept()
            except trio.ClosedResourceError:
                return
            except OSError as error:
                if listener.fileno() < 0:
                    return
                if error.errno not in OUT_OF_FILES and error.errno != errno.ECONNABORTED:
                    raise
                await trio.sleep(OUT_OF_FILES_PAUSE_S)
                continue
            self._nursery.start_soon(self._serve, client)

    async def _serve(self, client: trio.socket.SocketType) -> None:
        self._orders.counts.connections += 1
        with client:
            try:
                broker = await dial(self._to)
                client.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
            except OSError:  # as if the broker had hung up
                self._orders.counts.failed_dials += 1
                return
            link = ProxyLink(client, broker, self._orders, is_encrypted=self._is_encrypted)
            self._links[link] = None
            for chaos in self._orders.chaos:
                self._nursery.start_soon(self._end_some_time, link, chaos)
            try:
                await link.run()
            finally:
                del self._links[link]

    async def _end_some_time(self, link: ProxyLink, chaos: ChaosDialer) -> None:
        await trio.sleep(self._chances[chaos].uniform(chaos.shortest_ms, chaos.longest_ms) / 1000)
        if link in self._links and chaos in self._orders.chaos:
            link.end()
            self._orders.counts.ended_by_chaos += 1


async def dial(to: tuple[str, int] | None) -> trio.socket.SocketType:
    """Raises: OSError: nobody is there."""
    if to is None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody to lead clients to")
    broker = trio.socket.socket(trio.socket.AF_INET6 if ":" in to[0] else trio.socket.AF_INET)
    try:
        await broker.connect(to)
        broker.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
    except BaseException:
        broker.close()
        raise
    return broker
