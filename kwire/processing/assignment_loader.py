"""Newly assigned partitions: asks what their group has committed, and for the ids of their topics. Until both are known
no record of theirs is delivered, for nobody can say which ones an earlier owner has finished.

If the group has no commit, where the partition begins is asked as well, and committed. Otherwise the next owner would
begin where the reset policy says, which may be behind unfinished records. Records may be delivered meanwhile.

Nobody waits for the answers, so an outage holds up neither partitions that are open nor `stop()`.
Contract: used by the processor's thread alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from kwire.clock import NEVER_MS
from kwire.errors import KafkaError
from kwire.events import FoundTopics, Reply
from kwire.model import OffsetAndMetadata, TopicPartition
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

    def ask_partitions(self, topics: Collection[str]) -> Reply[FoundTopics]: ...


class AsksPosition(Protocol):
    """Who knows the position of a partition, once it has one."""

    def ask_position(self, partition: TopicPartition) -> Reply[int]: ...


@dataclass(slots=True, eq=False)
class _Question:
    wanted: set[TopicPartition]
    """Without those that were taken away since: should they come back, that is another question."""
    committed: Reply[dict[TopicPartition, OffsetAndMetadata | None]]
    topics: Reply[FoundTopics]

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
        is_busy: Answers whether records of an earlier assignment of a partition are still in work; so long the
            partition is not opened.
    """

    def __init__(
        self,
        completion: CompletionTracker,
        commits: AsksCommitted,
        look_ups: AsksPartitions,
        positions: AsksPosition,
        is_busy: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        self._completion = completion
        self._commits = commits
        self._look_ups = look_ups
        self._positions = positions
        self._is_busy = is_busy
        self._questions: list[_Question] = []
        self._answers: dict[TopicPartition, tuple[OffsetAndMetadata | None, UUID]] = {}
        """Answers about partitions that are busy."""
        self._unknown: set[TopicPartition] = set()
        """Partitions whose topics no broker knows now."""
        self._starts: dict[TopicPartition, Reply[int]] = {}
        """Questions for the positions of open partitions of which the group has no commit."""
        self._again_ms = NEVER_MS

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that are not open yet."""
        return frozenset(self._unknown).union(self._answers, *(question.wanted for question in self._questions))

    @property
    def has_answers(self) -> bool:
        """Whether something can be opened, or begins."""
        return (
            any(question.is_answered for question in self._questions)
            or not all(map(self._is_busy, self._answers))
            or any(start.done for start in self._starts.values())
        )

    @property
    def due_ms(self) -> float:
        """When there is something to ask again."""
        return self._again_ms

    def begin(self, partitions: Collection[TopicPartition]) -> None:
        """Ask about these, which were assigned."""
        if partitions:
            topics = {tp.topic for tp in partitions}
            committed, known = self._commits.ask_committed(partitions), self._look_ups.ask_partitions(topics)
            self._questions.append(_Question(set(partitions), committed, known))

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop all questions about these: they are not assigned any more."""
        self._unknown.difference_update(partitions)
        for tp in self._starts.keys() & set(partitions):
            self._starts.pop(tp).abandon()
        for tp in self._answers.keys() & set(partitions):
            del self._answers[tp]
        for question in self._questions:
            question.wanted.difference_update(partitions)
        for question in [question for question in self._questions if not question.wanted]:
            question.abandon()
            self._questions.remove(question)

    def settle(self, now_ms: float) -> None:
        """Open what can be opened, and note where what is open begins.

        Raises:
            KafkaError: A broker's refusal, which asking again would not change.
        """
        for question in [question for question in self._questions if question.is_answered]:
            self._questions.remove(question)
            self._take_answer(question, now_ms)
        if free := [tp for tp in self._answers if not self._is_busy(tp)]:
            self._open({tp: self._answers.pop(tp) for tp in free})
        for tp in [tp for tp, start in self._starts.items() if start.done]:
            self._note_start(tp, self._starts.pop(tp))
        if now_ms >= self._again_ms:
            again, self._unknown, self._again_ms = self._unknown, set(), NEVER_MS
            self.begin(again)

    def _open(self, answers: dict[TopicPartition, tuple[OffsetAndMetadata | None, UUID]]) -> None:
        self._completion.open(
            {tp: at for tp, (at, _) in answers.items()}, {tp.topic: id_ for tp, (_, id_) in answers.items()}
        )
        for tp, (at, _) in answers.items():
            if at is None:
                self._starts[tp] = self._positions.ask_position(tp)

    def _note_start(self, tp: TopicPartition, start: Reply[int]) -> None:
        with contextlib.suppress(KafkaError):  # it has none, which a poll raises, or is not ours any more
            self._completion.begin(tp, start.result())

    def _take_answer(self, question: _Question, now_ms: float) -> None:
        committed, topics = question.committed.result(), question.topics.result()
        topic_ids = {topic: infos[0].topic_id for topic, infos in topics.items() if infos}
        known = [tp for tp in sorted(question.wanted) if tp.topic in topic_ids]
        self._answers |= {tp: (committed[tp], topic_ids[tp.topic]) for tp in known}
        if unknown := question.wanted.difference(known):
            self._unknown |= unknown
            self._again_ms = min(self._again_ms, now_ms + ASK_AGAIN_MS)
