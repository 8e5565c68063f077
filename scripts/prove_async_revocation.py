"""`scripts/prove async-revocation`: what a rebalance costs the partitions that stay, with KIP-983 and without.

One member has all partitions of a topic with a long backlog. It works as asynchronous applications do: a record of each
partition at a time is in a pool of threads, which is busy with it for 100 to 500 ms; its partition is paused as long.
Then another member comes for half of the partitions, again and again. Of those the first one has to end what is in
work, and commit it, before they go:

* `blocks`: the listener waits for it (the proposal's approach 2), and so does the poll loop around it;
* `delays`: the loop calls `delay_revoke` and goes on.

While that takes place, how much do the partitions get done that stay? A thread that is in the middle of a record goes
on with it in both cases; the next record has to come from a poll. So what is counted is the time that threads are busy
with them: of 100 % before, what is left.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from confluent_kafka import Producer
from prove_group import TIMEOUT_S, Group, make_topic, partitions_of, wait_until

from kwire import Consumer, OffsetAndMetadata, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.testing.kafka import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kwire import Record
    from kwire.errors import KafkaError

PARTITIONS = 24
RECORDS_EACH = 1_000
POLL_S = 0.005
SHORTEST_MS, LONGEST_MS, STEP_MS = 100, 500, 57  # a step that meets every length in turn
BEFORE_S = 1.0
COMMIT_INTERVAL_S = 0.2
HEARTBEAT_MS = 100
ENOUGH = 0.95


class Approach(Enum):
    BLOCKS = "blocks"
    DELAYS = "delays"


class WorkLedger:
    """When a thread was busy with which record. Any thread may write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans_s: defaultdict[TopicPartition, list[tuple[float, float]]] = defaultdict(list)
        self._done: Counter[tuple[TopicPartition, int]] = Counter()

    def done(self, tp: TopicPartition, offset: int, began_s: float, ended_s: float) -> None:
        with self._lock:
            self._spans_s[tp].append((began_s, ended_s))
            self._done[tp, offset] += 1

    def busy_share(self, partitions: Collection[TopicPartition], since_s: float, until_s: float) -> float:
        """Of the time between two moments, the share in which a thread was busy with them, on average."""
        with self._lock:
            spans_s = [span for tp in partitions for span in self._spans_s[tp]]
        busy_s = sum(max(0.0, min(until_s, ended_s) - max(since_s, began_s)) for began_s, ended_s in spans_s)
        return busy_s / (len(partitions) * (until_s - since_s))

    @property
    def handled(self) -> int:
        return len(self._done)

    def duplicates(self) -> list[tuple[TopicPartition, int]]:
        return [place for place, times in self._done.items() if times > 1]

    def gaps(self) -> list[tuple[TopicPartition, int]]:
        """Offsets that were passed by: something behind them was done."""
        ends: dict[TopicPartition, int] = {}
        for tp, offset in self._done:
            ends[tp] = max(offset, ends.get(tp, 0))
        return [(tp, offset) for tp, end in ends.items() for offset in range(end) if not self._done[tp, offset]]


@dataclass(slots=True)
class Handover:
    """One time that partitions were asked back: from the request until the last of them was let go."""

    going: frozenset[TopicPartition]
    staying: frozenset[TopicPartition]
    requested_s: float
    released_s: float = 0.0


