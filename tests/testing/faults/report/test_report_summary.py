"""The figures of a run, its verdict, and its JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kwire.testing.faults.report import ExpectedRecovery, MemorySample, as_text, recoveries_as_text, summarize, verdict
from kwire.testing.invariants import Violation
from kwire.testing.invariants.ledger import Ended, Quiet, Raised, Removed

if TYPE_CHECKING:
    from kwire.testing.invariants.ledger import Event
    from tests.testing.faults.report.report_run import (
        T0,
        T1,
        assigned,
        began,
        healed,
        killed,
        polled,
        revoked,
        run,
        sent,
        started,
    )
else:
    from report_run import T0, T1, assigned, began, healed, killed, polled, revoked, run, sent, started

BEGIN = [started(), assigned(10, "a", T0, T1), *sent(100, 0, 1, 2), polled(150, 0, 1, 2)]
END = Ended(at_ms=60_000)


def test_a_run_in_which_all_came() -> None:
    summary = summarize(run(BEGIN, END))
    assert (summary.records.sent, summary.records.received, summary.records.delivered) == (3, 3, 3)
    assert summary.has_passed
    assert verdict(summary) == "kwire passed: 3 records sent, none lost, none twice; 0 faults in 1:00 min."


def test_what_was_overtaken_is_lost_and_what_was_not_reached_is_unread() -> None:
    summary = summarize(run(BEGIN, sent(200, 3, 4, 5, 6), polled(300, 4), END))
    assert (summary.records.lost, summary.records.unread, summary.stuck) == (1, 2, (T0,))
    assert not summary.has_passed
    assert verdict(summary) == "kwire failed: 1 record lost; 1 partition stuck; 0 faults in 1:00 min."


def test_what_retention_took_is_no_loss() -> None:
    summary = summarize(run(BEGIN, sent(200, 3, 4, 5), Removed(at_ms=250, partition=T0, before=5), polled(300, 5), END))
    assert (summary.records.lost, summary.records.unread, summary.records.gone) == (0, 0, 2)
    assert summary.has_passed


def test_violations_are_counted_by_their_rules() -> None:
    found = tuple(Violation(rule=rule, at_ms=1.0, what="") for rule in ("one-owner", "lost-write", "one-owner"))
    summary = summarize(replace(run(BEGIN, END), violations=found))
    assert verdict(summary) == "kwire failed: 3 violations: one-owner (2), lost-write (1); 0 faults in 1:00 min."


def test_a_late_recovery_is_enough_to_fail() -> None:
    fault = [began(1_000, "latency"), *sent(1_100, 3), healed(2_000, "latency"), polled(4_500, 3)]
    assert summarize(run(BEGIN, fault, END)).has_passed
    summary = summarize(replace(run(BEGIN, fault, END), expected={"latency": ExpectedRecovery(bound_ms=2_499.0)}))
    assert not summary.has_passed
    assert verdict(summary) == "kwire failed: 1 recovery past the bound; 1 fault in 1:00 min."


def test_recovery_figures_are_those_of_faults_that_were_alone() -> None:
    alone = [began(1_000, "latency"), *sent(1_100, 3), healed(2_000, "latency"), polled(2_300, 3)]
    other = [began(5_000, "reset"), *sent(5_100, 4), healed(6_000, "reset"), polled(6_500, 4)]
    crowd = [began(9_000, "slicer"), began(9_500, "reset"), *sent(9_600, 5), healed(9_700, "reset"), polled(20_000, 5)]
    summary = summarize(run(BEGIN, alone, other, crowd, healed(21_000, "slicer"), END))
    assert [each.took_ms for each in summary.recoveries] == [300, 500, 0, 10_300]
    assert (summary.recovery_p50_ms, summary.recovery_max_ms) == (300, 500)


def test_handovers_are_counted_in_bursts() -> None:
    first: list[Event] = [revoked(5_000, "a", T1), assigned(5_200, "b", T1)]
    second: list[Event] = [killed(20_000, "a"), assigned(30_000, "b", T0)]
    handovers = summarize(run(BEGIN, started(4_000, "b"), first, second, END)).handovers
    assert (handovers.rebalances, handovers.moves) == (3, 2)
    assert (handovers.assigned, handovers.revoked, handovers.lost) == (3, 1, 0)


def test_draining_is_measured_from_when_all_is_quiet() -> None:
    quiet = [*sent(900, 3), *sent(950, 0, partition=T1), Quiet(at_ms=1_000)]
    drained = [polled(1_200, 3), polled(1_700, 0, partition=T1)]
    later = [*sent(30_000, 4), polled(30_010, 4)]
    assert summarize(run(BEGIN, quiet, drained, later, END)).drained_ms == 700
    assert summarize(run(BEGIN, quiet, drained[:1], END)).drained_ms is None
    assert summarize(run(BEGIN, END)).drained_ms is None


def test_each_partition_has_its_longest_silence() -> None:
    summary = summarize(run(BEGIN, sent(1_000, 3), polled(9_000, 3), sent(10_000, 0, partition=T1), END))
    first, second = summary.silences
    assert (first.partition, first.from_ms, first.to_ms, first.lasted_ms) == (T0, 1_000, 9_000, 8_000)
    assert (second.partition, second.to_ms, second.lasted_ms, second.unread) == (T1, None, 50_000, 1)
    assert summary.longest_silence == second


def test_errors_are_counted_by_the_call_that_raised() -> None:
    raised = [
        Raised(at_ms=at, member="a", call=call, error="KafkaError", message="")
        for at, call in ((200, "poll"), (300, "commit_sync"), (400, "poll"), (500, "run"))
    ]
    summary = summarize(run(BEGIN, raised, END))
    assert summary.errors == {"poll": 2, "commit_sync": 1, "run": 1}
    assert summary.has_passed
    assert "programs that ended by an error     1\n" in as_text([summary])


def test_memory_is_told_by_its_peaks() -> None:
    samples = [("a", 1, 5), ("b", 1, 7), ("a", 2, 9), ("a", 3, 8)]
    memory = tuple(MemorySample(member=name, at_ms=at, resident_bytes=size) for name, at, size in samples)
    peaks = summarize(replace(run(BEGIN, END), memory=memory)).memory
    assert [(peak.member, peak.resident_bytes, peak.at_ms) for peak in peaks] == [("a", 9, 2), ("b", 7, 1)]


def test_the_json_holds_everything_and_is_the_same_each_time() -> None:
    fault = [began(1_000, "latency", "all brokers"), *sent(1_100, 3)]
    one = replace(run(BEGIN, fault, END), versions={"kafka": "4.3.1"})
    text = summarize(one).to_json()
    assert text == summarize(one).to_json()
    read = json.loads(text)
    assert read["passed"] is False
    assert read["records"]["sent"] == 4
    assert read["stuck"] == ["orders-0"]
    assert read["versions"] == {"kafka": "4.3.1"}
    (recovery,) = read["recoveries"]
    assert (recovery["took_ms"], recovery["judgement"], recovery["slowest"]) == (None, "never", "orders-0")
    assert recovery["fault"] == {"fault": "latency", "detail": "all brokers", "began_ms": 1000, "ended_ms": None}


def test_runs_stand_side_by_side_and_what_should_not_be_is_marked() -> None:
    good = summarize(run(BEGIN, END))
    bad = summarize(replace(run(BEGIN, sent(200, 3, 4), polled(300, 4), END), name="another"))
    lines = as_text([good, bad]).splitlines()
    assert lines[0].split() == ["kwire", "another"]
    cells = {line[:34].strip(): line[34:].split() for line in lines[1:]}
    assert cells["verdict"] == ["passed", "failed", "!"]
    assert cells["lost"] == ["0", "1", "!"]
    assert cells["records sent"] == ["3", "5"]
    assert len({line.index(second) for line, second in ((lines[0], "another"), (lines[1], "failed"))}) == 1


def test_recoveries_stand_side_by_side_by_what_the_schedule_says() -> None:
    def lasting(fault: str, at: float, took: float, offset: int, where: str) -> list[Event]:
        come = polled(at + 1_000 + took, offset)
        return [began(at, fault, f"all for 1s: {where}"), *sent(at + 100, offset), healed(at + 1_000, fault), come]

    kwire = [*lasting("latency", 5_000, 400, 3, "broker 0"), *lasting("reset", 9_000, 700, 4, "broker 1")]
    other = [*lasting("latency", 5_100, 2_500, 3, "broker 2"), *lasting("reset", 9_050, 900, 4, "broker 0")]
    *strike, come = lasting("latency", 20_000, 3_000, 5, "broker 0")
    crowd = [*strike, began(21_500, "slicer", "broker 1: broker 1"), come]
    bounds = {"latency": ExpectedRecovery(bound_ms=2_000.0), "reset": ExpectedRecovery(bound_ms=2_000.0)}
    runs = (run(BEGIN, kwire, crowd, END), replace(run(BEGIN, other, END), name="another"))
    text = recoveries_as_text([summarize(replace(each, expected=bounds)) for each in runs])
    assert [re.split(r" {2,}", line) for line in text.splitlines()] == [
        ["", "bound", "kwire", "another"],
        ["0:05.0", "latency all for 1s", "2.0 s", "400 ms", "2.5 s !"],
        ["0:09.0", "reset all for 1s", "2.0 s", "700 ms", "900 ms"],
        ["0:20.0", "latency all for 1s", "2.0 s", "(3.0 s)", "\N{EN DASH}"],
        ["0:21.5", "slicer broker 1", "\N{EN DASH}", "2.5 s", "\N{EN DASH}"],
    ]


def test_an_empty_run_has_a_summary_too_and_has_not_passed() -> None:
    summary = summarize(run())
    assert (summary.records.sent, summary.duration_ms, summary.recovery_max_ms) == (0, 0, None)
    assert json.loads(summary.to_json())["passed"] is False
    assert verdict(summary).startswith("kwire failed: nothing was sent;")
