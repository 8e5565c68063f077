"""One owner for each partition, except for zombies: members that the group has expelled, and that do not know it
yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Frozen,
    Killed,
    Ledger,
    Lost,
    Polled,
    Quiet,
    Revoked,
    Started,
    Thawed,
)
from kwire.testing.invariants.violation import Violation

# A member notices at its next poll, and the clocks of two machines are read at different moments.
NOTICING_MS = 2_000.0
NEVER_MS = float("inf")


@dataclass(slots=True)
class _Holder:
    member: str
    overtaken_at_ms: float | None = None


class _Owners:
    def __init__(self) -> None:
        self.holders: dict[TopicPartition, list[_Holder]] = {}
        self.session_ms: dict[str, float] = {}
        self.knows_session: dict[str, bool] = {}
        self.quiet_at_ms = NEVER_MS
        self.frozen: dict[str, float] = {}
        self.excused_ms: dict[str, float] = {}

    def start(self, event: Started) -> None:
        self.session_ms[event.member] = event.session_timeout_ms
        self.knows_session[event.member] = event.knows_session

    def take(self, event: Assigned) -> None:
        for partition in event.partitions:
            holders = self.holders.setdefault(partition, [])
            for holder in holders:
                holder.overtaken_at_ms = event.at_ms if holder.overtaken_at_ms is None else holder.overtaken_at_ms
            holders.append(_Holder(event.member))

    def drop(self, event: Revoked | Lost) -> Iterator[Violation]:
        for partition in event.partitions:
            holders = self.holders.get(partition, [])
            for holder in [holder for holder in holders if holder.member == event.member]:
                holders.remove(holder)
                yield from self.judge(holder, partition, event.at_ms)

    def drop_all(self, member: str) -> None:
        for holders in self.holders.values():
            holders[:] = [holder for holder in holders if holder.member != member]

    def excuse(self, event: Frozen | Thawed) -> None:
        """Excuse a member that is frozen: it cannot notice anything."""
        if isinstance(event, Frozen):
            self.frozen[event.member] = event.at_ms
        else:
            frozen_ms = event.at_ms - self.frozen.pop(event.member, event.at_ms)
            self.excused_ms[event.member] = self.excused_ms.get(event.member, 0.0) + frozen_ms

    def judge_reader(self, event: Polled) -> Iterator[Violation]:
        for holder in self.holders.get(event.partition, []):
            if holder.member == event.member:
                yield from self.judge(holder, event.partition, event.at_ms)

    def judge(self, holder: _Holder, partition: TopicPartition, at_ms: float) -> Iterator[Violation]:
        if holder.overtaken_at_ms is None:
            return
        knew_from_ms = 0.0 if self.knows_session.get(holder.member, True) else self.quiet_at_ms
        overlap_ms = at_ms - max(holder.overtaken_at_ms, knew_from_ms)
        allowed_ms = self.session_ms.get(holder.member, 0.0) + NOTICING_MS + self.excused_ms.get(holder.member, 0.0)
        if overlap_ms > allowed_ms:
            what = f"{holder.member} kept {partition} for {overlap_ms:.0f} ms beside its new owner"
            holder.overtaken_at_ms = None  # told once
            yield Violation(rule="one-owner", at_ms=at_ms, what=what)


def one_owner_at_a_time(ledger: Ledger) -> Iterator[Violation]:
    """A partition's owners do not overlap by more than a session timeout; frozen time does not count, and for members
    that do not know their session timeout, only what comes after all is quiet."""
    owners = _Owners()
    for event in ledger.events:
        match event:
            case Started():
                owners.start(event)
            case Assigned():
                owners.take(event)
            case Revoked() | Lost():
                yield from owners.drop(event)
            case Polled():
                yield from owners.judge_reader(event)
            case Killed() | Closed():
                owners.drop_all(event.member)
            case Quiet():
                owners.quiet_at_ms = event.at_ms
            case Frozen() | Thawed():
                owners.excuse(event)
            case _:
                pass
