"""A member that drops, repeats, reorders, commits ahead or sticks is found out, by the rules made for it.

One run on a real Kafka for all of them: nothing is struck, and each member has a topic of its own (`planted_member.py`
says how, and why its fault is certain to happen), so every violation names the fault that it is about.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults import harness
from kwire.testing.faults.bounds import RunSettings
from kwire.testing.faults.harness import run
from kwire.testing.faults.order import RunOrder
from kwire.testing.faults.report import summarize
from kwire.testing.faults.schedule import MembersLine, Schedule, TopicPlan
from kwire.testing.invariants import recovery
from kwire.testing.invariants.ledger import Sent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.testing.faults.report.run import FaultRun
    from kwire.testing.invariants import Violation
    from tests.testing.faults.planted_member import ENOUGH, FAULTS, STRIKES_FROM, STRUCK_PARTITION
else:
    from planted_member import ENOUGH, FAULTS, STRIKES_FROM, STRUCK_PARTITION

pytestmark = [pytest.mark.integration, pytest.mark.faults, pytest.mark.slow]

PLANTED_MEMBER = Path(__file__).with_name("planted_member.py")
# `recovery` and `unseen` or `lost-write` say the same of a record that nobody got: that it did not come in its time,
# and that it did not come at all. `poll-skip` saw who left it out.
CAUGHT_BY = {
    "drop": {"poll-skip", "lost-write", "recovery"},
    "repeat": {"nonmonotonic-poll"},
    "reorder": {"poll-skip", "nonmonotonic-poll"},
    "commit-ahead": {"commit-ahead"},
    "stick": {"unseen", "recovery"},
}


def schedule() -> Schedule:
    """Seven seconds of traffic, at the least, for a group that reads: twice what a fault waits for.

    Nothing is struck, so long timeouts cost no time; they keep a slow machine from expelling anybody, or from failing
    the commit that a fault consists of.
    """
    programs = {fault: shlex.join([sys.executable, str(PLANTED_MEMBER), fault]) for fault in FAULTS}
    return Schedule(
        brokers=1,
        members=tuple(MembersLine(count=1, client=program) for program in programs.values()),
        topics=tuple(TopicPlan(name=fault, partitions=2) for fault in FAULTS),
        rate_per_second=20 * 2 * len(FAULTS),
        settings=RunSettings(request_timeout_ms=30_000, max_poll_interval_ms=60_000),
        end_ms=12_000,
    )


@pytest.fixture(scope="module")
def planted() -> Iterator[FaultRun]:
    """Two of them leave records unread for ever, and nobody else has anything to recover from: so all of the time that
    a recovery may take would be waited out for nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (harness, recovery):
            patch.setattr(module, "RECOVERY_MS", 5_000.0)
        outcome = run(RunOrder(schedule=schedule(), name="planted"))
    yield outcome.run
    shutil.rmtree(outcome.logs)


def blamed_on(planted: FaultRun, fault: str) -> list[Violation]:
    """What is said of the partition in which it strikes."""
    return [violation for violation in planted.violations if f"{fault}-{STRUCK_PARTITION}" in violation.what]


def test_each_fault_has_had_the_records_for_it(planted: FaultRun) -> None:
    for fault in FAULTS:
        partition = TopicPartition(fault, STRUCK_PARTITION)
        assert sum(sent.partition == partition for sent in planted.ledger.of(Sent)) > STRIKES_FROM + 2 * ENOUGH


@pytest.mark.parametrize("fault", CAUGHT_BY)
def test_a_planted_fault_is_found_by_its_rules(planted: FaultRun, fault: str) -> None:
    assert {violation.rule for violation in blamed_on(planted, fault)} == CAUGHT_BY[fault]


def test_nobody_is_blamed_for_anything_else(planted: FaultRun) -> None:
    """Neither the sound consumer beside them, nor they where they are sound."""
    explained = {violation for fault in CAUGHT_BY for violation in blamed_on(planted, fault)}
    assert [str(violation) for violation in planted.violations if violation not in explained] == []


def test_the_report_counts_what_they_did(planted: FaultRun) -> None:
    summary = summarize(planted)
    assert not summary.has_passed
    assert (summary.records.lost, summary.records.unexplained) == (1, 1)  # what was dropped, and what came twice
    assert set(summary.stuck) == {TopicPartition(fault, STRUCK_PARTITION) for fault in ("drop", "stick")}
