"""KIP-983's two approaches to records that are in work when a rebalance wants their partitions back, side by side.

In approach 2 the listener waits for them, and everybody waits for the listener; in the new approach the loop delays the
revoke and polls on. Two members work on a record of each of their partitions at a time; a third one comes for its share
and goes, again and again. Counted is what the partitions that stay get done from the first request until the last
partition has arrived, against a time as long before. In virtual time: nothing but waiting makes a difference.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kwire import OffsetAndMetadata, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.testing.simulation.script import Script, play

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kwire import Record
    from kwire.errors import KafkaError

pytestmark = pytest.mark.slow

TOPIC = "t"
PARTITIONS, RECORDS_EACH = 12, 100
ROUNDS = 2
FULL_WORK_MS = 1_000.0
RECORDS_A_BATCH, ROOM_BYTES = 2, 300  # for three batches: fetches have to go on all along
LOOK_MS, MAX_POLL_MS = 1.0, 100.0
COMMIT_INTERVAL_MS = 200.0
ENOUGH, WAITED = 0.95, 0.85

PROTOCOLS: dict[str, dict[str, object]] = {
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 100},
    "consumer": {"group_protocol": "consumer"},
}


def work_ms(tp: TopicPartition) -> float:
    """How long a record of this partition takes: from 100 to 490 ms, neighbours unlike each other."""
    return 100.0 + tp.partition * 5 % PARTITIONS * 390.0 / (PARTITIONS - 1)


class Work(NamedTuple):
    """One record in work."""

    tp: TopicPartition
    offset: int
    began_ms: float

    @property
    def ends_ms(self) -> float:
        return self.began_ms + work_ms(self.tp)

    def part_within(self, since_ms: float, until_ms: float) -> float:
        return max(0.0, min(until_ms, self.ends_ms) - max(since_ms, self.began_ms)) / work_ms(self.tp)


class Application(RebalanceListener):
    """A member. Its work goes on elsewhere, whatever it does; `done` is what all members have done."""

    def __init__(self, script: Script, done: list[Work], settings: Mapping[str, object], *, delays: bool) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self.changed_ms = 0.0
        self.asked_ms: list[float] = []
        self._script = script
        self._done = done
        self._delays = delays
        self._in_work: dict[TopicPartition, Work] = {}
        self._finished: dict[TopicPartition, OffsetAndMetadata] = {}
        self._asked: frozenset[TopicPartition] = frozenset()
        self._committed_ms = 0.0
        self._stopped = False
        self._process = script.process()
        script.start(self._process, partial(self._live, settings))

    def stop(self) -> None:
        self._stopped = True
        self._script.until(lambda: self._process.has_ended)

    def _live(self, settings: Mapping[str, object]) -> None:
        given = {"enable_async_revocation": self._delays, "fetch_buffer_bytes": ROOM_BYTES, **settings}
        with self._script.consumer_in(self._process, max_poll_records=1, **given) as self._consumer:
            self._consumer.subscribe([TOPIC], listener=self)
            while not self._stopped:
                self._turn()
            self._finish(self._in_work)

    def _turn(self) -> None:
        """The proposal's loop."""
        now_ms = self._script.now_ms()
        wait_ms = min((work.ends_ms - now_ms for work in self._in_work.values()), default=MAX_POLL_MS)
        for record in self._consumer.poll(min(max(LOOK_MS, wait_ms), MAX_POLL_MS) / 1000.0):
            self._begin(record)
        self._take_back()
        asked = self._consumer.to_be_revoked_partitions()
        if asked & self._finished.keys() or self._script.now_ms() > self._committed_ms + COMMIT_INTERVAL_MS:
            self._commit()
        if asked - self._asked:
            self.asked_ms.append(self._script.now_ms())
        self._asked = asked
        if unfinished := asked & (self._in_work.keys() | self._finished.keys()):
            self._consumer.delay_revoke(unfinished)

    def _begin(self, record: Record[bytes, bytes]) -> None:
        tp = record.topic_partition
        self._consumer.pause([tp])
        self._in_work[tp] = Work(tp, record.offset, self._script.now_ms())

    def _take_back(self) -> None:
        for work in [work for work in self._in_work.values() if work.ends_ms <= self._script.now_ms()]:
            del self._in_work[work.tp]
            self._done.append(work)
            self._finished[work.tp] = OffsetAndMetadata(work.offset + 1)
            self._consumer.resume([work.tp])

    def _commit(self) -> None:
        if self._finished:
            self._committed_ms = self._script.now_ms()
            self._consumer.commit_async(dict(self._finished), callback=self._on_committed)

    def _on_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        if error is None:
            self._finished = {tp: at for tp, at in self._finished.items() if offsets.get(tp) != at}

    def _finish(self, partitions: Collection[TopicPartition]) -> None:
        """Wait for what is in work of these, and commit it."""
        ends_ms = max((self._in_work[tp].ends_ms for tp in partitions if tp in self._in_work), default=0.0)
        self._script.sleep(max(0.0, ends_ms - self._script.now_ms()) + LOOK_MS)
        self._take_back()
        self._consumer.commit_sync(self._finished)
        self._finished = {}

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        self._own(self.owned | partitions)

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        if not self._delays and partitions and not self._stopped:
            self.asked_ms.append(self._script.now_ms())
            self._finish(partitions)
        self._own(self.owned - partitions)

    def _own(self, partitions: frozenset[TopicPartition]) -> None:
        if partitions != self.owned:
            self.owned, self.changed_ms = partitions, self._script.now_ms()


