"""A schedule: the members, the topics, and the faults with their times. Values only.

`schedule_text.py` reads and writes them, `rules.py` says which make sense, `drawing.py` makes them from seeds, and
`scenarios.py` has one for each row of the table of faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from kwire.errors import ConfigError
from kwire.testing.faults.bounds import RunSettings
from kwire.testing.faults.kind import FaultKind, Need, Since, Value
from kwire.testing.faults.targets import WORDS, Target

GroupProtocol: TypeAlias = Literal["classic", "consumer"]
Committing: TypeAlias = Literal["sync", "auto"]

# Clients that the harness runs itself: they take orders, such as to be slow. Java's is its VerifiableConsumer.
OWN_CLIENTS = ("kwire", "confluent")
NAMED_CLIENTS = (*OWN_CLIENTS, "java")
MAX_BROKERS = 9


class ScheduleError(ConfigError):
    """A schedule cannot be parsed, or is invalid. `problems` has a line for each problem."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersLine:
    """Members of the group with the same configuration.

    Args:
        client: one of `NAMED_CLIENTS`, or a command that speaks the lines of a verifiable consumer.
        static: whether each has an instance id.
        assignor: None for the client's or the broker's default.
        committing: after each poll, or in the background.
        read_committed: whether records of open and aborted transactions are held back.
        catches_up: whether each reads a lag beside the newest records (`enable_parallel_rebalance`).
    """

    count: int
    client: str = "kwire"
    protocol: GroupProtocol = "consumer"
    static: bool = False
    assignor: str | None = None
    committing: Committing = "sync"
    read_committed: bool = False
    catches_up: bool = False

    @property
    def takes_orders(self) -> bool:
        return self.client in OWN_CLIENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic that exists from the beginning. It has a replica on every broker, up to three."""

    name: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One fault at a given time, in ms since the run began. `catalogue.strike` makes steps, with defaults.

    Args:
        lasts_ms: the duration; None for a momentary fault.
        values: the values of all parameters of the fault, in the catalogue's order.

    Raises:
        ValueError: the kind of fault does not allow this step; the message says what it allows.
    """

    at_ms: int
    kind: FaultKind
    target: Target
    lasts_ms: int | None
    values: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        if self.at_ms < 0:
            raise ValueError("a fault cannot strike before the run begins")
        if type(self.target) not in self.kind.targets:
            raise ValueError(f"{self.fault} cannot strike {self.target}; allowed: {allowed_targets(self.kind)}")
        self._check_duration()
        self._check_values()

    @property
    def fault(self) -> str:
        """The name of the kind of fault."""
        return self.kind.name

    @property
    def ends_ms(self) -> int:
        """When the fault is healed; of a momentary fault, when it strikes."""
        return self.at_ms + (self.lasts_ms or 0)

    @property
    def settled_ms(self) -> int:
        """When the fault does not count as active any more."""
        return self.ends_ms + self.kind.settles_ms

    @property
    def recovers_from_ms(self) -> int:
        """The time from which the recovery is counted."""
        return self.at_ms if self.kind.since is Since.STRIKE else self.ends_ms

    def amount(self, name: str) -> int:
        """The value of a parameter that is a quantity, in the unit that its name ends with."""
        value = dict(self.values)[name]
        assert isinstance(value, int), f"{name} is no quantity"
        return value

    def choice(self, name: str) -> str:
        """The value of a parameter that is a word."""
        value = dict(self.values)[name]
        assert isinstance(value, str), f"{name} is a quantity"
        return value

    def _check_duration(self) -> None:
        lasting = self.kind.lasting
        if lasting is None:
            if self.lasts_ms is not None:
                raise ValueError(f"{self.fault} is a moment: it lasts for no time")
        elif self.lasts_ms is None or not lasting.least_ms <= self.lasts_ms <= lasting.most_ms:
            raise ValueError(f"{self.fault} lasts for {lasting.least_ms} ms to {lasting.most_ms} ms")

    def _check_values(self) -> None:
        kind = self.kind
        if tuple(name for name, _value in self.values) != tuple(kind.defaults):
            raise ValueError(f"{self.fault} has the parameters {', '.join(kind.defaults) or '(none)'}, in this order")
        for name, value in self.values:
            if not kind.parameter(name).allows(value):
                raise ValueError(f"{name} is {value!r}; {kind.parameter(name).allowed} is allowed")
        for less, more in kind.increasing:
            if self.amount(less) >= self.amount(more):
                raise ValueError(f"{less} has to be below {more}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule of a run.

    Args:
        rate_per_second: the number of records sent to all topics together.
        steps: the steps, sorted by time.
        end_ms: when all faults are healed and sending ends; then the group drains the topics.
    """

    title: str = ""
    brokers: int = 3
    members: tuple[MembersLine, ...] = (MembersLine(count=3),)
    topics: tuple[TopicPlan, ...] = (TopicPlan(name="orders", partitions=6),)
    rate_per_second: int = 500
    settings: RunSettings = field(default_factory=RunSettings)
    steps: tuple[Step, ...] = ()
    end_ms: int = 60_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(sorted(self.steps, key=lambda step: step.at_ms)))

    @property
    def member_count(self) -> int:
        """The number of members at the beginning."""
        return sum(members.count for members in self.members)

    @property
    def needs(self) -> frozenset[Need]:
        """The needs of its faults."""
        return frozenset(need for step in self.steps for need in step.kind.needs)

    def members_of(self, number: int) -> MembersLine:
        """The configuration of the member with this number. Further members have the configurations of the lines in
        turn."""
        for members in self.members:
            if number < members.count:
                return members
            number -= members.count
        return self.members[number % len(self.members)]

    def with_client(self, client: str) -> Schedule:
        """The schedule with another client, for comparisons."""
        return replace(self, members=tuple(replace(members, client=client) for members in self.members))

    def bounds_ms(self) -> Mapping[str, int]:
        """The bound of recovery by fault, counted from `recovers_from_ms`."""
        return {step.fault: step.kind.bound.in_ms(self.settings) for step in self.steps}


def allowed_targets(kind: FaultKind) -> str:
    return ", ".join(WORDS[target] for target in kind.targets)
