"""The data of a report: the ledger of a run, its violations, and how the run was made. The harness fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kwire.testing.invariants.ledger import Ledger
from kwire.testing.invariants.violation import Violation

# A partition with unread records that brings nothing for so long is marked in the picture. Longer than a request that
# is repeated or a leader that moves; shorter than any session timeout in use.
SILENCE_LIMIT_MS = 5_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """How much memory a member's process held at one moment."""

    at_ms: float
    member: str
    resident_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRecovery:
    """What is known of one kind of fault, from the catalogue or from a scenario that is stricter.

    Args:
        bound_ms: how long recovery may take; None if nobody says.
        since_strike: whether that counts from the strike, though the fault lasts: others lead for a dead broker.
        formula: the bound in words.
        about: what the fault does, in a sentence.
    """

    bound_ms: float | None = None
    since_strike: bool = False
    formula: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRun:
    """One run, as a report needs it.

    Args:
        name: which client it was: "kwire", "confluent-kafka 2.5". Runs that are compared have different ones.
        title: what the schedule is about; "" if nobody says.
        expected: of each kind of fault, by its name in the ledger.
        schedule: its text, as it was read or drawn.
        replay: the command that does it again.
        versions: of everything that took part, by name, in the order they are to be shown.
    """

    name: str
    ledger: Ledger
    violations: tuple[Violation, ...] = ()
    expected: Mapping[str, ExpectedRecovery] = field(default_factory=dict)
    memory: tuple[MemorySample, ...] = ()
    title: str = ""
    schedule: str = ""
    replay: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    silence_limit_ms: float = SILENCE_LIMIT_MS
