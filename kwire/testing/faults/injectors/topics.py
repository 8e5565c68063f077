"""What befalls topics and their logs, and records that are hard to read: `kinds/topics.py` carried out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kwire.testing.faults.injectors.injector import Begin, Heal, Injector, stay_so, stays
from kwire.testing.faults.injectors.transactions import open_transaction
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import topic_of
from kwire.testing.faults.testbed import Testbed
from kwire.testing.faults.topic_settings import REPLICAS, TOPIC_SETTINGS
from kwire.testing.invariants.ledger import Removed, Truncated

# Old segments go only when they are closed, and the active one is closed when a record comes after its time.
CUT_SETTINGS: Mapping[str, str] = {"retention.ms": "1", "segment.ms": "500"}
COMPACT_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
}
LOOK_MS = 100.0


# --- topics ---------------------------------------------------------------------------------------------------


def delete(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    _delete(testbed, step, begin)
    testbed.traffic.forget(topic)
    return stays


def recreate(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    partitions = step.amount("partitions") or testbed.topics[topic]
    _delete(testbed, step, begin)
    return partial(_create_again, testbed, topic, partitions)


def _delete(testbed: Testbed, step: Step, begin: Begin) -> None:
    """Nobody sends to it any more; offsets of a topic of the same name begin anew."""
    topic = str(topic_of(step.target))
    testbed.traffic.pause(topic)
    begin("")
    at_ms = testbed.recorder.now_ms()
    for partition in testbed.partitions(step.target):
        testbed.recorder.write(Truncated(at_ms=at_ms, partition=partition, to=0))
    del testbed.topics[topic]
    testbed.admin.topics.delete(topic)


def _create_again(testbed: Testbed, topic: str, partitions: int) -> None:
    replicas = min(REPLICAS, testbed.schedule.brokers)
    testbed.admin.topics.create(topic, partitions, replicas=replicas, settings=TOPIC_SETTINGS)
    testbed.topics[topic] = partitions
    testbed.traffic.set_partitions(topic, partitions)
    testbed.traffic.resume(topic)


def grow(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    partitions = testbed.topics[topic] + step.amount("more")
    begin(f"to {partitions} partitions")
    testbed.admin.topics.grow(topic, partitions)
    testbed.topics[topic] = partitions
    testbed.traffic.set_partitions(topic, partitions)
    return stays


# --- logs -----------------------------------------------------------------------------------------------------


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


def compact(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    begin("")
    testbed.compacted.setdefault(topic, testbed.recorder.now_ms())
    testbed.admin.topics.configure(topic, COMPACT_SETTINGS)
    stay_so(testbed, step)
    return lambda: testbed.admin.topics.configure(topic, dict.fromkeys(COMPACT_SETTINGS))


# --- records --------------------------------------------------------------------------------------------------


def send_large(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    (partition,) = testbed.partitions(step.target)
    begin("")
    testbed.traffic.send_large(partition, step.amount("size_bytes"))
    return stays


INJECTORS: Mapping[str, Injector] = {
    "topic-delete": delete,
    "topic-recreate": recreate,
    "partition-growth": grow,
    "retention-cut": cut,
    "delete-records": delete_records,
    "compaction": compact,
    "large-record": send_large,
    "open-transaction": open_transaction,
}
