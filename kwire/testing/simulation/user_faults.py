"""How the users' own code fails in a world, and what its records are like that no deserializer can read: drawn from its
seed, apart from all else.

What a record is like is told by its value: whether it is bad, and how often a handler fails over it. Worlds with such
faults mark their payloads, so that what was not deserialized can be told from what was.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kwire.testing.simulation.handling import number_of

Policy: TypeAlias = Literal["stop", "skip", "dead letter"]

GOOD, BAD = b"+", b"!"
FOR_EVER = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFaults:
    """Shares are of calls.

    Args:
        bad_each: one stretch of this many has records that cannot be read; 0: none.
        stretch: how many records follow each other in a stretch.
        bad_keys: whether the keys of every other such stretch are bad, and not the values.
        in_context: whether deserializers see topic and headers.
        outages: how often what a deserializer asks goes down, for a while.
        polls_again: how often a member polls again before it seeks behind a record that it cannot read.
        listener: how often a listener raises.
        commits_in_listener: how often a listener commits, beside what its member commits anyway.
        commit_callback: how often the callback of a commit raises.
        interrupts: how often a signal handler raises in a call of user code inside a poll.
        interrupts_waiting: the same where the poll itself waits.
        policy: `on_failure` of a processor.
        retries: whether it is given a `Retry`.
        most_attempts: of that; None: it tries for ever.
        failing_each: one record of this many fails once, one three times, one for ever; 0: none.
        dead_letter: how often a dead-letter function raises.
    """

    bad_each: int
    stretch: int
    bad_keys: bool
    in_context: bool
    outages: float
    polls_again: int
    listener: float
    commits_in_listener: float
    commit_callback: float
    interrupts: float
    interrupts_waiting: float
    policy: Policy
    retries: bool
    most_attempts: int | None
    failing_each: int
    dead_letter: float

    # --- records --------------------------------------------------------------------------------------------

    def payload(self, value: str, key: bytes | None, *, may_be_bad: bool) -> tuple[bytes, bytes | None]:
        """Value and key as they are written. A bad key is the record's own: it names its value."""
        bad = self._bad(value) if may_be_bad else None
        marked_key = BAD + value.encode() if bad == "key" else None if key is None else GOOD + key
        return (BAD if bad == "value" else GOOD) + value.encode(), marked_key

    def _bad(self, value: str) -> Literal["key", "value"] | None:
        stretch = number_of(value) // self.stretch
        if not self.bad_each or stretch % self.bad_each:
            return None
        return "key" if self.bad_keys and stretch // self.bad_each % 2 else "value"

    # --- handlers -------------------------------------------------------------------------------------------

    @property
    def attempts(self) -> int | None:
        """How often a processor tries a record before its policy decides; None: it never does."""
        if not self.retries:
            return None if self.policy == "stop" else 1
        return self.most_attempts

    def failures_of(self, value: str) -> int:
        """How often a handler fails over this record."""
        kind = number_of(value) % self.failing_each if self.failing_each else FOR_EVER
        return {1: 1, 2: 3, 3: FOR_EVER}.get(kind, 0)


HARMLESS = UserFaults(
    bad_each=0,
    stretch=1,
    bad_keys=False,
    in_context=False,
    outages=0.0,
    polls_again=0,
    listener=0.0,
    commits_in_listener=0.0,
    commit_callback=0.0,
    interrupts=0.0,
    interrupts_waiting=0.0,
    policy="skip",
    retries=True,
    most_attempts=None,
    failing_each=0,
    dead_letter=0.0,
)


def text_of(payload: bytes | None) -> str:
    """The value that a payload stands for, deserialized or not."""
    return (payload or b"").lstrip(GOOD + BAD).decode("ascii", "backslashreplace")


def draw_user_faults(seed: int) -> UserFaults:
    """Those of a seed."""
    rng = random.Random(f"user faults {seed}")
    return UserFaults(
        bad_each=rng.choice((0, 37, 37, 101)),
        stretch=rng.choice((1, 1, 3)),
        bad_keys=rng.random() < 0.4,
        in_context=rng.random() < 0.5,
        outages=rng.choice((0.0, 0.002, 0.01)),
        polls_again=rng.choice((0, 1, 5)),
        listener=rng.choice((0.0, 0.1, 0.4)),
        commits_in_listener=rng.choice((0.0, 0.3)),
        commit_callback=rng.choice((0.0, 0.2)),
        interrupts=rng.choice((0.0, 0.002, 0.01)),
        interrupts_waiting=rng.choice((0.0, 0.0, 0.01)),
        policy=rng.choice(("stop", "skip", "dead letter")),
        retries=rng.random() < 0.6,
        most_attempts=rng.choice((None, 1, 2, 5)),
        failing_each=rng.choice((0, 23, 61)),
        dead_letter=rng.choice((0.0, 0.1)),
    )
