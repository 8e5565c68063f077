"""Which of many partitions have something to say."""

from __future__ import annotations

from kwire.fetching.idle_partitions import COOLS_AFTER_MS, IdlePartitions
from kwire.model import TopicPartition

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_one_that_nothing_is_known_of_is_lively() -> None:
    assert not IdlePartitions().is_quiet(ONE)


def test_one_that_comes_with_many_is_quiet_until_it_says_something() -> None:
    liveliness = IdlePartitions()
    liveliness.came(ONE, with_many=True)
    assert liveliness.is_quiet(ONE)
    liveliness.heard(ONE, has_more=True, now_ms=0.0)
    assert not liveliness.is_quiet(ONE)


def test_nothing_is_known_any_more_of_one_that_comes_again() -> None:
    liveliness = IdlePartitions()
    liveliness.heard(ONE, has_more=False, now_ms=0.0)
    liveliness.heard(OTHER, has_more=True, now_ms=0.0)
    liveliness.came(ONE, with_many=False)
    liveliness.came(OTHER, with_many=True)
    assert not liveliness.is_quiet(ONE)
    assert liveliness.is_quiet(OTHER)


def test_one_that_is_read_to_its_end_is_quiet_at_once() -> None:
    liveliness = IdlePartitions()
    liveliness.heard(ONE, has_more=False, now_ms=0.0)
    assert liveliness.is_quiet(ONE)


def test_one_that_has_spoken_is_given_time() -> None:
    liveliness = IdlePartitions()
    liveliness.heard(ONE, has_more=True, now_ms=0.0)
    liveliness.heard(ONE, has_more=False, now_ms=1.0)
    assert not liveliness.is_quiet(ONE)
    assert liveliness.cool(COOLS_AFTER_MS - 1.0) == []
    assert liveliness.cool(COOLS_AFTER_MS) == [ONE]
    assert liveliness.is_quiet(ONE)
    assert liveliness.cool(COOLS_AFTER_MS) == []


def test_who_speaks_again_has_time_again() -> None:
    liveliness = IdlePartitions()
    liveliness.heard(ONE, has_more=True, now_ms=0.0)
    liveliness.heard(OTHER, has_more=True, now_ms=1.0)
    liveliness.heard(ONE, has_more=True, now_ms=COOLS_AFTER_MS)
    assert liveliness.cool(COOLS_AFTER_MS + 1.0) == [OTHER]


def test_nothing_is_known_of_one_that_was_forgotten() -> None:
    liveliness = IdlePartitions()
    liveliness.heard(ONE, has_more=False, now_ms=0.0)
    liveliness.heard(OTHER, has_more=True, now_ms=0.0)
    liveliness.forget(ONE)
    liveliness.forget(OTHER)
    assert not liveliness.is_quiet(ONE)
    assert liveliness.cool(COOLS_AFTER_MS) == []
