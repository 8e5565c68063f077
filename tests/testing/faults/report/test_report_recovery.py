"""From when to when a recovery lasts, and how it is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.testing.faults.report.progress import follow
from kwire.testing.faults.report.recovery import HIDDEN_MS, Judgement, recoveries
from kwire.testing.faults.report.run import ExpectedRecovery
from kwire.testing.faults.report.spans import fault_spans
from kwire.testing.invariants.ledger import Ended

if TYPE_CHECKING:
    from kwire.testing.faults.report.recovery import Recovery
    from kwire.testing.invariants.ledger import Event
    from tests.testing.faults.report.report_run import T0, T1, began, healed, ledger, polled, sent, started
else:
    from report_run import T0, T1, began, healed, ledger, polled, sent, started

EXPECTED = {
    "broker-kill": ExpectedRecovery(bound_ms=2_000.0),
    "leader-move": ExpectedRecovery(bound_ms=500.0),
    "consumer-freeze": ExpectedRecovery(bound_ms=12_000.0, since_strike=True),
}
END = Ended(at_ms=60_000)


def recovered(*events: Event | list[Event]) -> list[Recovery]:
    told = ledger(started(), *events, END)
    return list(recoveries(fault_spans(told), follow(told), EXPECTED))


def test_a_lasting_fault_is_recovered_from_when_the_last_partition_has_moved_after_the_heal() -> None:
    (found,) = recovered(
        began(1_000, "broker-kill"),
        [*sent(1_100, 0), *sent(1_200, 0, partition=T1)],
        healed(9_000, "broker-kill"),
        [polled(9_500, 0), polled(10_800, 0, partition=T1)],
    )
    assert (found.took_ms, found.slowest, found.judgement) == (1_800, T1, Judgement.IN_TIME)


def test_past_its_bound_it_is_late() -> None:
    fault = [began(1_000, "broker-kill"), *sent(1_100, 0), healed(9_000, "broker-kill")]
    (found,) = recovered(fault, polled(11_001, 0))
    assert (found.took_ms, found.bound_ms, found.judgement) == (2_001, 2_000, Judgement.LATE)
    (found,) = recovered(fault, polled(11_000, 0))
    assert found.judgement is Judgement.IN_TIME


def test_of_a_recovery_it_is_known_for_how_long_nobody_could_write_either() -> None:
    """A cluster that takes its time over an election keeps producers waiting, too; a consumer that does keeps none."""
    strike: list[Event] = [*sent(990, 0), began(1_000, "leader-move"), *sent(1_050, 1)]
    (brokers_were_late,) = recovered(strike, sent(2_000, 2), polled(2_100, 0, 1, 2))
    assert (brokers_were_late.took_ms, brokers_were_late.unwritten_ms) == (1_100, 950)
    (consumer_was_late,) = recovered(strike, *(sent(at, at) for at in range(1_100, 2_100, 100)), polled(2_100, 0, 1))
    assert (consumer_was_late.took_ms, consumer_was_late.unwritten_ms) == (1_100, 100)


def test_a_momentary_fault_counts_from_its_strike_and_a_last_poll_hides_nothing() -> None:
    """The poll 20 ms after the strike had been under way; what came then waited for long."""
    (found,) = recovered(
        [*sent(990, 0), began(1_000, "leader-move"), polled(1_020, 0), *sent(1_050, 1), polled(1_900, 1)],
    )
    assert (found.took_ms, found.judgement) == (850, Judgement.LATE)


def test_a_fault_that_others_get_over_while_it_lasts_counts_from_its_strike() -> None:
    """A frozen member's partitions go to others long before it is thawed."""
    frozen = [began(1_000, "consumer-freeze"), *sent(1_100, 0), polled(12_100, 0), healed(26_000, "consumer-freeze")]
    (found,) = recovered(frozen)
    assert (found.from_ms, found.took_ms, found.beside, found.judgement) == (1_000, 11_000, (), Judgement.IN_TIME)


def test_what_waits_much_later_is_another_matter() -> None:
    late = 1_000 + HIDDEN_MS + 1
    (found,) = recovered([began(1_000, "leader-move"), *sent(late, 0), polled(late + 5_000, 0)])
    assert (found.took_ms, found.slowest, found.judgement) == (0, None, Judgement.IN_TIME)


def test_a_partition_that_never_moves_again() -> None:
    (found,) = recovered([began(1_000, "leader-move"), *sent(1_100, 0)])
    assert (found.took_ms, found.slowest, found.judgement) == (None, T0, Judgement.NEVER)


def test_without_a_bound_nothing_is_judged_but_that_it_recovers() -> None:
    (found,) = recovered([began(1_000, "slicer"), *sent(1_100, 0), polled(50_000, 0)])
    assert (found.took_ms, found.judgement) == (48_900, Judgement.UNBOUNDED)


def test_what_took_long_because_another_fault_was_at_work_is_not_judged() -> None:
    crowded = [began(900, "black-hole"), began(1_000, "leader-move"), *sent(1_100, 0), healed(5_000, "black-hole")]
    _, found = recovered(crowded, polled(5_100, 0))
    assert (found.took_ms, found.beside, found.judgement) == (4_000, ("black-hole",), Judgement.CROWDED)
    _, found = recovered(crowded, polled(1_200, 0))
    assert (found.beside, found.judgement) == (("black-hole",), Judgement.IN_TIME)


def test_a_fault_that_was_over_before_is_not_at_work() -> None:
    _, found = recovered(
        [began(100, "black-hole"), healed(900, "black-hole"), began(1_000, "leader-move"), *sent(1_100, 0)],
        polled(5_100, 0),
    )
    assert (found.beside, found.judgement) == ((), Judgement.LATE)
