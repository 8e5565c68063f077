"""Members of one group as processes: kwire, Java's VerifiableConsumer and confluent-kafka, all with the same lines.

`prove.py` starts, closes and kills them and waits for what they say. Every member has a thread that reads its
lines into its `MemberRules`; `Members.wait` is told of each. A guard process (`kwire.testing.kafka.guard`) makes sure
that no member outlives the program that started it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.testing.faults.member_plan import CONFLUENT_PROGRAM, JAVA_STRATEGIES
from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.guard import Order, guarded
from kwire.testing.kafka.tools import verifiable_consumer_command
from proofs.mixed_groups.lines import BadLineError, read_line
from proofs.mixed_groups.member_rules import MemberRules, Rebalancing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

from tools.environment import TOP

CLOSE_GRACE_S = 20.0  # then the guard kills, and the member counts as one that did not close
START_LIMIT_S = 30.0  # a JVM on a busy machine takes seconds of it
HEARTBEAT_INTERVAL_MS = 500  # how soon a member of the classic protocol hears of a rebalance


class Kind(Enum):
    """The clients."""

    KWIRE = "kwire"
    JAVA = "java"
    CONFLUENT = "confluent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What its members have in common. `strategy` is the assignor of a classic group, None in one of KIP-848."""

    bootstrap_servers: str
    group_id: str
    topic: str
    partitions: int
    strategy: str | None
    session_timeout_ms: int
    directory: Path

    @property
    def rebalancing(self) -> Rebalancing:
        if self.strategy is None:
            return Rebalancing.CONSUMER
        return Rebalancing.COOPERATIVE if self.strategy == "cooperative-sticky" else Rebalancing.EAGER


def member_command(kind: Kind, group: Group, config: Path) -> list[str]:
    """How a member is started: Kafka's flags, whichever client it is."""
    flags = ["--bootstrap-server", group.bootstrap_servers, "--topic", group.topic, "--group-id", group.group_id]
    flags += ["--command-config", str(config)]
    if group.strategy is None:
        flags += ["--group-protocol", "consumer"]
    else:
        strategy = JAVA_STRATEGIES[group.strategy] if kind is Kind.JAVA else group.strategy
        flags += ["--assignment-strategy", strategy, "--session-timeout", str(group.session_timeout_ms)]
    if kind is Kind.JAVA:
        return verifiable_consumer_command(*flags)
    if kind is Kind.CONFLUENT:
        return [sys.executable, str(CONFLUENT_PROGRAM), *flags]
    return [sys.executable, "-m", "kwire.verifiable_consumer", *flags]


class Member:
    """One process. Its `rules` change under the lock of `Members` alone."""

    def __init__(self, name: str, kind: Kind, group: Group, told: threading.Condition) -> None:
        self.rules = MemberRules(name, kind.value, group.rebalancing)
        self._group = group
        self._told = told
        directory = group.directory / name
        directory.mkdir(parents=True)
        config = directory / "member.properties"
        beat = f"heartbeat.interval.ms={HEARTBEAT_INTERVAL_MS}\n" if group.strategy is not None else ""
        config.write_text(f"client.id={name}\n{beat}")
        command = member_command(kind, group, config)
        with (directory / "stderr.log").open("wb") as log:
            self._process = subprocess.Popen(
                guarded(command, lock=directory / "lock", grace_s=CLOSE_GRACE_S),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=TOP,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name=f"reader of {name}", daemon=True)
        self._reader.start()

    @property
    def log(self) -> Path:
        return self._group.directory / self.rules.name / "stderr.log"

    def close(self) -> None:
        self._order(Order.TERMINATE)

    def kill(self) -> int:
        """As a power failure would; when that was, in ms."""
        with self._told:
            self.rules.was_killed = True
        killed_at_ms = time.time_ns() // 1_000_000
        self._order(Order.KILL)
        self._reader.join()
        with self._told:
            self.rules.killed(killed_at_ms)
        return killed_at_ms

    def wait(self) -> None:
        """Until it has ended: it was asked to, and what does not obey is killed by the guard."""
        self._reader.join()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _order(self, order: Order) -> None:
        if self._process.stdin is not None and self._process.poll() is None:
            os.write(self._process.stdin.fileno(), order.value)

    def _read(self) -> None:
        """Thread: every line, until the process has ended."""
        if self._process.stdout is None:
            raise ClusterError("a member was started without a pipe")
        with self._process.stdout as lines, (self.log.with_name("stdout.log")).open("wb") as copy:
            for line in lines:
                copy.write(line)
                self._take(line.decode(errors="replace"))
        with self._told:
            if self.rules.alive and not self.rules.was_killed:
                self.rules.gone()
            self._told.notify_all()

    def _take(self, text: str) -> None:
        with self._told:
            try:
                self.rules.feed(read_line(text, self._group.topic))
            except BadLineError as error:
                self.rules.violations.append(f"{self.rules.name} printed what is no event: {error}")
            self._told.notify_all()


class Members:
    """The members of one group, those that are gone included. Lock: `_told`, which guards every member's rules."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._told = threading.Condition()
        self._members: dict[str, Member] = {}

    def __enter__(self) -> Members:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members.values():
            if member.rules.alive:
                member.kill()
            member.wait()

    @property
    def rules(self) -> list[MemberRules]:
        return [member.rules for member in self._members.values()]

    def start(self, name: str, kind: Kind) -> None:
        """Comes back when it runs, which is before it joins; a signal that comes earlier would meet no handler.

        Raises:
            ClusterError: it does not start.
        """
        member = self._members[name] = Member(name, kind, self.group, self._told)
        if not self.wait(lambda _: bool(member.rules.lines) or not member.rules.alive, START_LIMIT_S):
            raise ClusterError(f"{name} does not start; see {member.log}")

    def close(self, name: str) -> None:
        """In order; comes back when it has ended, whether it obeyed or had to be killed."""
        self._members[name].close()
        self._members[name].wait()

    def kill(self, name: str) -> int:
        """Answers when it was killed, in ms."""
        return self._members[name].kill()

    def close_all(self) -> None:
        for member in self._members.values():
            if member.rules.alive:
                member.close()
        for member in self._members.values():
            member.wait()

    def wait(self, condition: Callable[[Sequence[MemberRules]], bool], timeout_s: float) -> bool:
        """Until the condition holds; False when the time is over. It is asked anew after each line of any member."""
        with self._told:
            return self._told.wait_for(lambda: condition(self.rules), timeout_s)

    def is_settled(self, members: Sequence[MemberRules]) -> bool:
        """Kafka's valid_assignment: every partition has one owner; and every living member has some of them."""
        living = [member for member in members if member.alive]
        owned = [partition for member in living for partition in member.assignment]
        return sorted(owned) == list(range(self.group.partitions)) and all(
            member.joined and member.assignment for member in living
        )

    def describe(self) -> str:
        """Who has what, for the message about a group that does not settle."""
        with self._told:
            living = [member for member in self.rules if member.alive]
            return ", ".join(f"{member.name} {_state(member)} {sorted(member.assignment)}" for member in living)


def _state(member: MemberRules) -> str:
    return "joined" if member.joined else "rebalancing" if member.lines else "silent"