class Application(threading.Thread, RebalanceListener):
    """A poll loop and a pool of threads."""

    def __init__(self, approach: Approach, ledger: WorkLedger, topic: str, **settings: object) -> None:
        threading.Thread.__init__(self, name=f"application-{uuid4().hex[:4]}")
        self.owned: frozenset[TopicPartition] = frozenset()
        self.handovers: list[Handover] = []
        self.error: BaseException | None = None
        self._approach = approach
        self._ledger = ledger
        self._topic = topic
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(PARTITIONS)
        self._in_work: dict[TopicPartition, Future[int]] = {}
        self._finished: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committed_s = 0.0
        self._is_committing = False
        asynchronous = approach is Approach.DELAYS
        self._consumer: Consumer[bytes, bytes] = Consumer(
            config={"enable_auto_commit": False, "enable_async_revocation": asynchronous, **settings}
        )

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        try:
            with self._consumer, self._pool:
                self._consumer.subscribe([self._topic], listener=self)
                while not self._stopped.is_set():
                    self._turn()
                self._finish(self._in_work)
        except BaseException as error:  # noqa: BLE001  a thread has nobody to raise to: the proof looks here
            self.error = error

    def _turn(self) -> None:
        """The proposal's loop: poll, start, commit what is through, and see what is asked back."""
        for record in self._consumer.poll(POLL_S):
            self._start(record)
        self._take_back(self._in_work)
        asked = self._consumer.to_be_revoked_partitions()
        if asked & self._finished.keys() or time.monotonic() > self._committed_s + COMMIT_INTERVAL_S:
            self._commit()
        if asked:
            self._hold_back(asked)

    def _hold_back(self, asked: frozenset[TopicPartition]) -> None:
        if not self.handovers or self.handovers[-1].released_s:
            self.handovers.append(Handover(asked, self.owned - asked, time.monotonic()))
        if unfinished := asked & (self._in_work.keys() | self._finished.keys()):
            self._consumer.delay_revoke(unfinished)

    def _commit(self) -> None:
        """What is through and not committed, unless a commit is under way; nobody waits for it."""
        if self._finished and not self._is_committing:
            self._is_committing = True
            self._committed_s = time.monotonic()
            self._consumer.commit_async(dict(self._finished), callback=self._on_committed)

    def _on_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        self._is_committing = False
        if error is None:
            self._finished = {tp: at for tp, at in self._finished.items() if offsets.get(tp) != at}

    # --- the work -------------------------------------------------------------------------------------------

    def _start(self, record: Record[bytes, bytes]) -> None:
        tp = record.topic_partition
        self._consumer.pause([tp])
        self._in_work[tp] = self._pool.submit(self._handle, tp, record.offset)

    def _handle(self, tp: TopicPartition, offset: int) -> int:
        began_s = time.monotonic()
        kind = (offset + tp.partition) * STEP_MS % (LONGEST_MS - SHORTEST_MS + 1)
        time.sleep((SHORTEST_MS + kind) / 1000.0)
        self._ledger.done(tp, offset, began_s, time.monotonic())
        return offset + 1

    def _take_back(self, partitions: Iterable[TopicPartition]) -> None:
        """What is through counts for the next commit, and its partition goes on."""
        for tp in [tp for tp in partitions if tp in self._in_work and self._in_work[tp].done()]:
            self._finished[tp] = OffsetAndMetadata(self._in_work.pop(tp).result())
            self._consumer.resume([tp])

    def _finish(self, partitions: Collection[TopicPartition]) -> None:
        """Wait for what is in work, and commit it."""
        wait([self._in_work[tp] for tp in partitions if tp in self._in_work])
        self._take_back(list(partitions))
        self._consumer.commit_sync(self._finished)
        self._finished = {}

    # --- the listener ---------------------------------------------------------------------------------------

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        self.owned |= partitions

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        if self._approach is Approach.BLOCKS and not self._stopped.is_set():
            self.handovers.append(Handover(partitions, self.owned - partitions, time.monotonic()))
            self._finish(partitions)
        self.owned -= partitions
        if self.handovers and not self.handovers[-1].released_s and not self.handovers[-1].going & self.owned:
            self.handovers[-1].released_s = time.monotonic()


@dataclass(slots=True)
class Outcome:
    """What became of one group."""

    group: Group
    approach: Approach
    before: list[float] = field(default_factory=list)
    meanwhile: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    handled: int = 0
    broken: list[str] = field(default_factory=list)

    @property
    def kept(self) -> float:
        """What is left of the throughput of the partitions that stay; each handover counts for as long as it takes."""
        left = sum(share * took_s for share, took_s in zip(self.meanwhile, self.took_s, strict=True))
        full = sum(share * took_s for share, took_s in zip(self.before, self.took_s, strict=True))
        return left / full if full else 0.0

    def __str__(self) -> str:
        rounds = len(self.took_s)
        each_ms = 1000.0 * mean(self.took_s)
        before, meanwhile = 100 * mean(self.before), 100 * mean(self.meanwhile)
        return (
            f"{self.group.value:20} {self.approach.value:8} {rounds:9} {each_ms:9.0f} ms {before:7.1f} % "
            f"{meanwhile:9.1f} % {100 * self.kept:9.1f} % {self.handled:9}"
        )


HEADER = (
    f"{'group':20} {'approach':8} {'handovers':>9} {'each took':>12} {'before':>9} {'meanwhile':>11} {'is kept':>11} "
    f"{'records':>9}"
)


