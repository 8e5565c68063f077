"""The judge of worlds of crash orders: the two cursors together skip no record, and only records that no commit covers
come again. Pure: it is given the events in order.

At each commit, the judge derives from both commit logs what they say is done. The next owner may begin there, so all of
it has to be processed, even if no life of this world crashes at this point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.model import Cursor, TopicPartition, leader_epoch_or_none
from kwire.parallel_rebalance.token import decode, decode_mark
from kwire.testing.cluster.groups.offsets import CommittedOffset
from kwire.testing.invariants.violation import Violation
from kwire.testing.simulation.crash_plan import GROUP, HEAD_GROUP

_NOTHING = range(0)


class _Claim(NamedTuple):
    """What both logs say: up to where all is done, what they leave out of it, and the leader epoch in front of that."""

    done_up_to: int
    undone: tuple[range, ...] = ()
    leader_epoch: int | None = None


@dataclass(slots=True)
class _Holding:
    """What a life has been given of a partition, in one assignment of it.

    `is_blind` where it was assigned while the commit logs spoke of what had been cut away, as `_Log.blind` says: when
    the log ends in front of that, the position is out of range, and all is read from the log's beginning."""

    is_blind: bool
    seen: set[int] = field(default_factory=set)
    head: int = -1
    """The last offset of the main cursor."""


@dataclass(slots=True)
class _Log:
    """A partition: what may be read of it, by offset; all values that ever stood there; where its log ended before it
    was cut: offsets in front of that were given out again, and who has not noticed yet speaks of the old ones.

    `blind` is what both commit logs say is done of what the cut took away, by an offset without a leader epoch: as long
    as they say so, a member that recovers from them cannot know (KIP-320), and `excused` is where somebody did."""

    alive: dict[int, str] = field(default_factory=dict)
    ever: set[tuple[int, str]] = field(default_factory=set)
    cut_end: int = 0
    anew: set[int] = field(default_factory=set)
    is_another: bool = False
    blind: range = _NOTHING
    excused: list[range] = field(default_factory=list)

    def is_excused(self, offset: int) -> bool:
        return any(offset in each for each in self.excused)


