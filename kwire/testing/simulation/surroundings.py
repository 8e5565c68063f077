"""The interface between faults and their world, which `world.World` implements."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kwire.testing.cluster.state import ClusterState
    from kwire.testing.invariants.ledger import Event
    from kwire.testing.simulation.member import SimulatedMember
    from kwire.testing.simulation.scheduler import VirtualTime
    from kwire.testing.simulation.transport import Network


class Surroundings(Protocol):
    """The part of a world that faults may use."""

    @property
    def rng(self) -> random.Random: ...
    @property
    def cluster(self) -> ClusterState: ...
    @property
    def network(self) -> Network: ...
    @property
    def time(self) -> VirtualTime: ...
    @property
    def group(self) -> str: ...

    def members(self) -> list[SimulatedMember]:
        """The members that are alive, oldest first."""
        ...

    def grow_topic(self, name: str) -> int:
        """Add a partition to the topic. Returns how many it has then."""
        ...

    def start_member(self) -> SimulatedMember: ...

    def kill_member(self, member: SimulatedMember) -> None: ...

    def freeze_member(self, member: SimulatedMember) -> None: ...

    def thaw_member(self, member: SimulatedMember) -> None: ...

    def write(self, event: Event) -> None: ...

    def now_ms(self) -> float: ...

    def start_soon(self, task: Callable[[], Awaitable[None]]) -> None: ...


@dataclass(frozen=True, slots=True)
class Injected:
    """The description of an injected fault, and the function that heals it."""

    detail: str
    heal: Callable[[], None]


Fault = Callable[[Surroundings], Injected]


def nothing() -> None:
    """Heals nothing, for faults that need no healing."""
