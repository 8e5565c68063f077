"""What a group needs besides itself: settings, chance, and somebody to wake. One object for all groups of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from random import Random

    from kwire.testing.cluster.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class Client:
    """The client that has sent a request, and the version of the request."""

    client_id: str
    client_host: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorServices:
    """Settings and services of the coordinator. `notify` is `ClusterState.changed.notify`."""

    settings: BrokerSettings
    random: Random
    notify: Callable[[Hashable], None]

    def new_member_id(self, prefix: str) -> str:
        """A member id as Kafka makes them: the client id or the group instance id, and a random UUID."""
        return f"{prefix}-{UUID(int=self.random.getrandbits(128), version=4)}"
