"""Which of many partitions have something to say."""

from __future__ import annotations

from kwire.fetching.idle_partitions import IDLE_AFTER_MS, IdlePartitions
from kwire.model import TopicPartition

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_one_that_nothing_is_known_of_is_active() -> None:
    assert not IdlePartitions().is_idle(ONE)


def test_one_that_comes_with_many_is_idle_until_it_says_something() -> None:
    idle = IdlePartitions()
    idle.added(ONE, with_many=True)
    assert idle.is_idle(ONE)
    idle.answered(ONE, has_more=True, now_ms=0.0)
    assert not idle.is_idle(ONE)


def test_nothing_is_known_any_more_of_one_that_comes_again() -> None:
    idle = IdlePartitions()
    idle.answered(ONE, has_more=False, now_ms=0.0)
    idle.answered(OTHER, has_more=True, now_ms=0.0)
    idle.added(ONE, with_many=False)
    idle.added(OTHER, with_many=True)
    assert not idle.is_idle(ONE)
    assert idle.is_idle(OTHER)


def test_one_that_is_read_to_its_end_is_idle_at_once() -> None:
    idle = IdlePartitions()
    idle.answered(ONE, has_more=False, now_ms=0.0)
    assert idle.is_idle(ONE)


def test_one_that_has_spoken_is_given_time() -> None:
    idle = IdlePartitions()
    idle.answered(ONE, has_more=True, now_ms=0.0)
    idle.answered(ONE, has_more=False, now_ms=1.0)
    assert not idle.is_idle(ONE)
    assert idle.expire(IDLE_AFTER_MS - 1.0) == []
    assert idle.expire(IDLE_AFTER_MS) == [ONE]
    assert idle.is_idle(ONE)
    assert idle.expire(IDLE_AFTER_MS) == []


def test_who_speaks_again_has_time_again() -> None:
    idle = IdlePartitions()
    idle.answered(ONE, has_more=True, now_ms=0.0)
    idle.answered(OTHER, has_more=True, now_ms=1.0)
    idle.answered(ONE, has_more=True, now_ms=IDLE_AFTER_MS)
    assert idle.expire(IDLE_AFTER_MS + 1.0) == [OTHER]


def test_nothing_is_known_of_one_that_was_forgotten() -> None:
    idle = IdlePartitions()
    idle.answered(ONE, has_more=False, now_ms=0.0)
    idle.answered(OTHER, has_more=True, now_ms=0.0)
    idle.forget(ONE)
    idle.forget(OTHER)
    assert not idle.is_idle(ONE)
    assert idle.expire(IDLE_AFTER_MS) == []
