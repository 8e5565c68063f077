"""One mixed group from its first member to its last: the changes, the end of the stream, the judgement.

`prove.py` runs one for each way of assigning, tests/integration/test_mixed_groups.py a short one.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from proofs.mixed_groups.changes import Action, Change
from proofs.mixed_groups.members import Group, Members
from proofs.mixed_groups.rules import Produced, Verdict, judge
from proofs.mixed_groups.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proofs.mixed_groups.member_rules import MemberRules

SILENCE_LIMIT_MS = 2_000
SETTLE_LIMIT_S = 20.0
DRAIN_LIMIT_S = 30.0
ADMIN_TIMEOUT_S = 30.0
INTERVAL_S = 0.05


@dataclass(slots=True, kw_only=True)
class Result:
    """What was done and what came of it."""

    scenario: str
    verdict: Verdict
    changes: list[str] = field(default_factory=list)
    kills: int = 0
    assignments: int = 0
    leaders: dict[str, int] = field(default_factory=dict)
    slowest_settling_ms: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, object]:
        verdict, worst = self.verdict, self.verdict.largest_silence
        return {
            "scenario": self.scenario,
            "changes": self.changes,
            "kills": self.kills,
            "assignments": self.assignments,
            "rebalances_led": self.leaders,
            "produced": verdict.produced,
            "consumed": verdict.consumed,
            "lost": verdict.lost,
            "duplicates": {f"{cause.value}, {kind}": count for (cause, kind), count in verdict.duplicates.items()},
            "refused_commits": [
                {"client": kind, "error": error, "count": count}
                for (kind, error), count in verdict.refused_commits.items()
            ],
            "slowest_settling_ms": self.slowest_settling_ms,
            "largest_silence_ms": worst.counted_ms if worst else 0,
            "violations": verdict.violations,
            "seconds": round(self.seconds, 1),
        }


class Trial:
    """The changes of one group, one after the other, and how the group took them."""

    def __init__(self, members: Members) -> None:
        self.changes: list[Change] = []
        self.broken: list[str] = []
        self.excused_ms: list[tuple[int, int]] = []
        self.slowest_settling_ms = 0
        self._has_begun = False
        self._members = members
        self._session_timeout_ms = members.group.session_timeout_ms

    def run(self, planned: Sequence[Change]) -> None:
        """All changes, or those up to the one after which the group did not settle."""
        limit_s = 0.0
        for change in planned:
            self.changes.append(change)
            limit_s = max(limit_s, SETTLE_LIMIT_S) + self._carry_out(change)
            if change.hasty:
                continue
            if not self._settle(limit_s, change):
                return
            limit_s = 0.0

    def _carry_out(self, change: Change) -> float:
        """Answers how much longer than usual the group may take to settle."""
        match change.action:
            case Action.JOIN:
                self._members.start(change.member, change.kind)
            case Action.LEAVE:
                self._members.close(change.member)
            case Action.KILL:
                killed_ms = self._members.kill(change.member)
                self.excused_ms.append((killed_ms, killed_ms + self._session_timeout_ms))
                return self._session_timeout_ms / 1000
        return 0.0

    def _settle(self, limit_s: float, change: Change) -> bool:
        """Everybody has joined and has partitions, and after that every partition has moved on."""
        started_s = time.monotonic()
        if not self._members.wait(self._members.is_settled, limit_s):
            self.broken.append(f"not settled {limit_s:.0f} s after {change}: {self._members.describe()}")
            return False
        self.slowest_settling_ms = max(self.slowest_settling_ms, int((time.monotonic() - started_s) * 1000))
        settled_ms = time.time_ns() // 1_000_000
        if not self._has_begun:
            self._has_begun = True
            self.excused_ms.append((0, settled_ms))  # there was no group yet, only records
        if not self._members.wait(lambda members: _all_moved(members, settled_ms, self._members.group), limit_s):
            self.broken.append(f"not every partition moved on within {limit_s:.0f} s after {change}")
            return False
        return True

    def drain(self, produced: Produced) -> None:
        """Everything that was written is returned; what returned it commits it before it closes."""
        if not self._members.wait(lambda members: _all_returned(members, produced), DRAIN_LIMIT_S):
            self.broken.append(f"not everything returned {DRAIN_LIMIT_S:.0f} s after the last record was written")


def _all_moved(members: Sequence[MemberRules], since_ms: int, group: Group) -> bool:
    moved: set[int] = set()
    for member in members:
        for line in reversed(member.lines):
            if line.at_ms < since_ms:
                break
            moved |= {span.partition for span in line.spans}
    return len(moved) == group.partitions


def _all_returned(members: Sequence[MemberRules], produced: Produced) -> bool:
    """By the last span that anybody returned of each partition; `judge` counts them all."""
    ends: dict[int, int] = {}
    for member in members:
        for line in reversed(member.lines[-100:]):
            for span in line.spans:
                ends[span.partition] = max(span.last + 1, ends.get(span.partition, 0))
    return all(ends.get(partition, 0) >= len(times) for partition, times in produced.times_ms.items())


def run_scenario(scenario: str, group: Group, planned: Sequence[Change]) -> Result:
    """One group: the changes, the end of the stream, the judgement."""
    started_s = time.monotonic()
    with ExitStack() as stack:
        traffic = stack.enter_context(
            Traffic(group.bootstrap_servers, group.topic, group.partitions, interval_s=INTERVAL_S)
        )
        members = stack.enter_context(Members(group))
        trial = Trial(members)
        trial.run(planned)
        produced = traffic.stop()
        trial.drain(produced)
        members.close_all()
        rules = members.rules
    verdict = judge(rules, produced, excused_ms=trial.excused_ms, silence_limit_ms=SILENCE_LIMIT_MS)
    verdict.violations = [*trial.broken, *verdict.violations, *uncommitted(group, produced)]
    return Result(
        scenario=scenario,
        verdict=verdict,
        changes=list(map(str, trial.changes)),
        kills=sum(change.action is Action.KILL for change in trial.changes),
        assignments=sum(member.assigned_count for member in rules),
        slowest_settling_ms=trial.slowest_settling_ms,
        seconds=time.monotonic() - started_s,
    )


def uncommitted(group: Group, produced: Produced) -> list[str]:
    """After the last member has left, the group's commits are at the ends: the broker is asked, not the members."""
    admin = open_admin(group.bootstrap_servers)
    asked = ConsumerGroupTopicPartitions(group.group_id)
    answer = admin.list_consumer_group_offsets([asked])[group.group_id].result(ADMIN_TIMEOUT_S)
    committed = {at.partition: at.offset for at in answer.topic_partitions if at.topic == group.topic}
    return [
        f"partition {partition} is committed up to {committed.get(partition)} instead of {len(times)}"
        for partition, times in produced.times_ms.items()
        if committed.get(partition) != len(times)
    ]


def open_admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 3})
