"""A consumer that is made with topics and without a group reads all partitions of the topics, new ones too."""

from __future__ import annotations

from functools import partial
from typing import Generic

from kwire.clock import NEVER_MS, Deadline, monotonic_ms
from kwire.consumer.look_up_calls import LookUpCalls
from kwire.consumer.state import ConsumerState
from kwire.consumer.steps import Steps
from kwire.events import Assign, FoundTopics, PollStarted, Reply
from kwire.model import K, TopicPartition, V

# A topic that is not there is looked for again after this long.
MISSING_MS = 1_000.0


class WholeTopics(Generic[K, V]):
    """Part of a `ConsumerSession`. Looks after `metadata_max_age_ms` whether there are new partitions.

    Attributes:
        names: The topics; empty when this consumer reads something else.
    """

    def __init__(self, state: ConsumerState[K, V], look_ups: LookUpCalls) -> None:
        self._state = state
        self._look_ups = look_ups
        self._asked: Reply[FoundTopics] | None = None
        self._look_at_ms = NEVER_MS
        self.names: frozenset[str] = frozenset()

    def read(self, topics: frozenset[str]) -> None:
        """Read these from the next poll on; none to stop that."""
        if self._asked is not None:
            self._asked.abandon()
        self.names, self._asked = topics, None
        self._look_at_ms = monotonic_ms() if topics else NEVER_MS

    def sooner(self, deadline: Deadline) -> Deadline:
        """When a poll that waits has to look, at the latest."""
        return Deadline(self._look_at_ms) if self._look_at_ms < deadline.at_ms else deadline

    def are_due(self, now_ms: float) -> bool:
        """Whether `settle` may do anything."""
        return self._asked is not None or now_ms >= self._look_at_ms

    def settle(self) -> Steps[None]:
        """Ask which partitions there are, when it is time, and assign those that have been found."""
        if self._asked is None and monotonic_ms() >= self._look_at_ms:
            self._asked, self._look_at_ms = self._look_ups.ask_partitions(self.names), NEVER_MS
        if self._asked is None or not self._asked.done:
            return
        asked, self._asked = self._asked, None
        self._look_at_ms = monotonic_ms() + MISSING_MS  # also if this raises
        yield from self._assign(asked.result())

    def _assign(self, found: FoundTopics) -> Steps[None]:
        wanted = frozenset(TopicPartition(info.topic, info.partition) for infos in found.values() for info in infos)
        if wanted and not self.names - found.keys():
            self._look_at_ms = monotonic_ms() + self._state.config.metadata_max_age_ms
        # An answer that lacks some takes nothing away, but a topic that is no longer named is not read on.
        wanted |= {tp for tp in self._state.assignment if tp.topic in self.names}
        if wanted != self._state.assignment:
            yield from self._state.link.command("assign", partial(Assign, wanted))
            self._state.link.mailbox.post(PollStarted())  # this poll looks up their positions
            self._state.assignment = wanted  # last: what an exception has cut short is done again
