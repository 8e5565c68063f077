"""`scripts/bench rebalance`: how long partitions stand still when a member joins, leaves or is killed.

Real broker, records flowing to all partitions. In each setting every library has a group and a topic of its own. Joins
are timed in one group after the other, then leaves; kills, which are nearly all waiting for the session to end, in the
groups of all libraries at once. Settings in which everything takes seconds run at the same time: while sessions end in
one, another has its joins and leaves, still one by one, and nothing else takes place. A setting with quick heartbeats
has the machine for itself.

What a rebalance mostly waits for is the next heartbeat. So rounds are made to differ by seconds, and libraries within a
round by milliseconds: the moment of each event is chosen by the heartbeats that members really send, as seen by the
broker (`tap.py`), evenly over the rounds and in each round the same for every library. A join or a leave
comes when the slowest of the members that stay has a chosen time left until its next heartbeat is due, a kill when the
victim has (its session is counted from its last heartbeat). What that time was in the end is in the JSON file, as
`left_ms`. The survivors of a death hear of it with their next heartbeats: how those lie to the victim's is the client's
doing, and cannot be chosen. What counts is the median over the rounds of one library's time to another's in the same
round.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from benchmarks.rebalance.flow import SILENT, Flow
from benchmarks.rebalance.group import DECIDING, PARTITIONS, Group, StuckError, java_member, python_member, sleep_until
from benchmarks.rebalance.moments import is_near, left_ns, lefts, moment_ns
from benchmarks.rebalance.report import EVENTS, OWN, PARTICIPANTS, Result
from benchmarks.rebalance.tap import COMMITS, Tap
from kwire.assignors import ASSIGNORS
from kwire.testing.kafka import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SESSION_MS = 6_000
ADMIN_TIMEOUT_S = 30.0
# A group has records flowing, and nothing else to do, for this long before an event.
SETTLE_NS = 500_000_000
# With heartbeats as slow as this, what another group does in its few milliseconds is lost in what is timed.
SHARING_MS = 1_000
# A moment that does not come in this many intervals and this long is not waited for: the event takes place, and what
# was left of the interval is in the JSON file.
PATIENCE_INTERVALS = 4
PATIENCE_NS = 5_000_000_000


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
        tap = stack.enter_context(Tap())
        bootstrap_servers = stack.enter_context(tapped_cluster(tap, classes)).bootstrap_servers
        flow = stack.enter_context(Flow(bootstrap_servers, PARTITIONS))
        for settings in sharing(chosen or offered()):
            exclusive_turn = ExclusiveTurn()
            runs = [
                SettingRun(setting, commands, bootstrap_servers, flow, tap, exclusive_turn, logs)
                for setting in settings
            ]
            results += run_together(runs, exclusive_turn, rounds)
    return results


def sharing(settings: Sequence[Setting]) -> list[list[Setting]]:
    """Those that may run at the same time."""
    slow = [setting for setting in settings if setting.heartbeat_ms >= SHARING_MS]
    quick = [[setting] for setting in settings if setting.heartbeat_ms < SHARING_MS]
    return [slow, *quick] if slow else quick


def run_together(runs: Sequence[Running], exclusive_turn: ExclusiveTurn, rounds: int) -> list[Result]:
    """Their results in order. The first error ends them all."""
    with ThreadPoolExecutor(max_workers=len(runs)) as threads:
        running = [threads.submit(run.run, rounds) for run in runs]
        try:
            for each in as_completed(running):
                each.result()
        finally:
            exclusive_turn.is_over = True
    return [result for each in running for result in each.result()]


class Running(Protocol):
    """What `run_together` runs: a `SettingRun`."""

    def run(self, rounds: int) -> list[Result]: ...


class ExclusiveTurn:
    """A lock: one run at a time makes events; the others wait for sessions to time out."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_over = False  # after an error anywhere, or Ctrl-C: nobody goes on


def tapped_cluster(tap: Tap, classes: Path) -> KafkaCluster:
    """A broker that reports heartbeats; `rebalance_tap.java`, which does so, is compiled into that directory."""
    tap.compile_to(classes)
    return KafkaCluster(settings=tap.settings, class_path=[classes])


