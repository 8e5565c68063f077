"""Partitions on their way in: opened when both answers are there, asked again while nobody knows their topic."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

import pytest

from kwire import OffsetAndMetadata, PartitionInfo, TopicPartition
from kwire.clock import NEVER_MS
from kwire.errors import NoOffsetForPartitionError, TopicAuthorizationError
from kwire.events import FoundTopics, Reply
from kwire.processing import OffsetMap, encode
from kwire.processing.assignment_loader import ASK_AGAIN_MS, AssignmentLoader
from kwire.processing.completion_tracker import CompletionTracker

A0, A1, B0 = (TopicPartition(*each) for each in (("a", 0), ("a", 1), ("b", 0)))
TOPIC_IDS = {"a": UUID(int=1), "b": UUID(int=2)}
Committed = dict[TopicPartition, OffsetAndMetadata | None]


class Asked:
    """A consumer that keeps the questions, for the test to answer."""

    def __init__(self) -> None:
        self.commits: list[tuple[set[TopicPartition], Reply[Committed]]] = []
        self.topics: list[Reply[FoundTopics]] = []
        self.positions: dict[TopicPartition, Reply[int]] = {}

    def ask_position(self, partition: TopicPartition) -> Reply[int]:
        self.positions[partition] = Reply()
        return self.positions[partition]

    def ask_committed(self, partitions: Collection[TopicPartition]) -> Reply[Committed]:
        self.commits.append((set(partitions), Reply()))
        return self.commits[-1][1]

    def ask_partitions(self, topics: Collection[str]) -> Reply[FoundTopics]:
        self.topics.append(Reply())
        return self.topics[-1]

    def answer(self, number: int = 0, *, at: OffsetAndMetadata | None = None, known: Collection[str] = "ab") -> None:
        partitions, reply = self.commits[number]
        reply.succeed(dict.fromkeys(partitions, at))
        self.topics[number].succeed(FoundTopics({topic: [info(topic)] for topic in known}))


def info(topic: str) -> PartitionInfo:
    return PartitionInfo(
        topic=topic,
        partition=0,
        leader=None,
        leader_epoch=None,
        replicas=(),
        in_sync_replicas=(),
        topic_id=TOPIC_IDS[topic],
    )


def office() -> tuple[AssignmentLoader, Asked, CompletionTracker]:
    completion, asked = CompletionTracker(with_map=True), Asked()
    return AssignmentLoader(completion, asked, asked, asked), asked, completion


def test_a_partition_opens_when_both_answers_are_there() -> None:
    loader, asked, completion = office()
    loader.begin({A0})
    asked.commits[0][1].succeed({A0: OffsetAndMetadata(7)})
    loader.settle(0.0)
    assert (loader.has_answers, loader.partitions) == (False, frozenset({A0}))
    assert completion.progress(A0) is None
    asked.topics[0].succeed(FoundTopics({"a": [info("a")]}))
    assert [loader.has_answers] == [True]
    loader.settle(0.0)
    assert (loader.has_answers, loader.partitions) == (False, frozenset())
    assert completion.begins_at(A0) == OffsetAndMetadata(7)


def test_each_assignment_is_a_question_of_its_own() -> None:
    loader, asked, completion = office()
    loader.begin({A0})
    loader.begin({A1, B0})
    asked.answer(1, at=OffsetAndMetadata(3))
    loader.settle(0.0)
    assert loader.partitions == {A0}
    assert (completion.progress(A0), completion.begins_at(B0)) == (None, OffsetAndMetadata(3))


def test_what_was_taken_away_is_not_opened_by_an_answer_that_comes_later() -> None:
    loader, asked, completion = office()
    loader.begin({A0, A1})
    loader.forget({A0})
    asked.answer(at=OffsetAndMetadata(3))
    loader.settle(0.0)
    assert completion.progress(A0) is None
    assert completion.progress(A1) is not None


def test_what_came_back_is_opened_by_the_answer_that_was_asked_for_then() -> None:
    loader, asked, completion = office()
    loader.begin({A0})
    loader.forget({A0})
    assert asked.commits[0][1].abandoned
    assert asked.topics[0].abandoned
    loader.begin({A0})
    asked.answer(0, at=OffsetAndMetadata(3))
    loader.settle(0.0)
    assert completion.progress(A0) is None
    asked.answer(1, at=OffsetAndMetadata(5))
    loader.settle(0.0)
    assert completion.begins_at(A0) == OffsetAndMetadata(5)


def test_a_topic_that_nobody_knows_now_is_asked_about_again() -> None:
    """What was finished would run again, if its map could not be told from one of another topic."""
    loader, asked, completion = office()
    at = OffsetAndMetadata(0, encode(0, OffsetMap(TOPIC_IDS["a"], None, (range(1, 3),))))
    loader.begin({A0, B0})
    asked.answer(at=at, known="b")
    loader.settle(100.0)
    assert loader.partitions == {A0}
    assert loader.due_ms == 100.0 + ASK_AGAIN_MS
    loader.settle(loader.due_ms - 1.0)
    assert len(asked.commits) == 1
    loader.settle(loader.due_ms)
    assert loader.due_ms == NEVER_MS
    assert asked.commits[1][0] == {A0}
    asked.answer(1, at=at)
    loader.settle(2_000.0)
    assert loader.partitions == frozenset()
    assert list(completion.deliver(A0, [0, 1, 2, 3], lambda: [0] * 4, OffsetAndMetadata(4))) == [0, 3]


def test_an_unknown_topic_that_is_taken_away_is_not_asked_about_again() -> None:
    loader, asked, _ = office()
    loader.begin({A0})
    asked.answer(known="")
    loader.settle(0.0)
    loader.forget({A0})
    loader.settle(loader.due_ms)
    assert len(asked.commits) == 1


def test_a_refusal_is_raised_and_not_asked_about_again() -> None:
    loader, asked, _ = office()
    loader.begin({A0})
    asked.commits[0][1].fail(TopicAuthorizationError({"a"}))
    asked.topics[0].succeed(FoundTopics({}))
    with pytest.raises(TopicAuthorizationError):
        loader.settle(0.0)
    assert loader.partitions == frozenset()
    loader.settle(ASK_AGAIN_MS)
    assert len(asked.commits) == 1


def test_a_partition_that_comes_back_while_its_records_are_in_work_opens_when_they_are_done() -> None:
    """Other queues may have them this time, which know of nothing."""
    completion, asked, busy = CompletionTracker(with_map=True), Asked(), {A0}
    loader = AssignmentLoader(completion, asked, asked, asked, busy.__contains__)
    loader.begin({A0, A1})
    asked.answer(at=OffsetAndMetadata(3))
    loader.settle(0.0)
    assert (loader.partitions, loader.has_answers) == (frozenset({A0}), False)
    busy.clear()
    assert loader.has_answers
    loader.settle(0.0)
    assert (loader.partitions, completion.begins_at(A0)) == (frozenset(), OffsetAndMetadata(3))


def test_who_is_taken_away_while_busy_is_not_opened() -> None:
    completion, asked, busy = CompletionTracker(with_map=True), Asked(), {A0}
    loader = AssignmentLoader(completion, asked, asked, asked, busy.__contains__)
    loader.begin({A0})
    asked.answer(at=OffsetAndMetadata(3))
    loader.settle(0.0)
    loader.forget({A0})
    busy.clear()
    loader.settle(0.0)
    assert (loader.partitions, completion.progress(A0)) == (frozenset(), None)


# --- where a group without a commit begins ----------------------------------------------------------------------------


def opened(*, at: OffsetAndMetadata | None = None) -> tuple[AssignmentLoader, Asked, CompletionTracker]:
    loader, asked, completion = office()
    loader.begin({A0})
    asked.answer(at=at)
    loader.settle(0.0)
    return loader, asked, completion


def test_where_a_group_without_a_commit_begins_is_asked_and_offered_before_anything_comes() -> None:
    loader, asked, completion = opened()
    assert (loader.partitions, loader.has_answers, completion.offers()) == (frozenset(), False, {})
    asked.positions[A0].succeed(12)
    assert [loader.has_answers] == [True]
    loader.settle(0.0)
    assert [loader.has_answers] == [False]
    assert completion.offers()[A0].position == OffsetAndMetadata(12)


def test_where_a_group_with_a_commit_begins_is_not_asked() -> None:
    assert opened(at=OffsetAndMetadata(3))[1].positions == {}


def test_what_was_delivered_before_the_position_is_known_says_where_it_begins() -> None:
    loader, asked, completion = opened()
    completion.deliver(A0, [12, 13], lambda: [0, 0], OffsetAndMetadata(14))
    asked.positions[A0].succeed(14)
    loader.settle(0.0)
    assert completion.begins_at(A0) == OffsetAndMetadata(12)


def test_a_partition_that_has_no_position_or_was_taken_away_begins_nowhere() -> None:
    loader, asked, completion = opened()
    asked.positions[A0].fail(NoOffsetForPartitionError({A0: None}))
    loader.settle(0.0)
    assert completion.offers() == {}
    loader, asked, completion = opened()
    loader.forget({A0})
    assert asked.positions[A0].abandoned
    asked.positions[A0].succeed(12)
    assert not loader.has_answers
