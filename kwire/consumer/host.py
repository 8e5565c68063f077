"""Where a consumer's two sides run, and a processor's workers: in threads, unless a simulation hosts them.

A `NetworkLink` asks for the current host when it is made, and keeps to it; so do a processor's parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Protocol, TypeVar

from kwire.config import ConsumerConfig
from kwire.fetching.buffer import FetchBuffer
from kwire.mailbox import Mailbox, Waiter
from kwire.network.thread import NetworkSide, NetworkThread

if TYPE_CHECKING:
    from kwire.assignors.base import Assignor

T = TypeVar("T")


class NewNetworkSide(Protocol):
    """Makes a network side that has not started."""

    def __call__(
        self,
        config: ConsumerConfig,
        assignors: Sequence[Assignor],
        mailbox: Mailbox,
        buffer: FetchBuffer,
        *,
        client_id: str,
    ) -> NetworkSide: ...


class Queue(Protocol[T]):
    """What threads hand things over in, as `queue.SimpleQueue` does."""

    def put(self, item: T) -> None: ...

    def get(self, *, timeout: float | None = None) -> T:
        """Raises `queue.Empty` after the timeout, which is in seconds."""
        ...

    def get_nowait(self) -> T: ...

    def empty(self) -> bool: ...


class NewQueue(Protocol):
    """Makes a queue."""

    def __call__(self) -> Queue[T]: ...


class Joinable(Protocol):
    """A thread that has been started."""

    def join(self, timeout: float | None = None) -> None: ...


def start_daemon(main: Callable[[], None], name: str) -> Joinable:
    """A thread, and one that does not keep the process from ending: handlers need not return."""
    thread = Thread(target=main, name=name, daemon=True)
    thread.start()
    return thread


@dataclass(frozen=True, slots=True)
class Host:
    """How the network side runs and what the application sleeps on while it waits for it; threads, and queues between
    them."""

    new_network_side: NewNetworkSide = NetworkThread
    new_waiter: Callable[[], Waiter] = Lock
    new_queue: NewQueue = SimpleQueue
    start_thread: Callable[[Callable[[], None], str], Joinable] = start_daemon


_current = Host()


def current_host() -> Host:
    return _current


def host_with(host: Host) -> Host:
    """Have consumers that are made from now on run on this host, in the whole process; returns the one before."""
    global _current  # consumers are made by user code, which knows of no host
    before, _current = _current, host
    return before
