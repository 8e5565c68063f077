"""One broker: its address, whether it runs, and what dies with its process: connections and fetch sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

    from kwire.testing.cluster.fetch_sessions import FetchSessionCache


@dataclass(slots=True, eq=False)
class Broker:
    """A broker. `connections` are the cancel scopes of the tasks that serve its connections, oldest first."""

    node_id: int
    fetch_sessions: FetchSessionCache
    rack: str | None = None
    host: str = "127.0.0.1"
    port: int = 0
    is_up: bool = True
    is_paused: bool = False
    is_fenced: bool = False
    """Whether the controller has fenced it, because it was paused for too long."""
    is_listening: bool = False
    connections: dict[trio.CancelScope, None] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        """The key that `ClusterState.changed` is notified of when the broker starts, stops, listens, is paused or
        resumed."""
        return ("broker", self.node_id)

    @property
    def is_active(self) -> bool:
        """Whether it may lead and coordinate: it runs and is not fenced."""
        return self.is_up and not self.is_fenced

    def cut_connections(self) -> int:
        """Close every connection, responses under way included. Returns how many there were."""
        cut = len(self.connections)
        for scope in tuple(self.connections):
            scope.cancel()
        return cut
