"""The judge of a group of verifiable consumers: the rules of Kafka's system tests, and the promises they stand for.

`judge` looks at all members together when everything is over: one owner of each partition at a time, positions never
behind a commit, nothing lost, every duplicate explained, no partition silent. What a member has to keep by itself is in
`member_rules.py`. `prove.py` calls it. Pure: it knows no process and no clock.

Members print by the same clock, and in this order: a revocation before the group is told that the partition is free, an
assignment after the group gave it. So of one partition the end of an ownership is never behind the next one's start.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from proofs.mixed_groups.lines import LineName
from proofs.mixed_groups.member_rules import MemberRules, Ownership, Rebalancing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proofs.mixed_groups.lines import Line


class Cause(Enum):
    """Why a record was returned twice."""

    KILLED = "killed"  # the first to return it was killed before its commit was acknowledged
    # The first to return it was told that its commit was refused, and had to give the partition back. Incremental
    # rebalances alone do that (KIP-429): records go on coming while the generation to commit with is not known.
    REFUSED = "commit refused"
    UNKNOWN = "unknown cause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A partition had records, and nobody returned any. `counted_ms` is without what a kill excuses."""

    partition: int
    start_ms: int
    end_ms: int
    counted_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """The truth about the topic: of each partition, when each offset was written."""

    times_ms: Mapping[int, Sequence[int]]

    @property
    def total(self) -> int:
        return sum(len(times) for times in self.times_ms.values())


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What `judge` found. No violations, nothing lost, no duplicate without a cause: the rules were kept."""

    produced: int = 0
    consumed: int = 0
    lost: int = 0
    duplicates: Counter[tuple[Cause, str]] = field(default_factory=Counter)
    refused_commits: Counter[tuple[str, str]] = field(default_factory=Counter)
    largest_silence: Silence | None = None
    violations: list[str] = field(default_factory=list)

    def duplicates_by(self, cause: Cause) -> int:
        return sum(count for (found, _kind), count in self.duplicates.items() if found is cause)


def judge(
    members: Sequence[MemberRules],
    produced: Produced,
    *,
    excused_ms: Sequence[tuple[int, int]] = (),
    silence_limit_ms: int,
) -> Verdict:
    """All members together, when all of them have ended.

    Args:
        excused_ms: spans of time in which a partition may be silent: behind a kill, until the session has timed out.
        silence_limit_ms: how long a partition with records may be silent besides.
    """
    verdict = Verdict(produced=produced.total)
    for member in members:
        verdict.violations += member.violations
    verdict.violations += _two_owners(members)
    _judge_offsets(members, verdict)
    _judge_records(members, produced, verdict)
    _judge_silences(members, produced, excused_ms, verdict)
    worst = verdict.largest_silence
    if worst is not None and worst.counted_ms > silence_limit_ms:
        took = f"{worst.end_ms - worst.start_ms} ms ({worst.counted_ms} ms of them without excuse)"
        verdict.violations.append(f"partition {worst.partition} was silent for {took} from {worst.start_ms}")
    return verdict


def in_order(members: Sequence[MemberRules]) -> Iterator[tuple[MemberRules, int, Line]]:
    """Every line of the group, with its number in its member's output.

    The sort is stable: lines of one millisecond stay in the order of their member.
    """
    every = [(member, number, line) for member in members for number, line in enumerate(member.lines, 1)]
    return iter(sorted(every, key=lambda entry: entry[2].at_ms))


def _two_owners(members: Sequence[MemberRules]) -> list[str]:
    found = []
    last: dict[int, Ownership] = {}
    every = [ownership for member in members for ownership in member.ownerships()]
    for now in sorted(every, key=lambda ownership: (ownership.start_ms, ownership.end_ms)):
        before = last.get(now.partition)
        if before is not None and before.end_ms > now.start_ms and before.member != now.member:
            overlap_ms = min(before.end_ms, now.end_ms) - now.start_ms
            both = f"{now.member} from {now.start_ms} on, while {before.member} had it for another {overlap_ms} ms"
            found.append(f"partition {now.partition} had two owners: {both}")
        if before is None or now.end_ms > before.end_ms:
            last[now.partition] = now
    return found


def _judge_offsets(members: Sequence[MemberRules], verdict: Verdict) -> None:
    """Across members: a position is never behind what is committed, a commit never ahead of what was consumed."""
    position: dict[int, int] = {}
    committed: dict[int, int] = {}
    for member, _number, line in in_order(members):
        for span in line.spans:
            if committed.get(span.partition, 0) > span.first:
                behind = f"behind the commit {committed[span.partition]}"
                verdict.violations.append(f"{member.name} consumed {span}, {behind}")
            position[span.partition] = span.last + 1
        if not line.success:
            verdict.refused_commits[member.kind, line.error] += 1
            continue
        for partition, offset in line.offsets:
            if offset > position.get(partition, 0):
                ahead = f"ahead of the group's position {position.get(partition, 0)}"
                verdict.violations.append(f"{member.name} committed {offset} of partition {partition}, {ahead}")
            committed[partition] = offset


@dataclass(frozen=True, slots=True, kw_only=True)
class _Return:
    """Who returned a record, and in which of its lines."""

    member: MemberRules
    line_number: int

    def cause(self, partition: int, offset: int) -> Cause:
        """Why the record was returned again: what became of it until this member gave the partition back."""
        was_refused = False
        for line in self.member.lines[self.line_number :]:
            if line.name is LineName.PARTITIONS_REVOKED and partition in line.partitions:
                break
            if any(at == partition and end > offset for at, end in line.offsets):
                if line.success:
                    return Cause.UNKNOWN
                was_refused = True
        else:
            if self.member.was_killed:
                return Cause.KILLED
        return Cause.REFUSED if was_refused else Cause.UNKNOWN


def _judge_records(members: Sequence[MemberRules], produced: Produced, verdict: Verdict) -> None:
    """Every record by its offset: whether anybody returned it, and why it came again."""
    returned: dict[tuple[int, int], _Return] = {}
    for member, line_number, line in in_order(members):
        now = _Return(member=member, line_number=line_number)
        for span in line.spans:
            for offset in range(span.first, span.last + 1):
                verdict.consumed += 1
                before = returned.get((span.partition, offset))
                if before is not None:
                    _note_duplicate(before, now, span.partition, offset, verdict)
                returned[span.partition, offset] = now
    for partition, times in sorted(produced.times_ms.items()):
        missing = [offset for offset in range(len(times)) if (partition, offset) not in returned]
        verdict.lost += len(missing)
        if missing:
            verdict.violations.append(f"{len(missing)} records of partition {partition} lost, from {missing[0]} on")


def _note_duplicate(before: _Return, now: _Return, partition: int, offset: int, verdict: Verdict) -> None:
    cause = before.cause(partition, offset)
    verdict.duplicates[cause, before.member.kind] += 1
    if cause is Cause.UNKNOWN or (cause is Cause.REFUSED and before.member.rebalancing is Rebalancing.EAGER):
        first = f"{before.member.name} (line {before.line_number})"
        again = f"{now.member.name} (line {now.line_number})"
        record = f"offset {offset} of partition {partition}"
        verdict.violations.append(f"{record} came to {first}, and again to {again}: {cause.value}")


def _judge_silences(
    members: Sequence[MemberRules], produced: Produced, excused_ms: Sequence[tuple[int, int]], verdict: Verdict
) -> None:
    """From the moment when a record waits (written, and the ones before it returned) to the one when it is returned."""
    progress_ms: dict[int, int] = {}
    for _member, _number, line in in_order(members):
        for span in line.spans:
            times = produced.times_ms.get(span.partition, ())
            written_ms = times[span.first] if span.first < len(times) else line.at_ms
            start_ms = max(written_ms, progress_ms.get(span.partition, 0))
            progress_ms[span.partition] = line.at_ms
            counted_ms = line.at_ms - start_ms - _overlap_ms(start_ms, line.at_ms, excused_ms)
            worst = verdict.largest_silence
            if worst is None or counted_ms > worst.counted_ms:
                verdict.largest_silence = Silence(
                    partition=span.partition, start_ms=start_ms, end_ms=line.at_ms, counted_ms=counted_ms
                )


def _overlap_ms(start_ms: int, end_ms: int, spans: Sequence[tuple[int, int]]) -> int:
    """How much of the time from start to end lies in any of the spans, which may overlap each other."""
    covered = 0
    for span_start, span_end in sorted(spans):
        start_ms = max(start_ms, span_start)
        if min(end_ms, span_end) > start_ms:
            covered += min(end_ms, span_end) - start_ms
            start_ms = min(end_ms, span_end)
    return covered
