"""Faults of logs: retention removes their beginnings, and compaction removes records with a later one of the same
key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault, stay_so, stays
from kwire.testing.faults.kind import Amount, FaultClaim, Lasting, Since
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import OneTopic, PartitionOf, topic_of
from kwire.testing.faults.testbed import Testbed
from kwire.testing.invariants.ledger import Removed

# Old segments go only when they are closed, and the active one is closed when a record comes after its time.
CUT_SETTINGS: Mapping[str, str] = {"retention.ms": "1", "segment.ms": "500"}
COMPACT_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
}
LOOK_MS = 100.0
SHARE = Amount(
    name="share_percent",
    quantity=Quantity.PERCENT,
    default=60,
    least=1,
    most=100,
    doc="how much of what is in each log goes, from its start",
)


@fault(
    name="retention-cut",
    description="Retention is lowered until old segments are deleted while they are read.",
    targets=(OneTopic,),
    lasting=Lasting(default_ms=10_000, least_ms=1_000),
    heals="retention is what it was; what is gone is gone",
    claims=(FaultClaim.TOPIC,),
    rows=(22,),
    bound=within(2_000),
)
def cut(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Watches all the while where the logs begin."""
    assert step.lasts_ms is not None
    topic = str(topic_of(step.target))
    watch = _Starts(testbed, step)
    begin("")
    ends_ms = testbed.recorder.now_ms() + step.lasts_ms
    testbed.admin.topics.configure(topic, CUT_SETTINGS)
    while testbed.recorder.now_ms() < ends_ms:
        watch.look()
        testbed.sleep(LOOK_MS)
    return partial(_keep_again, testbed, topic, watch)


def _keep_again(testbed: Testbed, topic: str, watch: _Starts) -> None:
    testbed.admin.topics.configure(topic, dict.fromkeys(CUT_SETTINGS))
    watch.look()


class _Starts:
    """Where logs begin; the ledger hears when that changes, as of the look before: from then on it may have."""

    def __init__(self, testbed: Testbed, step: Step) -> None:
        self._testbed = testbed
        self._partitions = testbed.partitions(step.target)
        self._looked_ms = testbed.recorder.now_ms()
        self._starts = dict(testbed.admin.logs.starts(self._partitions))

    def look(self) -> None:
        now_ms = self._testbed.recorder.now_ms()
        for partition, start in self._testbed.admin.logs.starts(self._partitions).items():
            if start > self._starts[partition]:
                self._starts[partition] = start
                self._testbed.recorder.write(Removed(at_ms=self._looked_ms, partition=partition, before=start))
        self._looked_ms = now_ms


@fault(
    name="delete-records",
    description="Records are deleted from the start of the log (DeleteRecords).",
    targets=(PartitionOf, OneTopic),
    parameters=(SHARE,),
    heals="nothing: they are gone",
    claims=(FaultClaim.TOPIC,),
    rows=(22, 23),
    bound=within(2_000),
    since=Since.STRIKE,
    simulated_as="records-deleted",
)
def delete_records(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """The ledger hears of it before the brokers do: nobody can miss a record earlier than that."""
    partitions = testbed.partitions(step.target)
    starts, ends = testbed.admin.logs.starts(partitions), testbed.admin.logs.ends(partitions)
    share = step.amount("share_percent")
    before = {each: starts[each] + (ends[each] - starts[each]) * share // 100 for each in partitions}
    begin(f"{share} %")
    at_ms = testbed.recorder.now_ms()
    for partition, offset in before.items():
        testbed.recorder.write(Removed(at_ms=at_ms, partition=partition, before=offset))
    testbed.admin.logs.delete(before)
    return stays


@fault(
    name="compaction",
    description="A topic is compacted: of records with the same key only the last stays, and offsets get holes.",
    targets=(OneTopic,),
    lasting=Lasting(default_ms=20_000, least_ms=5_000),
    heals="the topic is not compacted any more; what is gone is gone",
    claims=(FaultClaim.TOPIC,),
    rows=(23,),
    bound=within(2_000),
)
def compact(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    begin("")
    testbed.compacted.setdefault(topic, testbed.recorder.now_ms())
    testbed.admin.topics.configure(topic, COMPACT_SETTINGS)
    stay_so(testbed, step)
    return lambda: testbed.admin.topics.configure(topic, dict.fromkeys(COMPACT_SETTINGS))
