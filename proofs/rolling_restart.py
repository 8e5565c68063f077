"""`scripts/prove rolling-restart`: brokers are restarted one after the other, and the group does not notice.

Three brokers, each partition on all of them, three members, steady traffic. Each broker in turn is shut down in order
and started again, for some rounds. As in Kafka's own test of rolling bounces, that is no reason for a rebalance:
coordinators move, members stay. Everything that was written is read, and nothing of it twice.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from confluent_kafka.admin import AdminClient

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
    from collections.abc import Mapping

BROKERS = 3
MEMBERS = 3
PARTITIONS = 6
# As long as Kafka's own test has it: longer than a coordinator takes to move, shorter than the whole proof.
SESSION_TIMEOUT_MS = 10_000


@dataclass(slots=True)
class Outcome:
    """What became of one group."""

    group: Group
    is_static: bool
    restarts: int = 0
    produced: int = 0
    seconds: float = 0.0
    longest_silence_s: float = 0.0
    changes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kind = "static" if self.is_static else "dynamic"
        return (
            f"{self.group.value:20} {kind:8} {self.restarts} restarts in {self.seconds:.0f} s, {len(self.changes)} "
            f"changes in the group, {self.produced} records, a partition silent for {self.longest_silence_s:.2f} s"
        )


class Rolling:
    """One group on one cluster."""

    def __init__(self, cluster: KafkaCluster, group: Group, *, is_static: bool) -> None:
        run = uuid4().hex[:8]
        self.outcome = Outcome(group, is_static)
        self._cluster = cluster
        self._topic = f"rolling-{run}"
        self._partitions = partitions_of(self._topic, PARTITIONS)
        self._ledger = Ledger()
        self._members = [self._member(f"{run}-{number}") for number in range(MEMBERS)]

    def _member(self, name: str) -> Member:
        settings: dict[str, object] = dict(self.outcome.group.settings)
        if self.outcome.group is not Group.CONSUMER:
            settings["session_timeout_ms"] = SESSION_TIMEOUT_MS
        if self.outcome.is_static:
            settings["group_instance_id"] = name
        servers = self._cluster.bootstrap_servers
        config = {"bootstrap_servers": servers, "group_id": self._topic, "auto_offset_reset": "earliest", **settings}
        return Member(self._ledger, [self._topic], name, **config)

    def run(self, rounds: int) -> Outcome:
        outcome = self.outcome
        make_topic(self._cluster.bootstrap_servers, self._topic, PARTITIONS, BROKERS)
        traffic = Traffic(self._cluster.bootstrap_servers, self._ledger, self._partitions)
        with ExitStack() as stack:
            stack.enter_context(running(traffic, *self._members))
            if not wait_until(self._is_reading):
                outcome.broken.append("the group did not form")
                return outcome
            before, began_s = self._memberships(), time.monotonic()
            for _ in range(rounds):
                self._restart_all()
            wait_until(self._is_reading)
            outcome.seconds = time.monotonic() - began_s
            outcome.longest_silence_s = max(
                self._ledger.silence_s(tp, began_s, time.monotonic()) for tp in self._partitions
            )
            self._judge_group(before, began_s)
            traffic.stop()
            wait_until(lambda: not self._ledger.missing())
        self._judge_records()
        return outcome

    def _restart_all(self) -> None:
        for broker in range(BROKERS):
            self._cluster.restart_broker(broker)
            self.outcome.restarts += 1
            # Another one may only go down once this one has caught up, or partitions would be without a leader.
            if not wait_until(self._is_whole):
                self.outcome.broken.append(f"broker {broker} did not catch up")

    def _is_whole(self) -> bool:
        topics = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers}).list_topics(timeout=TIMEOUT_S)
        partitions = [p for topic in topics.topics.values() for p in topic.partitions.values()]
        return all(len(partition.isrs) == len(partition.replicas) for partition in partitions)

    def _is_reading(self) -> bool:
        now_s = time.monotonic()
        return shared_out(self._members, self._partitions) and all(
            now_s - self._ledger.last_seen_s(tp) < 1.0 for tp in self._partitions
        )

    def _memberships(self) -> Mapping[str, int]:
        return {member.name: member.generation_id for member in self._members}

    def _judge_group(self, before: Mapping[str, int], since_s: float) -> None:
        outcome = self.outcome
        for member in self._members:
            outcome.changes += [f"{member.name}: {what}" for when_s, what, _ in member.told if when_s > since_s]
            if member.error is not None:
                outcome.broken.append(f"{member.name} raised {member.error!r}")
        if outcome.changes:
            outcome.broken.append(f"the group changed: {outcome.changes}")
        if (after := self._memberships()) != before:
            outcome.broken.append(f"generations were {before}, and are {after}")

    def _judge_records(self) -> None:
        outcome = self.outcome
        outcome.produced = self._ledger.produced
        if missing := self._ledger.missing():
            outcome.broken.append(f"{len(missing)} records lost, the first: {missing[0]}")
        if twice := self._ledger.duplicates():
            outcome.broken.append(f"{len(twice)} records seen twice, the first: {twice[0]}")


def prove_rolling_restart(cluster: KafkaCluster, group: Group, rounds: int, *, is_static: bool) -> Outcome:
    return Rolling(cluster, group, is_static=is_static).run(rounds)


def rolling_restart(
    rounds: Annotated[int, typer.Option(min=1, help="How often each broker is restarted.")] = 5,
    group: Annotated[list[Group] | None, typer.Option(help="Only groups of this kind; may be repeated.")] = None,
) -> list[str]:
    """Brokers restart one after the other: no rebalance, nothing lost, nothing twice."""
    broken: list[str] = []
    settings = {"group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
    with KafkaCluster(BROKERS, settings=settings) as cluster:
        for kind in group or (Group.RANGE, Group.CONSUMER):
            for is_static in (False, True):
                outcome = prove_rolling_restart(cluster, kind, rounds, is_static=is_static)
                print(outcome, flush=True)
                broken += [f"{kind.value}: {line}" for line in outcome.broken]
    return broken