class CrashJudge:
    """Judges a world of crash orders, while it goes on.

    Args:
        now_ms: since the world began.

    Attributes:
        violations: What must not have happened, in order.
    """

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self.violations: list[Violation] = []
        self.written = 0
        self.delivered = 0
        self.repeated = 0
        self.lost = 0
        self._now_ms = now_ms
        self._logs: defaultdict[TopicPartition, _Log] = defaultdict(_Log)
        self._commits: dict[tuple[str, TopicPartition], CommittedOffset] = {}
        self._processed: set[str] = set()
        self._polled: set[str] = set()
        self._durable: dict[str, str] = {}
        self._holdings: dict[tuple[str, TopicPartition], _Holding] = {}
        self._plain: set[str] = set()

    def _broken(self, rule: str, what: str) -> None:
        self.violations.append(Violation(rule=rule, at_ms=self._now_ms(), what=what))

    # --- the log --------------------------------------------------------------------------------------------

    def sent(self, at: TopicPartition, values: dict[int, str]) -> None:
        """Note records that may be read now, and have to be."""
        log = self._logs[at]
        log.alive |= values
        self.written += len(values)
        log.ever |= set(values.items())
        log.anew.update(offset for offset in values if offset < log.cut_end)

    def removed(self, at: TopicPartition, before: int) -> None:
        self._keep(at, lambda offset: offset >= before)

    def truncated(self, at: TopicPartition, to: int, end: int) -> None:
        """The log, which ended at `end`, ends at `to`. Offsets from there on are given out again, and what commits said
        of them is void."""
        log = self._logs[at]
        log.cut_end = max(log.cut_end, end)
        self._durable.clear()
        claim = self._claimed(at)
        is_blind = claim.leader_epoch is None and claim.done_up_to > to
        start = min(to, log.blind.start) if log.blind else to  # it may have been cut before, and have grown again
        log.blind = range(start, claim.done_up_to) if is_blind else _NOTHING
        self._keep(at, lambda offset: offset < to)
        for (_, held_at), holding in self._holdings.items():
            if held_at == at:
                holding.seen = {offset for offset in holding.seen if offset < to}
                holding.head = min(holding.head, to - 1)

    def recreated(self, at: TopicPartition, end: int) -> None:
        """The topic of that name, whose log ended at `end`, is another one."""
        self.truncated(at, 0, end)
        self._logs[at].is_another = True
        self._logs[at].blind = _NOTHING
        for group in (GROUP, HEAD_GROUP):
            self._commits.pop((group, at), None)

    def _keep(self, at: TopicPartition, stays: Callable[[int], bool]) -> None:
        log = self._logs[at]
        log.alive = {offset: value for offset, value in log.alive.items() if stays(offset)}

    def is_there(self, at: TopicPartition, offset: int, value: str) -> bool:
        """Whether the record is in the log now."""
        return self._logs[at].alive.get(offset) == value

    def unprocessed(self) -> Iterator[tuple[TopicPartition, int]]:
        """The records in the logs that no life has processed."""
        for at, log in self._logs.items():
            for offset, value in log.alive.items():
                if value not in self._processed and not log.is_excused(offset):
                    yield at, offset

    # --- lives ----------------------------------------------------------------------------------------------

    def started(self, life: str, *, catches_up: bool) -> None:
        if not catches_up:
            self._plain.add(life)

    def assigned(self, life: str, partitions: Collection[TopicPartition]) -> None:
        """A client without the feature reads everything behind the group's offset, and its commits say nothing of what
        had been done there, by members that were there when it joined, too."""
        if life in self._plain:
            self._durable.clear()
        for at in partitions:
            blind = self._logs[at].blind
            self._holdings[life, at] = _Holding(is_blind=bool(blind))
            if blind:
                self._logs[at].excused.append(blind)

    def given_up(self, life: str, partitions: Collection[TopicPartition]) -> None:
        for at in partitions:
            self._holdings.pop((life, at), None)

    def polled_chunk(self, life: str, at: TopicPartition, cursor: Cursor, records: Mapping[int, str]) -> None:
        """Note the records of one cursor and partition in one poll: values by offset."""
        for offset, value in records.items():
            self.polled(life, at, cursor, offset, value)

    def polled(self, life: str, at: TopicPartition, cursor: Cursor, offset: int, value: str) -> None:
        holding = self._holdings.get((life, at))
        if holding is None:
            self._broken("not-owned", f"{life} was given {at}@{offset}, which it does not have")
            return
        self.delivered += 1
        self.repeated += value in self._polled
        self._polled.add(value)
        if (offset, value) not in self._logs[at].ever:
            self._broken("wrong-value", f"{life} was given {value} at {at}@{offset}")
        if holding.is_blind:
            return
        if self.is_there(at, offset, value):  # else it was buffered when the log was cut
            self._judge_order(life, at, cursor, offset, holding)
        if life not in self._plain and value in self._durable and not self._logs[at].is_another:
            by = self._durable[value]
            self._broken("needless", f"{life} was given {at}@{offset}, which {by} had processed and committed")

    def _judge_order(self, life: str, at: TopicPartition, cursor: Cursor, offset: int, holding: _Holding) -> None:
        if offset in holding.seen:
            self._broken("overlap", f"{life} was given {at}@{offset} twice, the second time by its {cursor.name}")
        holding.seen.add(offset)
        if cursor is Cursor.MAIN:
            if offset <= holding.head:
                self._broken("backwards", f"{life}'s main cursor came to {at}@{offset} behind {holding.head}")
            holding.head = offset

    def processed(self, values: Collection[str]) -> None:
        """Note that the application has processed these."""
        self._processed.update(values)

    def committed(self, life: str, values: Collection[str]) -> None:
        """Note that a life was told that all these are committed: no life may get them again."""
        if life not in self._plain:
            self._durable |= dict.fromkeys(values, life)

    def answered(self, life: str, at: TopicPartition, offset: int) -> None:
        """Note the answer of `committed()`."""
        if (early := self._first_undone(at, offset)) is not None:
            self._broken("answer-ahead", f"committed() told {life} {at}@{offset}, and {early} is not processed")

    # --- the two logs ---------------------------------------------------------------------------------------

    def taken(self, group: str, at: TopicPartition, commit: CommittedOffset) -> None:
        """Note that one of the logs has this commit from now on."""
        self._commits[group, at] = commit
        if group == GROUP and (early := self._first_undone(at, commit.offset)) is not None:
            self._broken("commit-ahead", f"{at} is committed at {commit.offset}, and {early} is not processed")
        if group == GROUP:
            self._excuse(at, commit.offset)
        claim, log = self._claimed(at), self._logs[at]
        if claim.leader_epoch is not None or claim.done_up_to != log.blind.stop:
            log.blind = _NOTHING
        skipped = [each for each in self._undone(at, claim.done_up_to) if not any(each in one for one in claim.undone)]
        if skipped:
            what = f"{at}: both logs together say that {skipped[:5]} are done, which nobody has processed"
            self._broken("logs-ahead", what)

    def _excuse(self, at: TopicPartition, before: int) -> None:
        """A commit names a topic, and not which one of that name: who has not heard yet that it is another one commits
        what it had of the old one, and that may be behind or ahead of what was done."""
        log = self._logs[at]
        if log.is_another:
            self._keep(at, lambda offset: offset >= before or log.alive[offset] in self._processed)

    def _claimed(self, at: TopicPartition) -> _Claim:
        low, head = self._commits.get((GROUP, at)), self._commits.get((HEAD_GROUP, at))
        if low is None:
            return _Claim(0)
        token = decode(low.metadata)
        if token is None:
            return _Claim(low.offset, (), leader_epoch_or_none(low.leader_epoch))
        mark = None if head is None else decode_mark(head.metadata)
        if head is not None and mark is not None and mark.incarnation == token.incarnation and head.offset > token.head:
            return _Claim(head.offset, token.undone, leader_epoch_or_none(head.leader_epoch))
        return _Claim(token.head, token.undone, token.head_epoch)

    def is_settled(self, at: TopicPartition, end: int) -> bool:
        """Whether the group's log says that everything is done, without a word of ranges."""
        low = self._commits.get((GROUP, at))
        return low is not None and low.offset == end and decode(low.metadata) is None

    def unsettled(self, at: TopicPartition, end: int, *, was_settled: bool) -> None:
        """All was processed and committed, and the group's log does not say so.

        Args:
            was_settled: whether it did before the last ones ended. A member that still has the topic that was takes the
                group back by its last commit, which names a topic and not which one of that name.
        """
        if was_settled and self._logs[at].is_another:
            return
        low = self._commits.get((GROUP, at))
        self._broken("unsettled", f"{at} is processed up to {end}, and the group's log has {low}")

    def _first_undone(self, at: TopicPartition, before: int) -> int | None:
        return min(self._undone(at, before), default=None)

    def _undone(self, at: TopicPartition, before: int) -> list[int]:
        """What nobody has processed, and was in the log when the member that speaks of its offset looked there."""
        log = self._logs[at]
        return [
            offset
            for offset, value in log.alive.items()
            if offset < before and value not in self._processed and offset not in log.anew
        ]

    def end(self) -> None:
        """All have had the time to read everything."""
        left = sorted(self.unprocessed())
        self.lost = len(left)
        for at, offset in left[:3]:
            self._broken("unseen", f"{at}@{offset} was never processed, one of {len(left)}")
