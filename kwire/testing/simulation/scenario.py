"""The scenario of a world: its size, the behaviour of its members, and its faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from kwire.testing.cluster.releases import LATEST
from kwire.testing.simulation.habits import AsyncHabits, Habits
from kwire.testing.simulation.handling import Handling
from kwire.testing.simulation.logins import Logins
from kwire.testing.simulation.user_faults import UserFaults

GroupProtocol: TypeAlias = Literal["classic", "consumer"]
Committing: TypeAlias = Literal["auto", "sync", "async"]

GROUP = "simulated"
SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_INTERVAL_MS = 1_000
# Shorter than the defaults, so that a world sees many of each in its few minutes.
REQUEST_TIMEOUT_MS = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault of a run. Times are ms since the run began."""

    fault: str
    begins_ms: float
    ends_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A world as its seed has drawn it.

    Args:
        topics: partitions of each topic; their names are made of their numbers.
        busy_ms: when sending ends and the last fault is healed.
        release: the brokers' release of Apache Kafka.
        grows_at_end: whether the last thing to happen is a topic that grows, and not a member that joins.
        handling: how members work with a `Processor`; None for members that poll and process by themselves.
        user_faults: how the users' own code fails; None: it does not.
        logins: how connections are secured; None: they are not.
        async_habits: how members use an `AsyncConsumer`; None for members with a `Consumer`.
    """

    seed: int
    brokers: int
    topics: tuple[int, ...]
    members: int
    protocol: GroupProtocol
    assignors: tuple[str, ...]
    committing: Committing
    poll_seconds: float
    processing_ms: float
    max_poll_records: int
    records_per_second: float
    busy_ms: float
    strikes: tuple[Strike, ...]
    release: str = LATEST.name
    grows_at_end: bool = False
    habits: Habits = field(default_factory=Habits)
    handling: Handling | None = None
    user_faults: UserFaults | None = None
    logins: Logins | None = None
    async_habits: AsyncHabits | None = None

    @property
    def topic_names(self) -> tuple[str, ...]:
        return tuple(f"topic{number}" for number in range(len(self.topics)))
