"""Where a consumer's two sides run: in threads, unless a simulation hosts them (`host_with`).

`ConsumerCore` asks for the current host when it is made, and keeps to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from kwire.config import ConsumerConfig
from kwire.fetching.buffer import FetchBuffer
from kwire.mailbox import Mailbox, Waiter
from kwire.network.thread import NetworkSide, NetworkThread

if TYPE_CHECKING:
    from kwire.assignors.base import Assignor


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


@dataclass(frozen=True, slots=True)
class Host:
    """How the network side runs, and what the application sleeps on while it waits for it."""

    new_network_side: NewNetworkSide = NetworkThread
    new_waiter: Callable[[], Waiter] = Lock


_current = Host()


def current_host() -> Host:
    return _current


def host_with(host: Host) -> Host:
    """Consumers made from now on run there, in the whole process; answers where they ran, to be put back."""
    global _current  # consumers are made by user code, which knows of no host
    before, _current = _current, host
    return before
