"""Whole runs of faults against a real Kafka of their own: a sound consumer passes, a broken one does not."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from kwire.testing.faults.harness import run
from kwire.testing.faults.order import Order, Outcome, Progress
from kwire.testing.faults.report import summarize
from kwire.testing.faults.schedule_text import parse
from kwire.testing.invariants.ledger import Closed, Killed, Sent

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BROKEN = f"{sys.executable} {Path(__file__).with_name('skipping_member.py')}"
# Of all sorts: a broker, a network, a member, a topic.
STORY = """
members 2 kwire consumer
topic orders partitions 4
rate 200/s
set broker_session_timeout_ms 3s
set session_timeout_ms 6s
at 6s    latency all 20ms for 3s
at 7s    partition-growth topic orders 2
at 8s    leader-move partition orders-1
at 9s    consumer-kill member 1 for 3s
at 15s   broker-kill leader orders-0 for 5s
end 22s
"""
CALM = """
members 1 "COMMAND" consumer
topic orders partitions 2
rate 100/s
set session_timeout_ms 2s
set heartbeat_interval_ms 500ms
end 5s
"""


def carried_out(text: str, watched: list[Progress]) -> Outcome:
    outcome = run(Order(schedule=parse(text), name="client"), watched.append)
    shutil.rmtree(outcome.logs)
    return outcome


def test_kwire_goes_through_faults_of_all_sorts() -> None:
    watched: list[Progress] = []
    outcome = carried_out(STORY, watched)
    summary = summarize(outcome.run)
    assert [str(violation) for violation in outcome.run.violations] == []
    assert summary.stuck == ()
    assert [each.fault.fault for each in summary.recoveries] == [
        "latency",
        "partition-growth",
        "leader-move",
        "consumer-kill",
        "broker-kill",
    ]
    assert all(each.took_ms is not None for each in summary.recoveries)
    assert summary.records.sent > 2_000
    assert summary.records.lost == summary.records.unread == 0
    assert {sent.partition.partition for sent in outcome.run.ledger.of(Sent)} == set(range(6))  # the new ones too
    assert len(list(outcome.run.ledger.of(Killed))) == 1
    assert len(list(outcome.run.ledger.of(Closed))) == 2
    phases = list(dict.fromkeys(progress.phase for progress in watched))
    assert phases[0] == "starting Kafka"
    assert phases[-1] == "closing"
    assert any(progress.faults == ("broker-kill",) for progress in watched)


def test_a_consumer_that_skips_records_is_found_out() -> None:
    outcome = carried_out(CALM.replace("COMMAND", BROKEN), [])
    rules = {violation.rule for violation in outcome.run.violations}
    assert {"poll-skip", "lost-write"} <= rules
    assert not summarize(outcome.run).has_passed
