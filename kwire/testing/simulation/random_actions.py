"""Random actions of a member besides polling and committing: it seeks, pauses and resumes, as its habits say.

Called by `member.py`, after a poll and inside callbacks. What is done is written down where it counts: a pause when it
is there, a resumption before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kwire.errors import KafkaError
from kwire.testing.invariants.ledger import Event, Paused, Resumed, Sought

if TYPE_CHECKING:
    from kwire.consumer.listener import RebalanceConsumer
    from kwire.model import TopicPartition
    from kwire.testing.simulation.habits import Habits

# So far back a member seeks, at most; and to the beginning only while that is not much further.
FURTHEST_BACK = 20
SHORT = 60


class RandomActions:
    """Seeks, pauses and resumes, now and then.

    Args:
        write: takes events for the ledger.
        raised: called with errors of calls.
        sought: called with partitions whose position has changed.
    """

    def __init__(
        self,
        member: str,
        habits: Habits,
        write: Callable[[Event], None],
        now_ms: Callable[[], float],
        raised: Callable[[str, Exception], None],
        sought: Callable[[TopicPartition], object],
        rng: random.Random,
    ) -> None:
        self._member = member
        self._habits = habits
        self._write = write
        self._now_ms = now_ms
        self._raised = raised
        self._on_sought = sought
        self._rng = rng
        self._paused: dict[TopicPartition, None] = {}
        self._reached: dict[TopicPartition, int] = {}

    def reach(self, partition: TopicPartition, position: int) -> None:
        """Note that the member was handed records up to this position."""
        self._reached[partition] = position

    def after_poll(self, consumer: RebalanceConsumer) -> None:
        """Perform a random action; mostly none."""
        with self._telling():
            if self._rng.random() < self._habits.pauses:
                self._pause_or_resume(consumer)
            if self._rng.random() < self._habits.seeks:
                self._seek_back(consumer)

    def on_assigned(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        """Inside the callback."""
        with self._telling():
            for partition in sorted(partitions):
                if self._rng.random() < self._habits.seeks_when_assigned:
                    self._seek(consumer, partition, self._some_way_back(self._reached.get(partition, 0)))

    def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that were revoked or lost: their next owner finds them resumed."""
        for partition in partitions:
            self._paused.pop(partition, None)

    def calm_down(self, consumer: RebalanceConsumer) -> None:
        """Everything is to be drained."""
        with self._telling():
            for partition in list(self._paused):
                self._resume(consumer, partition)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Errors are told, and the member goes on."""
        try:
            yield
        except KafkaError as error:
            self._raised("random action", error)

    def _pause_or_resume(self, consumer: RebalanceConsumer) -> None:
        if self._paused:
            self._resume(consumer, next(iter(self._paused)))
        elif partitions := sorted(consumer.assignment()):
            partition = self._rng.choice(partitions)
            consumer.pause((partition,))
            self._paused[partition] = None
            self._write(Paused(at_ms=self._now_ms(), member=self._member, partition=partition))

    def _resume(self, consumer: RebalanceConsumer, partition: TopicPartition) -> None:
        del self._paused[partition]
        self._write(Resumed(at_ms=self._now_ms(), member=self._member, partition=partition))
        consumer.resume((partition,))

    def _seek_back(self, consumer: RebalanceConsumer) -> None:
        partitions = sorted(consumer.assignment())
        if not partitions:
            return
        partition = self._rng.choice(partitions)
        reached = self._reached.get(partition, 0)  # 0 also while its committed offset is still being looked up
        if reached > SHORT or self._rng.random() < 0.5:
            self._seek(consumer, partition, self._some_way_back(reached))
        else:
            consumer.seek_to_beginning((partition,))
            self._sought(partition, 0)

    def _some_way_back(self, position: int) -> int:
        return max(0, position - self._rng.randint(0, FURTHEST_BACK))

    def _seek(self, consumer: RebalanceConsumer, partition: TopicPartition, offset: int) -> None:
        consumer.seek(partition, offset)
        self._sought(partition, offset)

    def _sought(self, partition: TopicPartition, offset: int) -> None:
        self._on_sought(partition)
        self._write(Sought(at_ms=self._now_ms(), member=self._member, partition=partition, offset=offset))