def mean(shares: Collection[float]) -> float:
    return sum(shares) / max(1, len(shares))


class Trial:
    """One group, whose second member comes and goes."""

    def __init__(self, cluster: KafkaCluster, group: Group, approach: Approach) -> None:
        self.outcome = Outcome(group, approach)
        self._cluster = cluster
        self._topic = f"revoked-{uuid4().hex[:8]}"
        self._ledger = WorkLedger()
        self._mine = self._application()

    def _application(self) -> Application:
        settings: dict[str, object] = dict(self.outcome.group.settings)
        if self.outcome.group is not Group.CONSUMER:
            settings["heartbeat_interval_ms"] = HEARTBEAT_MS
        return Application(
            self.outcome.approach,
            self._ledger,
            self._topic,
            bootstrap_servers=self._cluster.bootstrap_servers,
            group_id=self._topic,
            auto_offset_reset="earliest",
            max_poll_records=1,  # which the pause follows: never more than one of a partition
            **settings,
        )

    def run(self, rounds: int) -> Outcome:
        make_topic(self._cluster.bootstrap_servers, self._topic, PARTITIONS)
        self._fill()
        self._mine.start()
        try:
            for _ in range(rounds):
                if not self._hand_over():
                    self.outcome.broken.append("a handover did not come to its end")
                    break
        finally:
            self._mine.stop()
        self._judge()
        return self.outcome

    def _fill(self) -> None:
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap_servers, "log_level": 0})
        for number in range(PARTITIONS * RECORDS_EACH):
            producer.produce(self._topic, b"work", partition=number % PARTITIONS)
            producer.poll(0)
        if left := producer.flush(TIMEOUT_S):
            raise TimeoutError(f"{left} records not acknowledged within {TIMEOUT_S} s")

    def _hand_over(self) -> bool:
        """Another member comes, gets its half, and leaves. Whether it got that far."""
        mine, all_of_them = self._mine, partitions_of(self._topic, PARTITIONS)
        if not wait_until(lambda: mine.owned == all_of_them or mine.error is not None):
            return False
        time.sleep(2 * BEFORE_S)  # all are in full work, for as long as is looked at
        handovers, other = len(mine.handovers), self._application()
        other.start()
        try:
            return wait_until(
                lambda: len(mine.handovers) > handovers and bool(mine.handovers[-1].released_s) and bool(other.owned)
            )
        finally:
            other.stop()
            if other.error is not None:
                self.outcome.broken.append(f"the other member raised {other.error!r}")

    def _judge(self) -> None:
        outcome, ledger = self.outcome, self._ledger
        for each in self._mine.handovers:
            began_s, ended_s = each.requested_s, each.released_s
            outcome.took_s.append(ended_s - began_s)
            outcome.before.append(ledger.busy_share(each.staying, began_s - BEFORE_S, began_s))
            outcome.meanwhile.append(ledger.busy_share(each.staying, began_s, ended_s))
        outcome.handled = ledger.handled
        if self._mine.error is not None:
            outcome.broken.append(f"the member raised {self._mine.error!r}")
        if twice := ledger.duplicates():
            outcome.broken.append(f"{len(twice)} records were handled twice, the first: {twice[0]}")
        if gaps := ledger.gaps():
            outcome.broken.append(f"{len(gaps)} records were passed by, the first: {gaps[0]}")
        if outcome.approach is Approach.DELAYS and outcome.kept < ENOUGH:
            outcome.broken.append(
                f"what stayed kept {100 * outcome.kept:.1f} % of its throughput, not {100 * ENOUGH:.0f} %"
            )


def async_revocation(
    rounds: Annotated[int, typer.Option(min=1, help="How often the other member comes, in each group.")] = 10,
    group: Annotated[list[Group] | None, typer.Option(help="Only groups of this kind; may be repeated.")] = None,
) -> list[str]:
    """Partitions are drained before they go: those that stay go on at full speed, and nothing is handled twice."""
    broken: list[str] = []
    settings = {"group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS)}
    with KafkaCluster(1, settings=settings) as cluster:
        print(HEADER, flush=True)
        for kind in group or (Group.COOPERATIVE_STICKY, Group.CONSUMER):
            for approach in Approach:
                outcome = Trial(cluster, kind, approach).run(rounds)
                print(outcome, flush=True)
                broken += [f"{kind.value}, {approach.value}: {line}" for line in outcome.broken]
    return broken