class SettingRun:
    """The run of one setting: a group for each library, and their turns."""

    def __init__(
        self,
        setting: Setting,
        commands: dict[str, list[str]],
        bootstrap_servers: str,
        flow: Flow,
        tap: Tap,
        exclusive_turn: ExclusiveTurn,
        logs: Path | None,
    ) -> None:
        self._setting = setting
        self._commands = commands
        self._bootstrap_servers = bootstrap_servers
        self._flow = flow
        self._tap = tap
        self._exclusive_turn = exclusive_turn
        self._logs = logs
        self._groups: dict[str, Group] = {}
        self._took_ms: dict[tuple[str, str], list[float | None]] = {(e, c): [] for e in EVENTS for c in PARTICIPANTS}
        self._left_ms: dict[tuple[str, str], list[float | None]] = {(e, c): [] for e in EVENTS for c in PARTICIPANTS}
        self._failures: dict[tuple[str, str], list[str]] = {(e, c): [] for e in EVENTS for c in PARTICIPANTS}

    def run(self, rounds: int) -> list[Result]:
        plans = {event: lefts(rounds, len(DECIDING[event]), seed=event) for event in EVENTS}
        with ExitStack() as stack:
            stack.callback(self._close)
            together = stack.enter_context(ThreadPoolExecutor())
            with self._exclusive_turn.lock:
                list(together.map(self._start, PARTICIPANTS))
            for turn in range(rounds):
                self._round(together, turn, {event: plans[event][turn] for event in EVENTS})
        return [
            Result(
                setting=self._setting.title,
                event=event,
                participant=name,
                rounds_ms=tuple(self._took_ms[event, name]),
                left_ms=tuple(self._left_ms[event, name]),
                failures=tuple(self._failures[event, name]),
            )
            for event in EVENTS
            for name in PARTICIPANTS
        ]

    def _round(self, together: ThreadPoolExecutor, turn: int, left: Mapping[str, float]) -> None:
        with self._exclusive_turn.lock:
            if turn > 0:
                list(together.map(self._replace, self._groups.values()))
            print(f"{self._setting.title}: round {turn + 1}", file=sys.stderr)
            for event in ("join", "leave"):
                for name in PARTICIPANTS:
                    self._turn(name, event, left[event])
        kills = [together.submit(self._turn, name, "kill", left["kill"]) for name in PARTICIPANTS]
        for kill in kills:
            kill.result()

    def _close(self) -> None:
        for group in self._groups.values():
            group.close()

    def _start(self, participant: str) -> None:
        self._groups[participant] = self._started(participant)

    def _started(self, participant: str) -> Group:
        name = f"bench-{participant.lower()}-{uuid4().hex[:8]}"
        self._configure(name)
        logs = self._logs if participant == OWN else None
        members = self._setting.of_members(self._bootstrap_servers)
        group = Group(name, self._commands[participant], self._flow.new_topic(), members, logs)
        try:
            with self._flow.to(group.topic):
                group.start()
        except BaseException:
            group.close()
            raise
        return group

    def _replace(self, group: Group) -> None:
        if self._exclusive_turn.is_over:
            return
        with self._flow.to(group.topic):
            group.replace()

    def _turn(self, participant: str, event: str, left: float) -> None:
        """Time one event. A group that gets stuck is replaced by a new one."""
        if self._exclusive_turn.is_over:
            return
        group = self._groups[participant]
        act = {"join": group.join, "leave": group.leave, "kill": group.kill}[event]
        deciding = group.deciding(event)
        try:
            with self._flow.to(group.topic):
                took_ns = act(self._aimed_ns(group, event, int(left * self._interval_ns)))
        except StuckError as error:
            self._took_ms[event, participant].append(None)
            self._left_ms[event, participant].append(None)
            self._failures[event, participant].append(str(error))
            group.close()
            self._start(participant)
            group = self._groups[participant]
            with self._flow.to(group.topic):
                group.catch_up(event)
        else:
            self._took_ms[event, participant].append(took_ns / 1e6)
            self._left_ms[event, participant].append(self._left_in_the_end_ms(group, deciding))

    @property
    def _interval_ns(self) -> int:
        return self._setting.heartbeat_ms * 1_000_000

    def _aimed_ns(self, group: Group, event: str, wanted_ns: int) -> int:
        """A moment at which the slowest of those that decide has that much left; comes back when it is to be begun."""
        began_ns = time.monotonic_ns()
        over_ns = began_ns + PATIENCE_NS + PATIENCE_INTERVALS * self._interval_ns
        lead_ns = group.lead_ns(event)

        def find() -> int | None:
            beats_ns = self._beats_ns(group, event)
            earliest_ns = max(time.monotonic_ns() + lead_ns, began_ns + SETTLE_NS)
            return moment_ns(beats_ns, self._interval_ns, wanted_ns, earliest_ns) if beats_ns else None

        while (left_s := (over_ns - time.monotonic_ns()) / 1e9) > 0:
            if (at_ns := self._tap.wait_until(find, left_s)) is None:
                break
            sleep_until(at_ns - lead_ns)
            # Somebody may have sent a heartbeat, or a commit, that nobody could foresee.
            beats_ns = self._beats_ns(group, event)
            if beats_ns and is_near(left_ns(beats_ns, self._interval_ns, at_ns), wanted_ns, self._interval_ns):
                return at_ns
        print(f"{self._setting.title}, {event}: the moment never came in {group.name}", file=sys.stderr)
        return time.monotonic_ns() + lead_ns

    def _beats_ns(self, group: Group, event: str) -> list[int] | None:
        """The last heartbeats of those that decide; None if they do not say when the next are due."""
        deciding = group.deciding(event)
        beats_ns = self._tap.heartbeats_ns(group.name, deciding)
        if beats_ns is None or min(beats_ns) < group.last_assigned_ns():
            return None
        # The session of a member of a classic group is counted from its commits as well.
        if event == "kill" and self._setting.protocol == "classic":
            commits_ns = [self._tap.last_ns(group.name, client, COMMITS) or 0 for client in deciding]
            return beats_ns if max(commits_ns) < min(beats_ns) else None
        return beats_ns

    def _left_in_the_end_ms(self, group: Group, deciding: Sequence[str]) -> float | None:
        began_ns = group.began_ns()
        beats_ns = self._tap.heartbeats_ns(group.name, deciding, before_ns=began_ns)
        return (max(beats_ns) + self._interval_ns - began_ns) / 1e6 if beats_ns else None

    def _configure(self, group_id: str) -> None:
        settings = self._setting.of_group()
        if not settings:
            return
        entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in settings.items()]
        resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": SILENT})
        admin.incremental_alter_configs([resource])[resource].result(ADMIN_TIMEOUT_S)
