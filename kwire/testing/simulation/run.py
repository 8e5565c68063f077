"""Runs the world of a seed and judges it: what `scripts/simulate` and tests call."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256

from kwire.testing.invariants.check import check
from kwire.testing.invariants.ledger import FaultBegan, Ledger
from kwire.testing.invariants.violation import Violation
from kwire.testing.simulation.drawing import draw, with_async_consumers, with_handling, with_logins, with_user_faults
from kwire.testing.simulation.processing_world import ProcessingWorld
from kwire.testing.simulation.scenario import Scenario
from kwire.testing.simulation.scheduler import VirtualTime, run_deterministically
from kwire.testing.simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOutcome:
    """One run: the same whenever and wherever the seed is run.

    Args:
        checksum: the checksum of all bytes on the network, in order.
        logins: the number of logins that were begun.
    """

    scenario: Scenario
    ledger: Ledger
    checksum: int
    violations: tuple[Violation, ...]
    took_seconds: float
    logins: Counter[str]

    @property
    def simulated_ms(self) -> float:
        return self.ledger.events[-1].at_ms if self.ledger.events else 0.0

    @property
    def digest(self) -> str:
        """The digest of the ledger and of every byte on the wire: two runs differ in it if they differ in anything but
        memory."""
        return sha256(f"{self.ledger.digest()} {self.checksum:08x}".encode()).hexdigest()

    @property
    def faults(self) -> Counter[str]:
        """How often each fault struck."""
        return Counter(event.fault for event in self.ledger.of(FaultBegan))


def simulate(
    seed: int,
    only: tuple[str, ...] | None = None,
    *,
    processing: bool = False,
    user_faults: bool = False,
    secured: bool = False,
    async_consumer: bool = False,
) -> WorldOutcome:
    """Run the world of a seed.

    Args:
        only: The faults that may strike, by name, of those the seed has drawn; None for all of them.
        processing: Whether its members run a `Processor`.
        user_faults: Whether the users' own code fails, too.
        secured: Whether clients have to log in, in half of the worlds over TLS.
        async_consumer: Whether members use an `AsyncConsumer`; those with a `Processor` cannot.
    """
    scenario = with_handling(draw(seed, only)) if processing else draw(seed, only)
    scenario = with_user_faults(scenario) if user_faults else scenario
    scenario = with_logins(scenario, only) if secured else scenario
    scenario = with_async_consumers(scenario) if async_consumer else scenario
    began = time.perf_counter()
    world: list[World] = []

    async def live(virtual: VirtualTime) -> Ledger:
        world.append(World(scenario, virtual) if scenario.handling is None else ProcessingWorld(scenario, virtual))
        return await world[0].live()

    ledger = run_deterministically(seed, live)
    violations = (*check(ledger), *world[0].own_violations())
    return WorldOutcome(
        scenario=scenario,
        ledger=ledger,
        checksum=world[0].network.checksum,
        violations=violations,
        took_seconds=time.perf_counter() - began,
        logins=world[0].logins,
    )
