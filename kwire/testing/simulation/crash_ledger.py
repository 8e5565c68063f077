"""A judge of crash orders that also writes events to a ledger, for other judges.

    telling = TellingJudge.of(ledger)
    outcome = crash_in_order(seed, telling)

The ledger has no commits: only `crash_judge.py` knows their meaning in these worlds. It does not distinguish the
children of a partition either: with several at once, their records do not come in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kwire.model import Cursor, TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Ended,
    FaultBegan,
    Killed,
    Ledger,
    Polled,
    Removed,
    Revoked,
    Sent,
    Started,
    Truncated,
)
from kwire.testing.simulation.crash_judge import CrashJudge
from kwire.testing.simulation.scenario import SESSION_TIMEOUT_MS


class TellingJudge(CrashJudge):
    """A `CrashJudge` that also writes to a ledger.

    Args:
        now_ms: since the world began.
        ledger: The ledger to write to.
    """

    def __init__(self, now_ms: Callable[[], float], ledger: Ledger) -> None:
        super().__init__(now_ms)
        self._ledger = ledger
        self._lives: dict[str, None] = {}
        self._two_cursors: set[str] = set()
        ledger.write(FaultBegan(at_ms=now_ms(), fault="crash-orders", detail="lives end, again and again"))

    @classmethod
    def of(cls, ledger: Ledger) -> Callable[[Callable[[], float]], TellingJudge]:
        return lambda now_ms: cls(now_ms, ledger)

    def sent(self, at: TopicPartition, values: dict[int, str]) -> None:
        super().sent(at, values)
        for offset, value in values.items():
            self._ledger.write(Sent(at_ms=self._now_ms(), partition=at, offset=offset, value=value))

    def removed(self, at: TopicPartition, before: int) -> None:
        super().removed(at, before)
        self._ledger.write(Removed(at_ms=self._now_ms(), partition=at, before=before))

    def truncated(self, at: TopicPartition, to: int, end: int) -> None:
        super().truncated(at, to, end)
        self._ledger.write(Truncated(at_ms=self._now_ms(), partition=at, to=to))

    def started(self, life: str, *, catches_up: bool) -> None:
        super().started(life, catches_up=catches_up)
        self._lives[life] = None
        if catches_up:
            self._two_cursors.add(life)
        self._ledger.write(
            Started(
                at_ms=self._now_ms(),
                member=life,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                knows_session=False,
                catches_up_from=int(catches_up),
            )
        )

    def assigned(self, life: str, partitions: Collection[TopicPartition]) -> None:
        super().assigned(life, partitions)
        self._ledger.write(Assigned(at_ms=self._now_ms(), member=life, partitions=tuple(sorted(partitions))))

    def given_up(self, life: str, partitions: Collection[TopicPartition]) -> None:
        super().given_up(life, partitions)
        self._ledger.write(Revoked(at_ms=self._now_ms(), member=life, partitions=tuple(sorted(partitions))))

    def polled_chunk(self, life: str, at: TopicPartition, cursor: Cursor, records: Mapping[int, str]) -> None:
        super().polled_chunk(life, at, cursor, records)
        if not records:
            return
        self._ledger.write(
            Polled(
                at_ms=self._now_ms(),
                member=life,
                partition=at,
                offsets=tuple(records),
                values=tuple(records.values()),
                cursor=cursor.value if life in self._two_cursors else "",
            )
        )

    def end(self) -> None:
        """Lives end without a word, or are frozen for ever; by now all are over."""
        super().end()
        for life in self._lives:
            self._ledger.write(Killed(at_ms=self._now_ms(), member=life))
        self._ledger.write(Ended(at_ms=self._now_ms()))
