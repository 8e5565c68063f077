"""What the proof about asynchronous revocation judges with: rates, shares, and what was handled how often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kwire import TopicPartition
from proofs.async_revocation.members import Approach, WorkLedger
from proofs.async_revocation.prove import (
    FULL_WORK_S,
    MAX_MS,
    MIN_MS,
    PARTITIONS,
    Outcome,
    Rebalance,
    shared_evenly,
    work_s,
)
from proofs.group import Group

if TYPE_CHECKING:
    from collections.abc import Collection

    from proofs.async_revocation.members import Application

A = TopicPartition("a", 0)
B = TopicPartition("a", 1)


@pytest.fixture
def ledger() -> WorkLedger:
    """A had a record in work from 10 to 14 s and one from 15 to 16 s, B one from 10 to 11 s."""
    ledger = WorkLedger()
    ledger.done(A, 0, 10.0, 14.0)
    ledger.done(A, 1, 15.0, 16.0)
    ledger.done(B, 0, 10.0, 11.0)
    return ledger


@pytest.mark.parametrize(
    ("partitions", "since_s", "until_s", "records"),
    [
        ({A}, 10.0, 16.0, 2.0),
        ({A}, 13.0, 15.5, 0.25 + 0.5),
        ({A}, 14.0, 15.0, 0.0),
        ({A, B}, 10.0, 12.0, 0.5 + 1.0),
        ({B}, 11.0, 20.0, 0.0),
    ],
)
def test_a_record_counts_for_the_part_of_its_work_that_lies_between_the_moments(
    ledger: WorkLedger, partitions: set[TopicPartition], since_s: float, until_s: float, records: float
) -> None:
    assert ledger.rate(partitions, since_s, until_s) == pytest.approx(records / (until_s - since_s))


def test_what_was_handled_again_or_passed_by_is_found(ledger: WorkLedger) -> None:
    assert (ledger.handled, ledger.duplicates(), ledger.gaps()) == (3, [], [])
    assert ledger.ends() == {A: 2, B: 1}
    ledger.done(A, 1, 17.0, 18.0)
    ledger.done(B, 3, 17.0, 18.0)
    assert ledger.duplicates() == [(A, 1)]
    assert ledger.gaps() == [(B, 1), (B, 2)]


def test_a_rebalance_is_held_against_as_long_a_time_in_front_of_the_join() -> None:
    """What happens between the join and the request is in neither: B's idleness does not show, A's does."""
    ledger = WorkLedger()
    for second in range(8, 13):
        ledger.done(A, second, second, second + 1.0)
    ledger.done(B, 0, 9.0, 10.0)
    ledger.done(B, 1, 12.0, 13.0)
    ledger.done(A, 99, 13.0, 15.0)
    outcome = Outcome(Group.CONSUMER, Approach.DELAYS)
    outcome.add(Rebalance(frozenset((A,)), joined_s=10.0, requested_s=13.0, ended_s=14.0), ledger)
    outcome.add(Rebalance(frozenset((B,)), joined_s=10.0, requested_s=12.0, ended_s=13.0), ledger)
    assert (outcome.before, outcome.meanwhile) == ([1.0, 1.0], [0.5, 1.0])
    assert (outcome.kept, outcome.worst) == (0.75, 0.5)


def test_what_is_held_against_it_never_goes_back_beyond_the_time_of_full_work() -> None:
    ledger = WorkLedger()
    ledger.done(A, 0, 10.0 - FULL_WORK_S, 10.0)
    outcome = Outcome(Group.CONSUMER, Approach.DELAYS)
    outcome.add(Rebalance(frozenset((A,)), joined_s=10.0, requested_s=10.0, ended_s=100.0), ledger)
    assert outcome.before == [1 / FULL_WORK_S]


def test_a_long_rebalance_weighs_more_than_a_short_one() -> None:
    outcome = Outcome(Group.CONSUMER, Approach.DELAYS, before=[1.0, 0.8], meanwhile=[0.5, 0.8], took_s=[3.0, 1.0])
    assert outcome.kept == pytest.approx((0.5 * 3 + 0.8) / (1.0 * 3 + 0.8))
    assert outcome.worst == 0.5


def test_no_two_partitions_take_as_long() -> None:
    times_ms = sorted(1000.0 * work_s(TopicPartition("a", number)) for number in range(PARTITIONS))
    assert (times_ms[0], times_ms[-1]) == pytest.approx((MIN_MS, MAX_MS))
    assert len(set(times_ms)) == PARTITIONS


def owning(*owned: Collection[int]) -> list[Application]:
    members = [SimpleNamespace(owned=frozenset(TopicPartition("a", number) for number in each)) for each in owned]
    return cast("list[Application]", members)


def test_shared_evenly_means_all_of_it_and_nothing_twice() -> None:
    half, third = PARTITIONS // 2, PARTITIONS // 3
    assert shared_evenly(owning(range(half), range(half, PARTITIONS)))
    assert not shared_evenly(owning(range(half), range(half)))
    assert not shared_evenly(owning(range(half + 1), range(half + 1, PARTITIONS)))
    assert not shared_evenly(owning(range(half), range(half, half + third), range(half + third, PARTITIONS)))