class Rebalance(NamedTuple):
    staying: frozenset[TopicPartition]
    joined_ms: float
    requested_ms: float
    ended_ms: float

    def records(self, done: Collection[Work]) -> tuple[float, float]:
        """What the partitions that stay got done: in a time as long before, and meanwhile."""
        took_ms = self.ended_ms - self.requested_ms
        assert took_ms < FULL_WORK_MS
        windows = ((self.joined_ms - took_ms, self.joined_ms), (self.requested_ms, self.ended_ms))
        before, meanwhile = (
            sum(work.part_within(*window) for work in done if work.tp in self.staying) for window in windows
        )
        return before, meanwhile


def have_another_come(protocol: str, *, delays: bool) -> tuple[list[Rebalance], list[Work]]:
    """Again and again, in a world of its own; each time, and all that was done."""
    rebalances: list[Rebalance] = []
    done: list[Work] = []

    def story(script: Script) -> None:
        script.cluster.create_topic(TOPIC, PARTITIONS, 1)
        for number in range(PARTITIONS * RECORDS_EACH // RECORDS_A_BATCH):
            script.send(TOPIC, RECORDS_A_BATCH, number % PARTITIONS)
        make = partial(Application, script, done, PROTOCOLS[protocol], delays=delays)
        pair = [make(), make()]
        for _ in range(ROUNDS):
            script.until(partial(shared_evenly, pair))
            script.sleep(FULL_WORK_MS)
            joined_ms = script.now_ms()
            members = [*pair, make()]
            script.until(partial(shared_evenly, members))
            requested_ms = min(at_ms for member in pair for at_ms in member.asked_ms if at_ms >= joined_ms)
            ended_ms = max(member.changed_ms for member in members)
            rebalances.append(Rebalance(pair[0].owned | pair[1].owned, joined_ms, requested_ms, ended_ms))
            members[-1].stop()
        for member in pair:
            member.stop()

    play(story, settings={"group_consumer_heartbeat_interval_ms": 100})
    return rebalances, done


def shared_evenly(members: Sequence[Application]) -> bool:
    owned = [member.owned for member in members]
    share = PARTITIONS // len(members)
    return all(len(each) == share for each in owned) and len(frozenset().union(*owned)) == PARTITIONS


def kept(rebalances: Sequence[Rebalance], done: Collection[Work]) -> float:
    records = [rebalance.records(done) for rebalance in rebalances]
    return sum(meanwhile for _, meanwhile in records) / sum(before for before, _ in records)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_new_approach_keeps_the_throughput_of_what_stays_and_approach_2_does_not(protocol: str) -> None:
    shares: list[float] = []
    for delays in (False, True):
        rebalances, done = have_another_come(protocol, delays=delays)
        times = Counter((work.tp, work.offset) for work in done)
        assert set(times.values()) == {1}
        ends = Counter(tp for tp, _ in times)
        assert all(times[tp, offset] for tp, end in ends.items() for offset in range(end)), "none was passed by"
        assert max(ends.values()) < RECORDS_EACH, "there was always something to do"
        shares.append(kept(rebalances, done))
    assert shares[1] >= ENOUGH
    assert shares[0] < WAITED
