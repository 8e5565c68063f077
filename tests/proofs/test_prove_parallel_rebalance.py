"""`scripts/prove parallel-rebalance`: what its judge makes of what members tell."""

from __future__ import annotations

import json

import pytest

from proofs.parallel_rebalance.prove import Judge


@pytest.fixture
def judge() -> Judge:
    return Judge()


def hear(judge: Judge, what: str, *parts: tuple[int, int, int, bool], **more: object) -> None:
    judge.hear(json.dumps({"what": what, **({"parts": parts} if parts else {}), **more}))


def test_what_was_not_committed_may_come_again_to_the_next_member(judge: Judge) -> None:
    hear(judge, "polled", (0, 0, 10, False))
    hear(judge, "processed", (0, 0, 10, False))
    judge.killed()
    hear(judge, "polled", (0, 0, 10, True))
    assert (judge.duplicates, judge.uncommitted, judge.from_children, judge.broken) == (10, 10, 10, [])


def test_what_was_committed_may_not(judge: Judge) -> None:
    hear(judge, "polled", (0, 0, 10, False))
    hear(judge, "committed")
    judge.killed()
    assert not judge.uncommitted
    hear(judge, "polled", (0, 9, 12, True))
    assert judge.broken == ["1 offsets came again that were committed, such as (0, 9)"]


def test_one_member_is_given_an_offset_once(judge: Judge) -> None:
    hear(judge, "polled", (0, 5, 10, False))
    hear(judge, "polled", (0, 0, 6, True))
    assert judge.broken == ["1 offsets came twice to one member, such as (0, 5)"]


def test_what_is_given_up_and_comes_back_may_come_again(judge: Judge) -> None:
    hear(judge, "polled", (0, 5, 10, False), (1, 0, 2, False))
    hear(judge, "given up", partitions=[0])
    hear(judge, "polled", (0, 5, 10, False))
    assert not judge.broken


def test_committed_says_no_more_than_what_is_processed(judge: Judge) -> None:
    hear(judge, "processed", (0, 0, 5, False), (0, 6, 9, True))
    hear(judge, "low", offsets=[[0, 5]])
    assert not judge.broken
    hear(judge, "low", offsets=[[0, 9]])
    assert judge.broken == ["committed() was 9 in partition 0, and 5 was not processed"]
