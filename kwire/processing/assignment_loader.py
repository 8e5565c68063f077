"""Partitions on their way in: what their group has committed, and of which topics they are, is being asked. Until both
are known nothing of them is delivered, for nobody can say what an earlier life has finished.

Nobody waits for the answers, so an outage holds up neither partitions that are open nor `stop()`.
Contract: used by the processor's thread alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from kwire.clock import NEVER_MS
from kwire.events import Reply
from kwire.model import OffsetAndMetadata, PartitionInfo, TopicPartition
from kwire.processing.completion_tracker import CompletionTracker

# Brokers may not know a topic for a moment: one that was just made, or is gone.
ASK_AGAIN_MS = 1_000.0


class AsksCommitted(Protocol):
    """Who knows what was committed. Answers may take as long as they like; what can be tried again is tried again."""

    def ask_committed(
        self, partitions: Collection[TopicPartition]
    ) -> Reply[dict[TopicPartition, OffsetAndMetadata | None]]: ...


class AsksPartitions(Protocol):
    """Who knows of which topics they are."""

    def ask_partitions(self, topics: Collection[str]) -> Reply[dict[str, list[PartitionInfo]]]: ...


@dataclass(slots=True, eq=False)
class _Loading:
    wanted: set[TopicPartition]
    """Without those that were taken away since: should they come back, that is another question."""
    committed: Reply[dict[TopicPartition, OffsetAndMetadata | None]]
    topics: Reply[dict[str, list[PartitionInfo]]]

    @property
    def is_answered(self) -> bool:
        return self.committed.done and self.topics.done

    def abandon(self) -> None:
        self.committed.abandon()
        self.topics.abandon()


class AssignmentLoader:
    """Asks what was committed of new partitions, and opens them when that is known.

    Args:
        completion: Where they are opened.
        is_busy: Whether records of a partition are still in work that it had before; it is not opened as long as they
            are.
    """

    def __init__(
        self,
        completion: CompletionTracker,
        commits: AsksCommitted,
        look_ups: AsksPartitions,
        is_busy: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        self._completion = completion
        self._commits = commits
        self._look_ups = look_ups
        self._is_busy = is_busy
        self._questions: list[_Loading] = []
        self._answers: dict[TopicPartition, tuple[OffsetAndMetadata | None, UUID]] = {}
        """Of those that are busy."""
        self._unknown: set[TopicPartition] = set()
        """No broker knows their topics now."""
        self._again_ms = NEVER_MS

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Those that are not open yet."""
        return frozenset(self._unknown).union(self._answers, *(question.wanted for question in self._questions))

    @property
    def has_answers(self) -> bool:
        """Whether something can be opened."""
        return any(question.is_answered for question in self._questions) or not all(map(self._is_busy, self._answers))

    @property
    def due_ms(self) -> float:
        """When there is something to ask again."""
        return self._again_ms

    def begin(self, partitions: Collection[TopicPartition]) -> None:
        """They were assigned."""
        if partitions:
            topics = {tp.topic for tp in partitions}
            committed, known = self._commits.ask_committed(partitions), self._look_ups.ask_partitions(topics)
            self._questions.append(_Loading(set(partitions), committed, known))

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """They are not ours any more."""
        self._unknown.difference_update(partitions)
        for tp in self._answers.keys() & set(partitions):
            del self._answers[tp]
        for question in self._questions:
            question.wanted.difference_update(partitions)
        for question in [question for question in self._questions if not question.wanted]:
            question.abandon()
            self._questions.remove(question)

    def settle(self, now_ms: float) -> None:
        """Open what can be opened.

        Raises:
            KafkaError: A broker's refusal, which asking again would not change.
        """
        for question in [question for question in self._questions if question.is_answered]:
            self._questions.remove(question)
            self._hear(question, now_ms)
        if free := [tp for tp in self._answers if not self._is_busy(tp)]:
            answers = {tp: self._answers.pop(tp) for tp in free}
            self._completion.open(
                {tp: at for tp, (at, _) in answers.items()}, {tp.topic: id_ for tp, (_, id_) in answers.items()}
            )
        if now_ms >= self._again_ms:
            again, self._unknown, self._again_ms = self._unknown, set(), NEVER_MS
            self.begin(again)

    def _hear(self, question: _Loading, now_ms: float) -> None:
        committed, topics = question.committed.result(), question.topics.result()
        topic_ids = {topic: infos[0].topic_id for topic, infos in topics.items() if infos}
        known = [tp for tp in sorted(question.wanted) if tp.topic in topic_ids]
        self._answers |= {tp: (committed[tp], topic_ids[tp.topic]) for tp in known}
        if unknown := question.wanted.difference(known):
            self._unknown |= unknown
            self._again_ms = min(self._again_ms, now_ms + ASK_AGAIN_MS)
