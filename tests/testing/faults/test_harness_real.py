"""A whole run of faults of every family against a real Kafka: a sound consumer comes through it.

Judged are the invariants, that all is drained, and that nothing is missing: they hold on any machine. How soon a group
recovers from each fault depends on how busy the machine is; that is judged where one fault strikes at a time, in the
scenarios of `kwire faults`.
"""

from __future__ import annotations

import shutil

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.harness import run
from kwire.testing.faults.order import Progress, RunOrder
from kwire.testing.faults.report import FaultRun, summarize
from kwire.testing.faults.schedule_text import parse
from kwire.testing.invariants.ledger import Closed, FaultBegan, Frozen, Killed, Raised, Sent

pytestmark = [pytest.mark.integration, pytest.mark.faults, pytest.mark.slow]

# Faults overlap wherever two may: the time goes into sessions that have to end, of a member and of a broker.
STORY = """
members 3 kwire consumer
topic orders partitions 4
topic events partitions 2
rate 300/s
set broker_session_timeout_ms 4s
set session_timeout_ms 6s
set request_timeout_ms 4s
# bytes that are tampered with
at 6s    bit-flip broker 0 payload every 2 for 6s
at 6s    oversized-frame broker 1 every 2 for 6s
at 6s    unknown-error broker 2 commits every 2 for 4s
# the network
at 6s    latency broker 2 20ms jitter 10ms for 10s
at 11s   reset all for 1s
at 13s   half-open broker 0 for 6s
# topics
at 6s    partition-growth topic orders 2
at 7s    large-record partition events-0 2MiB
at 14s   delete-records topic events 50%
at 28s   topic-forbidden topic events for 5s  # nothing else is at work, so somebody reads it
# the cluster, and a broker's process
at 10s   coordinator-move group
at 13s   leader-move topic orders
at 21s   broker-kill leader orders-0 for 5s
# members
at 14s   consumer-kill member 1 for 3s
at 14s   consumer-freeze member 2 for 9s  # a session ends before the broker does, which may be the coordinator
end 34s
"""


# Over TLS nobody between can tamper with answers; all else strikes. Sessions end every 8 s.
SECURED_STORY = "\n".join(
    line for line in STORY.splitlines() if not {"bit-flip", "oversized-frame", "unknown-error"} & {*line.split()}
)


TOLD_FOR_MS = 15_000.0


def assert_unbroken(judged: FaultRun) -> None:
    """No invariant is broken. Else what was told before it is in the message: the next run may be a sound one."""
    broken, ledger = judged.violations, judged.ledger
    told = [
        line
        for event, line in zip(ledger.events, ledger.lines(), strict=True)
        for violation in broken
        if 0 <= violation.at_ms - event.at_ms < TOLD_FOR_MS and str(getattr(event, "partition", "")) in violation.what
    ]
    assert not broken, "\n".join([*map(str, broken), *dict.fromkeys(told)])


def test_kwire_goes_through_faults_of_every_family() -> None:
    schedule, watched = parse(STORY), list[Progress]()
    outcome = run(RunOrder(schedule=schedule, name="kwire"), watched.append)
    shutil.rmtree(outcome.logs)
    summary, ledger = summarize(outcome.run), outcome.run.ledger
    assert_unbroken(outcome.run)
    assert summary.stuck == ()
    assert summary.records.lost == summary.records.unread == summary.records.unexplained == 0
    assert summary.records.sent > 5_000
    assert {sent.partition for sent in ledger.of(Sent)} == {
        *(TopicPartition("orders", number) for number in range(6)),  # the new ones too
        *(TopicPartition("events", number) for number in range(2)),
    }
    # Those of one moment strike in any order.
    assert sorted(each.fault for each in ledger.of(FaultBegan)) == sorted(step.fault for step in schedule.steps)
    told = {"CorruptRecordError", "ProtocolError", "TopicAuthorizationError"}  # as they came to poll
    assert told <= {each.error for each in ledger.of(Raised)}
    assert [len(list(ledger.of(kind))) for kind in (Killed, Frozen, Closed)] == [1, 1, 3]
    phases = list(dict.fromkeys(progress.phase for progress in watched))
    assert (phases[0], phases[-1]) == ("starting Kafka", "closing")
    assert any("broker-kill" in progress.faults for progress in watched)


def test_over_tls_and_scram_nothing_is_lost_either() -> None:
    schedule = parse(SECURED_STORY)
    outcome = run(RunOrder(schedule=schedule, name="kwire", secured=True))
    shutil.rmtree(outcome.logs)
    summary, ledger = summarize(outcome.run), outcome.run.ledger
    assert_unbroken(outcome.run)
    assert summary.stuck == ()
    assert summary.records.lost == summary.records.unread == summary.records.unexplained == 0
    assert summary.records.sent > 5_000
    assert sorted(each.fault for each in ledger.of(FaultBegan)) == sorted(step.fault for step in schedule.steps)
    assert [len(list(ledger.of(kind))) for kind in (Killed, Frozen, Closed)] == [1, 1, 3]
