"""`scripts/bench rebalance`: how long partitions stand still when a member joins, leaves or is killed.

Real broker, records flowing to all partitions. Each library has a group and a topic of its own; the events are timed in
one group after the other and round by round (A B C, A B C, ...), and the groups whose turn it is not are idle. What a
rebalance mostly waits for is the next heartbeat, so the moment of each event within the heartbeat interval is chosen,
evenly over the rounds and in each round the same for every library. So rounds differ by seconds, and libraries within a
round by milliseconds: what counts is the median over the rounds of one library's time to another's in the same round.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

from bench_rebalance_flow import SILENT, Flow
from bench_rebalance_group import PARTITIONS, Group, StuckError, java_member, python_member
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from kafka_cluster import KafkaCluster
from rich.console import Console
from rich.table import Table

from kwire.assignors import ASSIGNORS

if TYPE_CHECKING:
    from collections.abc import Sequence

OWN = "kwire"
CONTESTANTS = (OWN, "Java", "librdkafka")
EVENTS = ("join", "leave", "kill")
SLACK = 1.10  # kwire may take this times what another takes
SESSION_MS = 6_000
ADMIN_TIMEOUT_S = 30.0
# A group has records flowing, and nothing else to do, for this long before an event.
SETTLE_NS = 500_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One way to run a group. In the consumer protocol (KIP-848) the broker sets the heartbeat interval."""

    title: str
    protocol: str
    heartbeat_ms: int
    assignor: str = ""

    def of_members(self, bootstrap_servers: str) -> dict[str, str]:
        """What all members are configured with."""
        shared = {
            "bootstrap.servers": bootstrap_servers,
            "group.protocol": self.protocol,
            "auto.offset.reset": "latest",
            "enable.auto.commit": "true",
        }
        if self.protocol == "consumer":
            return shared
        return {
            **shared,
            "partition.assignment.strategy": self.assignor,
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": str(self.heartbeat_ms),
        }

    def of_group(self) -> dict[str, str]:
        """What the broker is told of a group."""
        if self.protocol == "classic":
            return {}
        return {
            "consumer.session.timeout.ms": str(SESSION_MS),
            "consumer.heartbeat.interval.ms": str(self.heartbeat_ms),
        }


SETTINGS = (
    Setting(title="classic, range", protocol="classic", assignor="range", heartbeat_ms=3_000),
    Setting(title="classic, cooperative-sticky", protocol="classic", assignor="cooperative-sticky", heartbeat_ms=3_000),
    Setting(title="consumer, 5 s", protocol="consumer", heartbeat_ms=5_000),
    Setting(title="consumer, 0.1 s", protocol="consumer", heartbeat_ms=100),
)


