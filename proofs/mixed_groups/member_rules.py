"""One member of a group of verifiable consumers, as its lines tell of it, and the rules it has to keep.

They are those of Kafka's system tests (tests/kafkatest/services/verifiable_consumer.py: its three event handlers).
`members.py` feeds each line, `rules.py` judges all members together. Pure: it knows no process and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from proofs.mixed_groups.lines import Line, LineName

MOST_VIOLATIONS = 20  # of one member: the first ones tell the story
FOR_EVER_MS = 1 << 62


class Rebalancing(Enum):
    """Which of Kafka's three event handlers judges a member."""

    EAGER = "eager"  # ConsumerEventHandler: everything is revoked, then everything assigned
    COOPERATIVE = "cooperative"  # IncrementalAssignmentConsumerEventHandler (KIP-429)
    CONSUMER = "consumer"  # ConsumerProtocolConsumerEventHandler (KIP-848)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """A partition was a member's from one moment to another."""

    member: str
    partition: int
    start_ms: int
    end_ms: int


class MemberRules:
    """One member as its lines tell of it, and the rules it broke. Fed in the order in which it printed."""

    def __init__(self, name: str, kind: str, rebalancing: Rebalancing) -> None:
        self.name = name
        self.kind = kind
        self.lines: list[Line] = []
        self.violations: list[str] = []
        self.assignment: set[int] = set()
        self.joined = False
        self.alive = True
        self.was_killed = False
        self.assigned_count = 0
        self.rebalancing = rebalancing
        self._position: dict[int, int] = {}
        self._since_ms: dict[int, int] = {}
        self._ownerships: list[Ownership] = []
        self._last_ms = 0

    def feed(self, line: Line) -> None:
        self.lines.append(line)
        self._last_ms = max(self._last_ms, line.at_ms)
        match line.name:
            case LineName.STARTUP_COMPLETE | LineName.SHUTDOWN_REQUESTED:
                pass
            case LineName.PARTITIONS_ASSIGNED:
                self._on_assigned(line)
            case LineName.PARTITIONS_REVOKED:
                self._on_revoked(line)
            case LineName.RECORDS_CONSUMED:
                self._on_consumed(line)
            case LineName.OFFSETS_COMMITTED:
                self._on_committed(line)
            case LineName.SHUTDOWN_COMPLETE:
                self._end(line.at_ms)
            case _:
                assert_never(line.name)

    def killed(self, at_ms: int) -> None:
        """Nothing more will come. What it printed last may be a little younger than the decision to kill it."""
        self.was_killed = True
        self._end(max(at_ms, self._last_ms))

    def gone(self) -> None:
        """Its process has ended without saying so: it crashed, or had to be killed because it did not close."""
        self._break("ended without shutdown_complete")
        self._end(self._last_ms)

    def ownerships(self) -> list[Ownership]:
        return [*self._ownerships, *(self._ownership(partition, FOR_EVER_MS) for partition in self._since_ms)]

    # --- the rules ------------------------------------------------------------------------------------------

    def _on_assigned(self, line: Line) -> None:
        self.assigned_count += 1
        self.joined = True
        if self.rebalancing is Rebalancing.EAGER:
            self._release(self.assignment, line.at_ms)
        for partition in line.partitions:
            if partition in self.assignment:
                self._break(f"was assigned partition {partition}, which it had")
            self.assignment.add(partition)
            self._since_ms.setdefault(partition, line.at_ms)

    def _on_revoked(self, line: Line) -> None:
        revoked = set(line.partitions)
        # A member of the consumer protocol that shuts down while it gives a partition back may name it twice.
        if self.rebalancing is not Rebalancing.CONSUMER and not revoked <= self.assignment:
            self._break(f"had partitions {sorted(revoked - self.assignment)} revoked, which it did not have")
        if self.rebalancing is Rebalancing.EAGER:
            self.joined = False
            if revoked != self.assignment:
                self._break(f"kept partitions {sorted(self.assignment - revoked)} in an eager rebalance")
        self._release(revoked, line.at_ms)

    def _on_consumed(self, line: Line) -> None:
        # With incremental rebalances, what stays is consumed all the while (KIP-429, KIP-848); having it is the rule.
        if not self.joined:
            self._break("consumed while it was not joined")
        for span in line.spans:
            if span.partition not in self.assignment:
                self._break(f"consumed from partition {span.partition}, which it did not have")
            if span.count != span.last - span.first + 1:
                self._break(f"returned {span.count} records from {span}")
            expected = self._position.get(span.partition, span.first)
            if expected != span.first:
                self._break(f"consumed {span} at position {expected}")
            self._position[span.partition] = span.last + 1

    def _on_committed(self, line: Line) -> None:
        for partition, offset in line.offsets if line.success else ():
            position = self._position.get(partition)
            if partition not in self.assignment:
                self._break(f"committed {offset} of partition {partition}, which it did not have")
            elif position is None:
                self._break(f"committed {offset} of partition {partition}, of which it has consumed nothing")
            elif offset > position:
                self._break(f"committed {offset} of partition {partition}, ahead of its position {position}")

    # --- what follows from them -----------------------------------------------------------------------------

    def _release(self, partitions: set[int], at_ms: int) -> None:
        for partition in sorted(partitions & self.assignment):
            self._ownerships.append(self._ownership(partition, at_ms))
            del self._since_ms[partition]
            self._position.pop(partition, None)
        self.assignment -= partitions

    def _ownership(self, partition: int, end_ms: int) -> Ownership:
        start_ms = self._since_ms[partition]
        return Ownership(member=self.name, partition=partition, start_ms=start_ms, end_ms=end_ms)

    def _end(self, at_ms: int) -> None:
        self._release(set(self.assignment), at_ms)
        self.joined = self.alive = False

    def _break(self, what: str) -> None:
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(f"{self.name} (line {len(self.lines)}) {what}")
