"""What tests want to know of a network client."""

from __future__ import annotations

from kwire.network.client import NetworkClient


def is_busy(client: NetworkClient) -> bool:
    """Whether something is on its way out, under way, or answered and not handled."""
    under_way = any(each.in_flight for each in client._connections.values())
    return bool(client._waiting or client._completed or under_way)