def offered() -> tuple[Setting, ...]:
    """Those that kwire can take part in."""
    return tuple(setting for setting in SETTINGS if not setting.assignor or setting.assignor in ASSIGNORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Milliseconds of every round of one library, and what went wrong in those that are None."""

    setting: str
    event: str
    contestant: str
    rounds_ms: tuple[float | None, ...]
    failures: tuple[str, ...] = ()

    @property
    def timed_ms(self) -> list[float]:
        return [took_ms for took_ms in self.rounds_ms if took_ms is not None]

    def to_json(self) -> dict[str, object]:
        return {
            "setting": self.setting,
            "event": self.event,
            "contestant": self.contestant,
            "rounds_ms": [took_ms and round(took_ms, 1) for took_ms in self.rounds_ms],
            "failures": list(self.failures),
        }


# --- measuring -------------------------------------------------------------------------------------------------------


def run(*, rounds: int, chosen: Sequence[Setting] | None = None, logs: Path | None = None) -> list[Result]:
    """Measure everything.

    Args:
        rounds: How often each event is timed in each group.
        chosen: Which settings; all by default.
        logs: A directory for the logs of kwire's members. They cost time: to look for reasons, not for figures.

    Raises:
        ClusterError: There is no broker to be had.
        StuckError: A group could not even be started.
    """
    results: list[Result] = []
    with ExitStack() as stack:
        classes = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-bench-")))
        commands = {OWN: python_member(OWN), "Java": java_member(classes), "librdkafka": python_member("librdkafka")}
        bootstrap_servers = stack.enter_context(KafkaCluster()).bootstrap_servers
        flow = stack.enter_context(Flow(bootstrap_servers, PARTITIONS))
        for setting in chosen or offered():
            results += Arena(setting, commands, bootstrap_servers, flow, logs).run(rounds)
    return results


class Arena:
    """One setting: a group for each library, and their turns."""

    def __init__(
        self, setting: Setting, commands: dict[str, list[str]], bootstrap_servers: str, flow: Flow, logs: Path | None
    ) -> None:
        self._setting = setting
        self._commands = commands
        self._bootstrap_servers = bootstrap_servers
        self._flow = flow
        self._logs = logs
        self._took_ms: dict[tuple[str, str], list[float | None]] = {(e, c): [] for e in EVENTS for c in CONTESTANTS}
        self._failures: dict[tuple[str, str], list[str]] = {(e, c): [] for e in EVENTS for c in CONTESTANTS}

    def run(self, rounds: int) -> list[Result]:
        plans = {event: phases(rounds, seed=event) for event in EVENTS}
        with ExitStack() as stack:
            together = stack.enter_context(ThreadPoolExecutor())  # for what is not timed
            groups = {
                name: stack.enter_context(group)
                for name, group in zip(CONTESTANTS, together.map(self._started, CONTESTANTS), strict=True)
            }
            for turn in range(rounds):
                print(f"{self._setting.title}: round {turn + 1} of {rounds}", file=sys.stderr)
                for event in EVENTS:
                    for name in CONTESTANTS:
                        groups[name] = self._turn(groups[name], name, event, plans[event][turn], stack)
                list(together.map(self._replace, groups.values()))
        return [
            Result(
                setting=self._setting.title,
                event=event,
                contestant=name,
                rounds_ms=tuple(self._took_ms[event, name]),
                failures=tuple(self._failures[event, name]),
            )
            for event in EVENTS
            for name in CONTESTANTS
        ]

    def _started(self, contestant: str) -> Group:
        name = f"bench-{contestant.lower()}-{uuid4().hex[:8]}"
        self._configure(name)
        logs = self._logs if contestant == OWN else None
        members = self._setting.of_members(self._bootstrap_servers)
        group = Group(name, self._commands[contestant], self._flow.new_topic(), members, logs)
        try:
            with self._flow.to(group.topic):
                group.start()
        except BaseException:
            group.close()
            raise
        return group

    def _replace(self, group: Group) -> None:
        with self._flow.to(group.topic):
            group.replace()

    def _turn(self, group: Group, contestant: str, event: str, phase: float, stack: ExitStack) -> Group:
        """Time one event; the group to go on with, which is a new one if this one got stuck."""
        at_ns = moment_ns(time.monotonic_ns(), group.last_assigned_ns(), self._setting.heartbeat_ms, phase)
        act = {"join": group.join, "leave": group.leave, "kill": group.kill}[event]
        sleep_until(at_ns - SETTLE_NS)
        try:
            with self._flow.to(group.topic):
                sleep_until(at_ns)
                self._took_ms[event, contestant].append(act() / 1e6)
        except StuckError as error:
            self._took_ms[event, contestant].append(None)
            self._failures[event, contestant].append(str(error))
            group.close()
            group = stack.enter_context(self._started(contestant))
            with self._flow.to(group.topic):
                group.catch_up(event)
        return group

    def _configure(self, group_id: str) -> None:
        settings = self._setting.of_group()
        if not settings:
            return
        entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in settings.items()]
        resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": SILENT})
        admin.incremental_alter_configs([resource])[resource].result(ADMIN_TIMEOUT_S)


def phases(rounds: int, *, seed: str) -> list[float]:
    """Moments within the heartbeat interval, from 0 to 1: evenly spread, in an order by chance that repeats."""
    found = [(turn + 0.5) / rounds for turn in range(rounds)]
    random.Random(seed).shuffle(found)
    return found


def moment_ns(now_ns: int, since_ns: int, interval_ms: int, phase: float) -> int:
    """The next moment at this phase of the intervals that began with the last rebalance."""
    interval_ns = interval_ms * 1_000_000
    earliest_ns = max(now_ns, since_ns) + SETTLE_NS
    first_ns = since_ns + int(phase * interval_ns)
    intervals = -((first_ns - earliest_ns) // interval_ns)
    return first_ns + max(0, intervals) * interval_ns


def sleep_until(at_ns: int) -> None:
    time.sleep(max(0, at_ns - time.monotonic_ns()) / 1e9)


# --- what comes of it ------------------------------------------------------------------------------------------------


def ratio(results: Sequence[Result], own: Result) -> float:
    """How many times what another library took, round by round; the worst of the comparisons."""
    others = [r for r in results if (r.setting, r.event) == (own.setting, own.event) and r is not own]
    return max((paired(own, other) for other in others), default=0.0)


def paired(own: Result, other: Result) -> float:
    """The median over the rounds that both have. None at all counts against whoever has none."""
    pairs = zip(own.rounds_ms, other.rounds_ms, strict=True)
    quotients = [mine / theirs for mine, theirs in pairs if mine is not None and theirs is not None]
    if quotients:
        return median(quotients)
    return 0.0 if own.timed_ms else float("inf")


def print_table(results: Sequence[Result], console: Console) -> None:
    table = Table(caption=f"milliseconds; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for title in ("setting", "event", "client"):
        table.add_column(title)
    for title in ("median", "min", "max", "rounds", "stuck", "kwire / other"):
        table.add_column(title, justify="right")
    for result in results:
        own = result.contestant == OWN
        timed_ms = result.timed_ms or [float("inf")]
        table.add_row(
            result.setting if own and result.event == EVENTS[0] else "",
            result.event if own else "",
            result.contestant,
            *(f"{took_ms:,.0f}" for took_ms in (median(timed_ms), min(timed_ms), max(timed_ms))),
            str(len(result.timed_ms)),
            str(len(result.failures) or ""),
            f"{ratio(results, result):.2f}" if own else "",
            end_section=result.contestant == CONTESTANTS[-1],
        )
    console.print(table)


def misses(results: Sequence[Result]) -> list[str]:
    """Each target that was missed: as fast as each of the others, and never stuck."""
    found: list[str] = []
    for own in results:
        if own.contestant != OWN:
            continue
        where = f"{own.setting}, {own.event}"
        found += [f"{where}: stuck: {failure}" for failure in own.failures]
        if (times := ratio(results, own)) > SLACK:
            found.append(f"{where}: {times:.2f} times another")
    return found
