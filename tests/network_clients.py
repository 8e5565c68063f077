"""What tests want to know of network clients and their threads."""

from __future__ import annotations

import threading

from kwire import Consumer
from kwire.network.client import NetworkClient
from kwire.network.thread import NetworkThread


def is_busy(client: NetworkClient) -> bool:
    """Whether something is on its way out, under way, or answered and not handled."""
    under_way = any(each.in_flight for each in client._connections.values())
    return bool(client._waiting or client._completed or under_way)


def network_threads() -> set[threading.Thread]:
    """Those that run now. What another test has left may be among them: compare with those that ran before."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("kwire-network")}


def network_thread_of(consumer: Consumer[bytes, bytes]) -> threading.Thread:
    side = consumer._session.link.thread
    assert isinstance(side, NetworkThread)
    return side._thread
