"""What the proof about asynchronous revocation judges with: how busy threads were, and what was handled how often."""

from __future__ import annotations

import pytest
from prove_async_revocation import Approach, Outcome, WorkLedger
from prove_group import Group

from kwire import TopicPartition

A = TopicPartition("a", 0)
B = TopicPartition("a", 1)


@pytest.fixture
def ledger() -> WorkLedger:
    """A was busy from 10 to 14 s and from 15 to 16 s, B from 10 to 11 s."""
    ledger = WorkLedger()
    ledger.done(A, 0, 10.0, 14.0)
    ledger.done(A, 1, 15.0, 16.0)
    ledger.done(B, 0, 10.0, 11.0)
    return ledger


@pytest.mark.parametrize(
    ("partitions", "since_s", "until_s", "share"),
    [({A}, 10.0, 16.0, 5 / 6), ({A}, 13.0, 15.5, 0.6), ({A, B}, 10.0, 12.0, 0.75), ({B}, 11.0, 20.0, 0.0)],
)
def test_work_counts_as_far_as_it_lies_between_the_moments(
    ledger: WorkLedger, partitions: set[TopicPartition], since_s: float, until_s: float, share: float
) -> None:
    assert ledger.busy_share(partitions, since_s, until_s) == pytest.approx(share)


def test_what_was_handled_again_or_passed_by_is_found(ledger: WorkLedger) -> None:
    assert (ledger.handled, ledger.duplicates(), ledger.gaps()) == (3, [], [])
    ledger.done(A, 1, 17.0, 18.0)
    ledger.done(B, 3, 17.0, 18.0)
    assert ledger.duplicates() == [(A, 1)]
    assert ledger.gaps() == [(B, 1), (B, 2)]


def test_a_long_handover_weighs_more_than_a_short_one() -> None:
    outcome = Outcome(Group.CONSUMER, Approach.DELAYS, before=[1.0, 0.8], meanwhile=[0.5, 0.8], took_s=[3.0, 1.0])
    assert outcome.kept == pytest.approx((0.5 * 3 + 0.8) / (1.0 * 3 + 0.8))
