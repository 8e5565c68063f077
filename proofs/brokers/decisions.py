"""Decisions about answers of a broker that differ from Kafka's: who is right, and what kwire does about it.

Every difference that `scripts/prove brokers` finds has a decision here, and every decision a difference: else it fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from proofs.brokers.outcome import Facts


class Verdict(StrEnum):
    """What kwire does about it."""

    COPES = "copes"
    NOT_ASKED = "is not concerned"
    SHOULD_NOT = "should not cope"
    MENDED = "copes now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """About one difference.

    Args:
        what: The check of an API, as "Fetch: shows where the logs diverge", or the function of a test.
        kafka: What Kafka 4.4 does.
        other: What this broker does; empty where the run tells.
        right: Who, and by what.
        verdict: What kwire does about it.
        why: And why.
        may_vary: Whether it does not show in each run.
    """

    what: str
    kafka: str
    other: str = ""
    right: str
    verdict: Verdict
    why: str
    may_vary: bool = False


@dataclass(frozen=True, slots=True)
class Decisions:
    """About one broker."""

    checks: Sequence[Decision] = ()
    tests: Sequence[Decision] = ()
    of_absent: str = ""
    """What becomes of versions that it does not offer."""

    def of_check(self, api: str, check: str) -> Decision | None:
        return next((each for each in self.checks if each.what == f"{api}: {check}"), None)

    def of_test(self, test: str) -> Decision | None:
        return next((each for each in self.tests if each.what == function_of(test)), None)

    def breaches(self, found: Facts) -> Iterator[str]:
        """Differences without a decision, and decisions about what is no difference."""
        seen = {f"{api}: {check}" for api, _, check, _ in found["differences"]} | set(map(function_of, found["tests"]))
        decided = {each.what: each for each in (*self.checks, *self.tests)}
        for what in sorted(seen - decided.keys()):
            yield f"{what}: it is otherwise than Kafka, and nothing is decided about it"
        for what in sorted(decided.keys() - seen):
            if not decided[what].may_vary:
                yield f"{what}: something is decided about it, and it is as with Kafka"
        for test, why in found["skipped"].items():
            yield f"{test} is skipped ({why}), and nothing is decided about it"
        if found["absent"] and not self.of_absent:
            yield f"{found['absent'][0][0]} is not offered in some version, and nothing is decided about it"


def function_of(test: str) -> str:
    """A test without its parameters."""
    return test.partition("[")[0]
