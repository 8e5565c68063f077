"""What lasted from when to when: faults that overlap, members that come back, partitions with two owners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.testing.faults.report.spans import fault_spans, member_spans, owner_spans
from kwire.testing.invariants.ledger import Closed, Ended, Frozen, Thawed

if TYPE_CHECKING:
    from tests.testing.faults.report.report_run import (
        T0,
        T1,
        assigned,
        began,
        healed,
        killed,
        ledger,
        lost,
        revoked,
        started,
    )
else:
    from report_run import T0, T1, assigned, began, healed, killed, ledger, lost, revoked, started


def test_of_two_faults_alike_the_first_one_ends_first() -> None:
    spans = fault_spans(
        ledger(began(100, "latency", "x"), began(200, "latency", "y"), healed(300, "latency"), healed(500, "latency"))
    )
    assert [(span.detail, span.began_ms, span.ended_ms) for span in spans] == [("x", 100, 300), ("y", 200, 500)]


def test_a_momentary_fault_is_over_when_it_strikes() -> None:
    (span,) = fault_spans(ledger(began(100, "leader-move")))
    assert (span.ended_ms, span.over_ms) == (None, 100)


def test_an_end_without_a_beginning_is_none_of_ours() -> None:
    assert fault_spans(ledger(healed(100, "latency"))) == ()


def test_a_fault_is_at_work_between_its_ends_only() -> None:
    (span,) = fault_spans(ledger(began(100, "latency"), healed(200, "latency")))
    assert span.is_at_work(150, 160)
    assert span.is_at_work(50, 101)
    assert not span.is_at_work(0, 100)
    assert not span.is_at_work(200, 300)


def test_a_member_ends_once_and_frozen_time_ends_with_it() -> None:
    first, second = member_spans(
        ledger(
            started(),
            started(10, "b"),
            Frozen(at_ms=20, member="a"),
            Thawed(at_ms=50, member="a"),
            Frozen(at_ms=60, member="b"),
            killed(90, "b"),
            Closed(at_ms=95, member="a", took_ms=1, timeout_ms=2),
            Ended(at_ms=100),
        )
    )
    assert (first.ended_ms, first.ending, first.frozen) == (95, "closed", ((20, 50),))
    assert (second.ended_ms, second.ending, second.frozen) == (90, "killed", ((60, 90),))


def test_a_member_that_is_still_there_at_the_end_has_no_ending() -> None:
    (member,) = member_spans(ledger(started(), Frozen(at_ms=40, member="a"), Ended(at_ms=100)))
    assert (member.ended_ms, member.ending, member.frozen) == (100, "", ((40, 100),))


def test_partitions_go_from_hand_to_hand_and_by_every_way_out() -> None:
    spans = owner_spans(
        ledger(
            assigned(10, "a", T0, T1),
            revoked(20, "a", T1),
            assigned(30, "b", T1),
            lost(40, "b", T1),
            killed(50, "a"),
            assigned(60, "b", T0),
            Ended(at_ms=100),
        )
    )
    told = [(span.partition, span.member, span.began_ms, span.ended_ms, span.ending) for span in spans]
    assert told == [
        (T0, "a", 10, 50, "killed"),
        (T0, "b", 60, 100, ""),
        (T1, "a", 10, 20, "revoked"),
        (T1, "b", 30, 40, "lost"),
    ]
