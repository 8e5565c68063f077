"""`scripts/prove rebalances`: many rebalances in a row while records flow; no partition may fall silent for long.

In turn a member leaves, another joins, one subscribes to a second topic, and drops it again. After each change every
partition that somebody subscribes to has to make progress within `PROMISED_S`. At the end nothing is lost, and nothing
was seen twice: everybody leaves in order, so all that was processed is committed.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from kwire.testing.kafka import KafkaCluster
from proofs.group import (
    TIMEOUT_S,
    Group,
    Ledger,
    Member,
    Traffic,
    make_topic,
    partitions_of,
    running,
    shared_out,
    wait_until,
)

if TYPE_CHECKING:
    from kwire import TopicPartition

PROMISED_S = 2.0
MEMBERS = 3
PARTITIONS = 12
SIDE_PARTITIONS = 4
# How soon members hear of a rebalance. The test clusters tell members of the consumer protocol the same.
HEARTBEAT_INTERVAL_MS = 500


@dataclass(slots=True)
class Outcome:
    """What became of one run."""

    group: Group
    silences_s: list[tuple[str, float]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    is_stuck: bool = False
    produced: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        found_s = [silence_s for _, silence_s in self.silences_s]
        figures = (min(found_s), statistics.median(found_s), max(found_s)) if found_s else (0.0, 0.0, 0.0)
        least, middle, most = (f"{figure * 1000:.0f}" for figure in figures)
        return (
            f"{self.group.value:20} {len(found_s):4} rebalances in {self.seconds:.0f} s, {self.produced} records; "
            f"longest silence of a partition, min/median/max: {least}/{middle}/{most} ms"
        )


class Rounds:
    """One group, and the changes it goes through."""

    def __init__(self, bootstrap_servers: str, group: Group, promised_s: float) -> None:
        run = uuid4().hex[:8]
        self.outcome = Outcome(group)
        self._servers = bootstrap_servers
        self._promised_s = promised_s
        self._group_id = f"rebalances-{run}"
        self._main, self._side = f"main-{run}", f"side-{run}"
        self._partitions = {
            self._main: partitions_of(self._main, PARTITIONS),
            self._side: partitions_of(self._side, SIDE_PARTITIONS),
        }
        self._ledger = Ledger()
        self._members: list[Member] = []
        self._numbers = count(1)
        self._wanted_before: frozenset[TopicPartition] = frozenset()
        self._generation = -1

    def run(self, rebalances: int) -> Outcome:
        for topic, partitions in self._partitions.items():
            make_topic(self._servers, topic, len(partitions))
        everything = frozenset().union(*self._partitions.values())
        began_s = time.monotonic()
        with ExitStack() as stack:
            traffic = Traffic(self._servers, self._ledger, everything)
            stack.enter_context(running(traffic))
            stack.callback(self._stop_members)
            for _ in range(MEMBERS):
                self._join()
            self._settle("start", time.monotonic())
            self.outcome.silences_s.clear()  # a new group has to be found and made first
            changes = (self._leave, self._join, self._widen, self._narrow)
            for number in range(rebalances):
                since_s = time.monotonic()
                changes[number % len(changes)]()
                self._settle(f"{number + 1} ({changes[number % len(changes)].__name__.strip('_')})", since_s)
                if self.outcome.is_stuck:
                    break
            self._drain(traffic)
        self.outcome.seconds = time.monotonic() - began_s
        return self.outcome

    # --- changes --------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        self._members.pop(0).stop()

    def _join(self) -> None:
        settings = self.outcome.group.settings
        if self.outcome.group is not Group.CONSUMER:
            settings |= {"heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS}
        member = Member(
            self._ledger,
            [self._main],
            f"member-{next(self._numbers)}",
            bootstrap_servers=self._servers,
            group_id=self._group_id,
            auto_offset_reset="earliest",
            **settings,
        )
        member.start()
        self._members.append(member)

    def _widen(self) -> None:
        self._members[0].topics = frozenset({self._main, self._side})

    def _narrow(self) -> None:
        self._members[0].topics = frozenset({self._main})

    # --- what is promised -----------------------------------------------------------------------------------

    def _settle(self, what: str, since_s: float) -> None:
        """Wait until all members are in one new generation, the partitions are shared out, and each has made progress
        since; note the longest silence."""
        topics = frozenset().union(*(member.topics for member in self._members))
        wanted = frozenset().union(*(self._partitions[topic] for topic in topics))

        def has_settled() -> bool:
            generations = {member.generation_id for member in self._members}
            return len(generations) == 1 and min(generations) > self._generation and shared_out(self._members, wanted)

        def has_progressed() -> bool:
            return has_settled() and all(self._ledger.last_seen_s(tp) > settled_s for tp in wanted)

        is_through = wait_until(has_settled)
        settled_s = time.monotonic()
        is_through = is_through and wait_until(has_progressed)
        self._generation = max(member.generation_id for member in self._members)
        self._check_members(what)
        if not is_through:
            owned = {member.name: sorted(map(str, member.owned)) for member in self._members}
            self.outcome.is_stuck = True
            self.outcome.broken.append(f"rebalance {what}: not through after {TIMEOUT_S:.0f} s; {owned}")
        now_s = time.monotonic()
        silences_s = {
            tp: self._ledger.silence_s(tp, since_s, now_s, was_read=tp in self._wanted_before) for tp in wanted
        }
        self._wanted_before = wanted
        worst = max(silences_s, key=silences_s.__getitem__)
        self.outcome.silences_s.append((what, silences_s[worst]))
        if silences_s[worst] > self._promised_s and what != "start":
            self.outcome.broken.append(f"rebalance {what}: {worst} was silent for {silences_s[worst]:.2f} s")

    def _check_members(self, what: str) -> None:
        for member in self._members:
            if member.error is not None:
                self.outcome.broken.append(f"rebalance {what}: {member.name} raised {member.error!r}")
            if lost := [when_s for when_s, kind, _ in member.told if kind == "lost"]:
                self.outcome.broken.append(f"rebalance {what}: {member.name} lost its partitions {len(lost)} times")

    def _drain(self, traffic: Traffic) -> None:
        """Everybody reads both topics to their ends."""
        for member in self._members:
            member.topics = frozenset(self._partitions)
        traffic.stop()
        wait_until(lambda: not self._ledger.missing())
        self._stop_members()
        self.outcome.produced = self._ledger.produced
        if missing := self._ledger.missing():
            self.outcome.broken.append(f"{len(missing)} records lost, the first: {missing[0]}")
        if twice := self._ledger.duplicates():
            self.outcome.broken.append(f"{len(twice)} records seen twice, the first: {twice[0]}")

    def _stop_members(self) -> None:
        while self._members:
            self._members.pop().stop()


def prove_rebalances(
    bootstrap_servers: str, group: Group, rebalances: int, *, promised_s: float = PROMISED_S
) -> Outcome:
    return Rounds(bootstrap_servers, group, promised_s).run(rebalances)


def rebalances(
    count: Annotated[int, typer.Option(min=1, help="Rebalances in a row, for each kind of group.")] = 100,
    group: Annotated[list[Group] | None, typer.Option(help="Only groups of this kind; may be repeated.")] = None,
) -> list[str]:
    """Many rebalances in a row: no partition falls silent, nothing is lost, nothing comes twice."""
    broken: list[str] = []
    with KafkaCluster() as cluster:
        for kind in group or Group:
            outcome = prove_rebalances(cluster.bootstrap_servers, kind, count)
            print(outcome, flush=True)
            broken += [f"{kind.value}: {line}" for line in outcome.broken]
    return broken
