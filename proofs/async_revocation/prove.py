"""`scripts/prove async-revocation`: what a rebalance costs the partitions that stay, with KIP-983 and without.

Two members share a topic with a long backlog, and work as asynchronous applications do: a record of each partition at a
time is in a pool of threads, which is busy with it for 100 to 500 ms; its partition is paused as long. Then a third one
comes for a third of the partitions, again and again. Of those the first two have to end what is in work, and commit it,
before they go: the listener `blocks` for it (the proposal's approach 2), or the loop `delays` the revoke and goes on.

Measured is what the partitions that stay get done meanwhile, all of them together, in records a second: from the moment
at which the first partition is asked back until every partition has arrived at its new owner, against a time as long
that ends when the third member begins to join. A record counts for the part of its work that lies within. That a thread
in the middle of a record goes on with it while the loop is blocked, counts; the next record has to come from a poll.

What it is about is waiting. So the work is sleep, of which the machine has enough for everybody, and each record of a
partition takes the same time, so that chance has no part in the rates. The third member has been started before, and is
connected: what a process or a consumer takes to start is no part of a rebalance. All members are in one process, and
share one interpreter: what the third one computes holds up the others more than it would from a process of its own. The
clients' buffers are small and so are batches: fetches have to go on all along.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple
from uuid import uuid4

import typer

from kwire import TopicPartition
from kwire.testing.kafka import KafkaCluster
from proofs.async_revocation.members import Application, Approach, WorkLedger
from proofs.group import Group, make_topic, wait_until
from tools.topic_filling import Entry, fill

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kwire.config import Settings

PARTITIONS = 24
MIN_MS, MAX_MS = 100, 500
MIXING = 7  # no neighbours are alike; it shares no factor with the number of partitions
FULL_WORK_S = 2.0  # before the third member comes
RECORDS_EACH, RECORDS_A_ROUND = 200, 100
RECORD_BYTES = 1_000
RECORDS_A_BATCH = 4
ROOM_BYTES = 4 * RECORDS_A_BATCH * RECORD_BYTES
HEARTBEAT_MS = 100
ENOUGH = 0.95


def work_s(tp: TopicPartition) -> float:
    """How long a record of this partition takes: they are spread out evenly between the shortest and the longest."""
    place = tp.partition * MIXING % PARTITIONS / (PARTITIONS - 1)
    return (MIN_MS + place * (MAX_MS - MIN_MS)) / 1000.0


class Rebalance(NamedTuple):
    """One time that a third member came."""

    staying: frozenset[TopicPartition]
    joined_s: float
    """When it began to."""
    requested_s: float
    """When the first partition was asked back."""
    ended_s: float
    """When the last partition had arrived."""


@dataclass(slots=True)
class Outcome:
    """The outcome of one group. Rates are records a second."""

    group: Group
    approach: Approach
    before: list[float] = field(default_factory=list)
    meanwhile: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    handled: int = 0
    broken: list[str] = field(default_factory=list)

    def add(self, rebalance: Rebalance, ledger: WorkLedger) -> None:
        took_s = rebalance.ended_s - rebalance.requested_s
        joined_s, staying = rebalance.joined_s, rebalance.staying
        self.took_s.append(took_s)
        self.before.append(ledger.rate(staying, joined_s - min(took_s, FULL_WORK_S), joined_s))
        self.meanwhile.append(ledger.rate(staying, rebalance.requested_s, rebalance.ended_s))

    @property
    def kept(self) -> float:
        """What is left of the throughput of the partitions that stay; a rebalance counts for as long as it takes."""
        left = sum(rate * took_s for rate, took_s in zip(self.meanwhile, self.took_s, strict=True))
        full = sum(rate * took_s for rate, took_s in zip(self.before, self.took_s, strict=True))
        return left / full if full else 0.0

    @property
    def worst(self) -> float:
        """The same of the one rebalance that left the least."""
        return min((left / full for left, full in zip(self.meanwhile, self.before, strict=True) if full), default=0.0)

    def __str__(self) -> str:
        rounds = len(self.took_s)
        each_ms = 1000.0 * mean(self.took_s)
        return (
            f"{self.group.value:20} {self.approach.value:8} {rounds:10} {each_ms:9.0f} ms {mean(self.before):8.1f}/s "
            f"{mean(self.meanwhile):8.1f}/s {100 * self.kept:8.1f} % {100 * self.worst:8.1f} % {self.handled:9}"
        )


HEADER = (
    f"{'group':20} {'approach':8} {'rebalances':>10} {'each took':>12} {'before':>10} {'meanwhile':>10} "
    f"{'is kept':>10} {'the worst':>10} {'records':>9}"
)


def mean(values: Collection[float]) -> float:
    return sum(values) / max(1, len(values))


class Trial:
    """One group of two, to which a third member comes and goes."""

    def __init__(self, bootstrap_servers: str, group: Group, approach: Approach, rounds: int) -> None:
        self.outcome = Outcome(group, approach)
        self._bootstrap_servers = bootstrap_servers
        self._rounds = rounds
        self._records_each = RECORDS_EACH + rounds * RECORDS_A_ROUND
        self._topic = f"revoked-{uuid4().hex[:8]}"
        self._ledger = WorkLedger()
        self._rebalances: list[Rebalance] = []

    def _application(self) -> Application:
        """A member that stands by."""
        settings: Settings = {**self.outcome.group.settings}
        if self.outcome.group is not Group.CONSUMER:
            settings["heartbeat_interval_ms"] = HEARTBEAT_MS
        application = Application(
            self.outcome.approach,
            self._ledger,
            self._topic,
            work_s,
            bootstrap_servers=self._bootstrap_servers,
            group_id=self._topic,
            auto_offset_reset="earliest",
            max_poll_records=1,  # which the pause follows: never more than one of a partition
            fetch_buffer_bytes=ROOM_BYTES,
            **settings,
        )
        application.stand_by()
        return application

    def run(self) -> Outcome:
        make_topic(self._bootstrap_servers, self._topic, PARTITIONS)
        self._fill()
        pair = [self._application(), self._application()]
        try:
            for member in pair:
                member.join_group()
            for _ in range(self._rounds):
                if not self._have_another_come(pair):
                    self.outcome.broken.append("a rebalance did not come to its end")
                    break
        finally:
            for member in pair:
                member.stop()
        self._judge(pair)
        return self.outcome

    def _fill(self) -> None:
        numbers = range(PARTITIONS * self._records_each)
        entries = (Entry(number % PARTITIONS, bytes(RECORD_BYTES)) for number in numbers)
        fill(self._bootstrap_servers, self._topic, entries, {"batch.num.messages": RECORDS_A_BATCH})

    def _have_another_come(self, pair: Sequence[Application]) -> bool:
        """It gets its third, and leaves. Whether it got that far."""
        if not come_to_rest(pair):
            return False
        another = self._application()
        try:
            time.sleep(FULL_WORK_S)  # nothing happens but work, for as long as is looked at
            joined_s = time.monotonic()
            another.join_group()
            if not come_to_rest([*pair, another]):
                return False
            requested_s = min(at_s for member in pair for at_s in member.asked_s if at_s > joined_s)
            staying = frozenset[TopicPartition]().union(*(member.owned for member in pair))
            ended_s = max(member.changed_s for member in (*pair, another))
            self._rebalances.append(Rebalance(staying, joined_s, requested_s, ended_s))
            return True
        finally:
            another.stop()
            self._note_error(another)

    def _note_error(self, member: Application) -> None:
        if member.error is not None:
            self.outcome.broken.append(f"a member raised {member.error!r}")

    def _judge(self, pair: Sequence[Application]) -> None:
        outcome, ledger = self.outcome, self._ledger
        for rebalance in self._rebalances:
            outcome.add(rebalance, ledger)
        outcome.handled = ledger.handled
        for member in pair:
            self._note_error(member)
        if max(ledger.ends().values(), default=0) >= self._records_each:
            outcome.broken.append("a partition was read to its end: what followed is no measure")
        if twice := ledger.duplicates():
            outcome.broken.append(f"{len(twice)} records were handled twice, the first: {twice[0]}")
        if gaps := ledger.gaps():
            outcome.broken.append(f"{len(gaps)} records were passed by, the first: {gaps[0]}")
        if outcome.approach is Approach.DELAYS and outcome.kept < ENOUGH:
            outcome.broken.append(
                f"what stayed kept {100 * outcome.kept:.1f} % of its throughput, not {100 * ENOUGH:.0f} %"
            )


def come_to_rest(members: Sequence[Application]) -> bool:
    """Wait until each has its share. False if they never will: it takes too long, or one has failed."""
    wait_until(lambda: shared_evenly(members) or any(member.error for member in members))
    return shared_evenly(members)


def shared_evenly(members: Sequence[Application]) -> bool:
    """Whether all have as much, and all together everything."""
    owned = [member.owned for member in members]
    share = PARTITIONS // len(members)
    return all(len(each) == share for each in owned) and len(frozenset().union(*owned)) == PARTITIONS


def async_revocation(
    rounds: Annotated[int, typer.Option(min=1, help="How often the third member comes, in each group.")] = 10,
    group: Annotated[list[Group] | None, typer.Option(help="Only groups of this kind; may be repeated.")] = None,
    approach: Annotated[list[Approach] | None, typer.Option(help="Only this approach; may be repeated.")] = None,
) -> list[str]:
    """Partitions are drained before they go: those that stay go on at full speed, and nothing is handled twice."""
    broken: list[str] = []
    settings = {"group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS)}
    with KafkaCluster(1, settings=settings) as cluster:
        print(HEADER, flush=True)
        for kind in group or (Group.COOPERATIVE_STICKY, Group.CONSUMER):
            for each in approach or Approach:
                outcome = Trial(cluster.bootstrap_servers, kind, each, rounds).run()
                print(outcome, flush=True)
                broken += [f"{kind.value}, {each.value}: {line}" for line in outcome.broken]
    return broken
