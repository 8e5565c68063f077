"""Failures of a member's handlers with a `Processor`: which records fail, by which policy, and what the user does about
it.

A record that is passed by is told of before anything behind it can begin, so attempts are counted here as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias

from kwire.errors import ProcessingError, RecordDeserializationError
from kwire.model import Record, TopicPartition
from kwire.processing import Retry
from kwire.processing.policies import DeadLetter
from kwire.testing.simulation.scenario import Scenario
from kwire.testing.simulation.user_faults import HARMLESS

BytesRecord: TypeAlias = Record[bytes, bytes]
Place: TypeAlias = tuple[TopicPartition, int]

RETRY_BACKOFF_SECONDS = 0.05
RETRY_BACKOFF_MAX_SECONDS = 1.0
# A processor that stops so often over one record gets another policy, or another handler.
MAX_STOPS = 2


class PoisonedError(Exception):
    """A record that no handler can handle."""


class Failing:
    """The failures of one member.

    Args:
        give_up: called with each value that is passed by from now on.

    Attributes:
        buries_all: Whether a dead-letter function takes what has failed, whatever the policy: the last processor has
            stopped over a record that cannot be deserialized.
    """

    def __init__(self, scenario: Scenario, give_up: Callable[[str], None]) -> None:
        self.buries_all = False
        self._has_faults = scenario.user_faults is not None
        self._faults = scenario.user_faults or HARMLESS
        self._buries = scenario.handling is not None and scenario.handling.buries
        self._give_up = give_up
        self._stops: Counter[Place] = Counter()
        self._mended: set[Place] = set()
        self._failures: Counter[str] = Counter()
        self._attempts: Counter[Place] = Counter()

    # --- the processor's arguments --------------------------------------------------------------------------

    def retry(self) -> Retry | None:
        if not self._faults.retries:
            return None
        return Retry(
            max_attempts=self._faults.most_attempts,
            backoff=RETRY_BACKOFF_SECONDS,
            backoff_max=RETRY_BACKOFF_MAX_SECONDS,
            terminal=(PoisonedError,),
        )

    def policy(self, bury: DeadLetter[bytes, bytes]) -> Literal["stop", "skip"] | DeadLetter[bytes, bytes]:
        """`on_failure`.

        Args:
            bury: the dead-letter function, where that is it.
        """
        if not self._has_faults:
            return bury if self._buries else "skip"
        return bury if self.buries_all or self._faults.policy == "dead letter" else self._faults.policy

    # --- records --------------------------------------------------------------------------------------------

    def comes_anew(self, place: Place) -> None:
        """Attempts are counted from here on."""
        self._attempts.pop(place, None)

    def fails(self, record: BytesRecord, value: str) -> bool:
        """Over some records several times, or for ever; a user who has seen a processor stop over one mends that."""
        self._failures[value] += 1
        return self._failures[value] <= self._faults.failures_of(value) and _place_of(record) not in self._mended

    def failed(self, record: BytesRecord, value: str) -> None:
        """One more attempt. If it is the last one, the processor passes the record by."""
        place, most = _place_of(record), self._faults.attempts
        self._attempts[place] += 1
        if most is not None and self._attempts[place] >= most:
            self.passed_by(value)

    def passed_by(self, value: str) -> None:
        """It has failed for good: where that is the policy, it counts as done."""
        if self._has_faults and self._faults.policy == "skip":
            self._give_up(value)

    # --- processors that stop -------------------------------------------------------------------------------

    def stopped(self, error: BaseException) -> None:
        """The next one will stop there again, until the user does something about it."""
        if not isinstance(error, ProcessingError):
            return
        place = error.topic_partition, error.offset
        self._stops[place] += 1
        if self._stops[place] >= MAX_STOPS:
            self.buries_all = self.buries_all or isinstance(error.__cause__, RecordDeserializationError)
            self._mended.add(place)


def what_is_not_raw(record: BytesRecord, error: RecordDeserializationError) -> str:
    """A dead letter has the raw bytes of what could not be deserialized; else this says what it has."""
    found = record.key if error.origin == "key" else record.value
    wanted = error.key_data if error.origin == "key" else error.value_data
    return "" if found == wanted is not None else f"the {error.origin} of {record} is not {wanted!r}"


def _place_of(record: BytesRecord) -> Place:
    return record.topic_partition, record.offset
