"""kwire, Java's client and librdkafka share a group: the short version of `scripts/prove mixed-groups`."""

from __future__ import annotations

import shutil

import pytest

from kwire.testing.faults import harness
from kwire.testing.faults.report import summarize
from kwire.testing.invariants.ledger import Assigned, FaultBegan
from proofs.schedules import mixed_group

# A member of kwire closes, one of Java's client is killed; each comes back.
CHANGES = 4
PARTITIONS = 6
MEMBERS = 6
MIN_RECORDS = 1_000


@pytest.mark.slow
@pytest.mark.only("kafka", reason="Java's client is in the group")
@pytest.mark.parametrize("name", ["cooperative-sticky", "consumer"])
def test_a_group_of_three_clients_loses_nothing(name: str) -> None:
    outcome = harness.run(mixed_group(name, CHANGES, PARTITIONS))
    shutil.rmtree(outcome.logs)
    summary, ledger = summarize(outcome.run), outcome.run.ledger
    assert [str(violation) for violation in outcome.run.violations] == []
    assert summary.has_passed
    assert summary.stuck == ()
    assert summary.records.lost == summary.records.unread == summary.records.unexplained == 0
    assert summary.records.sent > MIN_RECORDS
    assert [each.fault for each in ledger.of(FaultBegan)] == ["consumer-close", "consumer-kill"]
    owners = {place_of(each.member) for each in ledger.of(Assigned) if each.partitions}
    assert len(owners) == MEMBERS


def place_of(process: str) -> str:
    """`member0` of `member0.2`, which is the second process in that place."""
    return process.partition(".")[0]
