"""How a member continues after a record that it cannot deserialize: it polls again, a few times, and then does what the
error says.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.errors import KafkaError
from kwire.testing.invariants.ledger import Event, Sought
from kwire.testing.invariants.user_events import GivenUp
from kwire.testing.simulation.blocking import sleep
from kwire.testing.simulation.user_faults import text_of

if TYPE_CHECKING:
    from kwire.consumer.listener import RebalanceConsumer
    from kwire.errors import RecordDeserializationError
    from kwire.model import TopicPartition

AGAIN_WITHIN_SECONDS = 0.2


class SteppingOver:
    """Handles records that a member cannot deserialize.

    Args:
        polls_again: the number of polls before it seeks.
        write: takes events for the ledger.
        raised: called with errors of calls.
        on_sought: called with partitions whose position has changed.
    """

    def __init__(
        self,
        member: str,
        polls_again: int,
        write: Callable[[Event], None],
        now_ms: Callable[[], float],
        raised: Callable[[str, BaseException], None],
        on_sought: Callable[[TopicPartition], object],
        rng: random.Random,
    ) -> None:
        self._member = member
        self._polls_again = polls_again
        self._write = write
        self._now_ms = now_ms
        self._raised = raised
        self._on_sought = on_sought
        self._rng = rng
        self._refused: dict[tuple[TopicPartition, int], int] = {}

    def step(self, consumer: RebalanceConsumer, error: RecordDeserializationError, *, is_hurried: bool) -> None:
        """Handle this error of a poll. A member that is hurried seeks at once."""
        place = error.partition, error.offset
        self._refused[place] = self._refused.get(place, 0) + 1
        if is_hurried or self._refused[place] > self._polls_again:
            self._seek_behind(consumer, error)
        else:
            sleep(self._rng.uniform(0.0, AGAIN_WITHIN_SECONDS))

    def _seek_behind(self, consumer: RebalanceConsumer, error: RecordDeserializationError) -> None:
        """Written down first: it may be committed as soon as the seek is done, before that returns."""
        at, offset = error.partition, error.offset + 1
        if at not in consumer.assignment():
            return
        now_ms = self._now_ms()
        self._write(GivenUp(at_ms=now_ms, member=self._member, value=text_of(error.value_data), how="seek"))
        self._write(Sought(at_ms=now_ms, member=self._member, partition=at, offset=offset))
        self._on_sought(at)
        try:
            consumer.seek(at, offset)
        except KafkaError as failure:
            self._raised("seek", failure)
