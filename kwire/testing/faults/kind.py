"""Kinds of faults: parameters, targets, duration, what they exclude, and the bound of recovery.

Values only. The modules beside this one list the kinds; schedules are checked against them, and reports quote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from kwire.testing.faults.bounds import Bound
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.targets import TargetKind

Value: TypeAlias = int | str
"""The value of a parameter: a whole number of its unit, or one of its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A parameter that is a quantity.

    Args:
        name: the name in code, with its unit.
        word: the name in a schedule; empty for the parameter that needs no name.
        least, most: the range, in the unit.
    """

    name: str
    word: str = ""
    quantity: Quantity
    default: int
    least: int = 0
    most: int
    doc: str

    def parse(self, word: str) -> Value:
        """Raises: ValueError, with what is allowed."""
        value = self.quantity.parse(word)
        if not self.allows(value):
            raise ValueError(f"{self.allowed} is allowed")
        return value

    def allows(self, value: Value) -> bool:
        return isinstance(value, int) and self.least <= value <= self.most

    def render(self, value: Value) -> str:
        return self.quantity.render(int(value))

    @property
    def allowed(self) -> str:
        return f"{self.quantity.render(self.least)} to {self.quantity.render(self.most)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A parameter that is one of a few words, and so needs no name in a schedule."""

    name: str
    default: str
    words: tuple[str, ...]
    doc: str

    def parse(self, word: str) -> Value:
        """Raises: ValueError, with what is allowed."""
        if not self.allows(word):
            raise ValueError(f"{self.allowed} is allowed")
        return word

    def allows(self, value: Value) -> bool:
        return value in self.words

    def render(self, value: Value) -> str:
        return str(value)

    @property
    def allowed(self) -> str:
        return " or ".join(self.words)


Parameter: TypeAlias = Amount | Choice


class FaultClaim(Enum):
    """A resource that a fault claims while it lasts: two faults must not claim the same one at a time."""

    BROKER_DOWN = "a broker's process"
    LEADERSHIP = "who leads"
    COORDINATION = "who coordinates"
    REACH = "whether the broker can be reached"
    BROKER_LATENCY = "the delay to the broker"
    BROKER_BANDWIDTH = "the bandwidth to the broker"
    BROKER_CHUNKS = "the size of chunks to the broker"
    BROKER_CLOSING = "how connections to the broker end"
    ANSWERS = "the broker's answers"
    MEMBER = "the member"
    MEMBERSHIP = "who is in the group"
    TOPIC = "the topic"
    TRAFFIC = "what is sent to the topic"
    CLOCK = "the clock"
    QUOTA = "the quotas"


class Need(Enum):
    """A precondition of a fault."""

    THREE_BROKERS = "three brokers: with fewer nobody can take over, or the controllers have no majority"
    STATIC_MEMBERS = "members with instance ids: write 'static' in their line"
    OWN_RUNNER = "a client of the harness's own runner, kwire or confluent: others take no orders"
    ONE_TOPIC_LEFT = "a second topic, so that somebody has something to read meanwhile"
    OLDER_STORAGE = "storage that an older release of Kafka can read: the brokers of such a run begin with that"
    PERMISSIONS = "brokers that ask who may do what: those of such a run do, and allow everything that nobody denies"
    TWO_CURSORS = "members that catch up with a lag beside the newest records: write 'parallel-rebalance' in their line"
    LIBFAKETIME = "libfaketime on this machine, loaded into the members (LD_PRELOAD), of their wall clocks alone"


class Since(Enum):
    """The moment from which the recovery time is counted."""

    STRIKE = "from the strike: the others take over while it lasts"
    HEAL = "from the heal: before it there is nothing that could be done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """The duration of a fault. A fault without one is momentary."""

    default_ms: int = 10_000
    least_ms: int = 100
    most_ms: int = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One kind of fault, as the catalogue describes it.

    Args:
        description: one sentence, as a report shows it.
        heals: what ends the fault; of a momentary one, what happens afterwards.
        claims: the resources that no other fault may claim at the same time on a target that may be the same.
        increasing: pairs of parameters, of which the first has to be smaller than the second.
        settles_ms: how long after its end the fault still counts as active: a broker that is back has to catch up.
        rows: the rows of the table of faults that it covers.
        bound: the time until every partition with records has progressed again, counted from `since`.
        simulated_as: the name of the same fault in `kwire.testing.simulation`, if there is one.
    """

    name: str
    description: str
    targets: tuple[TargetKind, ...]
    parameters: tuple[Parameter, ...] = ()
    lasting: Lasting | None = None
    heals: str
    claims: tuple[FaultClaim, ...]
    needs: tuple[Need, ...] = ()
    increasing: tuple[tuple[str, str], ...] = ()
    settles_ms: int = 0
    rows: tuple[int, ...]
    bound: Bound
    since: Since = Since.HEAL
    simulated_as: str | None = None

    @property
    def defaults(self) -> Mapping[str, Value]:
        """The default of each parameter, by its name."""
        return {parameter.name: parameter.default for parameter in self.parameters}

    def parameter(self, name: str) -> Parameter:
        """The parameter with this name. Raises: KeyError."""
        return {parameter.name: parameter for parameter in self.parameters}[name]
