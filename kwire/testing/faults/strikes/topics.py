"""What befalls topics and their logs, and records that are hard to read: `kinds/topics.py` carried out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kwire.testing.faults.arena import Arena
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.strikes.strike import Begin, Heal, Strike, stay_so, stays
from kwire.testing.faults.strikes.transactions import open_transaction
from kwire.testing.faults.targets import topic_of
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


def delete(arena: Arena, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    _delete(arena, step, begin)
    arena.traffic.forget(topic)
    return stays


def recreate(arena: Arena, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    partitions = step.amount("partitions") or arena.topics[topic]
    _delete(arena, step, begin)
    return partial(_create_again, arena, topic, partitions)


def _delete(arena: Arena, step: Step, begin: Begin) -> None:
    """Nobody sends to it any more; offsets of a topic of the same name begin anew."""
    topic = str(topic_of(step.target))
    arena.traffic.pause(topic)
    begin("")
    at_ms = arena.recorder.now_ms()
    for partition in arena.partitions(step.target):
        arena.recorder.write(Truncated(at_ms=at_ms, partition=partition, to=0))
    del arena.topics[topic]
    arena.admin.topics.delete(topic)


def _create_again(arena: Arena, topic: str, partitions: int) -> None:
    replicas = min(REPLICAS, arena.schedule.brokers)
    arena.admin.topics.create(topic, partitions, replicas=replicas, settings=TOPIC_SETTINGS)
    arena.topics[topic] = partitions
    arena.traffic.set_partitions(topic, partitions)
    arena.traffic.resume(topic)


def grow(arena: Arena, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    partitions = arena.topics[topic] + step.amount("more")
    begin(f"to {partitions} partitions")
    arena.admin.topics.grow(topic, partitions)
    arena.topics[topic] = partitions
    arena.traffic.set_partitions(topic, partitions)
    return stays


# --- logs -----------------------------------------------------------------------------------------------------


def cut(arena: Arena, step: Step, begin: Begin) -> Heal:
    """Watches all the while where the logs begin."""
    assert step.lasts_ms is not None
    topic = str(topic_of(step.target))
    watch = _Starts(arena, step)
    begin("")
    ends_ms = arena.recorder.now_ms() + step.lasts_ms
    arena.admin.topics.configure(topic, CUT_SETTINGS)
    while arena.recorder.now_ms() < ends_ms:
        watch.look()
        arena.sleep(LOOK_MS)
    return partial(_keep_again, arena, topic, watch)


def _keep_again(arena: Arena, topic: str, watch: _Starts) -> None:
    arena.admin.topics.configure(topic, dict.fromkeys(CUT_SETTINGS))
    watch.look()


class _Starts:
    """Where logs begin; the ledger hears when that changes, as of the look before: from then on it may have."""

    def __init__(self, arena: Arena, step: Step) -> None:
        self._arena = arena
        self._partitions = arena.partitions(step.target)
        self._looked_ms = arena.recorder.now_ms()
        self._starts = dict(arena.admin.logs.starts(self._partitions))

    def look(self) -> None:
        now_ms = self._arena.recorder.now_ms()
        for partition, start in self._arena.admin.logs.starts(self._partitions).items():
            if start > self._starts[partition]:
                self._starts[partition] = start
                self._arena.recorder.write(Removed(at_ms=self._looked_ms, partition=partition, before=start))
        self._looked_ms = now_ms


def delete_records(arena: Arena, step: Step, begin: Begin) -> Heal:
    """The ledger hears of it before the brokers do: nobody can miss a record earlier than that."""
    partitions = arena.partitions(step.target)
    starts, ends = arena.admin.logs.starts(partitions), arena.admin.logs.ends(partitions)
    share = step.amount("share_percent")
    before = {each: starts[each] + (ends[each] - starts[each]) * share // 100 for each in partitions}
    begin(f"{share} %")
    at_ms = arena.recorder.now_ms()
    for partition, offset in before.items():
        arena.recorder.write(Removed(at_ms=at_ms, partition=partition, before=offset))
    arena.admin.logs.delete(before)
    return stays


def compact(arena: Arena, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    begin("")
    arena.compacted.setdefault(topic, arena.recorder.now_ms())
    arena.admin.topics.configure(topic, COMPACT_SETTINGS)
    stay_so(arena, step)
    return lambda: arena.admin.topics.configure(topic, dict.fromkeys(COMPACT_SETTINGS))


# --- records --------------------------------------------------------------------------------------------------


def send_large(arena: Arena, step: Step, begin: Begin) -> Heal:
    (partition,) = arena.partitions(step.target)
    begin("")
    arena.traffic.send_large(partition, step.amount("size_bytes"))
    return stays


STRIKES: Mapping[str, Strike] = {
    "topic-delete": delete,
    "topic-recreate": recreate,
    "partition-growth": grow,
    "retention-cut": cut,
    "delete-records": delete_records,
    "compaction": compact,
    "large-record": send_large,
    "open-transaction": open_transaction,
}
