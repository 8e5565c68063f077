"""The progress of each partition over time: standstills, and the curves of the picture.

A partition *stands still* while it has unread records and no poll brings one of them. Records that come a second time
do not count as moving. What a member has not polled yet and retention has taken is not unread any more, and what the
application has paused is not waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise, takewhile
from math import inf

from kwire.model import TopicPartition
from kwire.testing.faults.report.spans import ends_ms
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Event,
    Killed,
    Ledger,
    Lost,
    Paused,
    Polled,
    Removed,
    Resumed,
    Revoked,
    Sent,
    Started,
    Truncated,
    Vanished,
)

# As many as the picture's plot has pairs of pixels.
BINS = 500


@dataclass(frozen=True, slots=True)
class Standstill:
    """A time in which nothing new came of a partition.

    Args:
        to_ms: when a poll brought something new; None if none did any more.
        unread: how many records waited in the end.
    """

    from_ms: float
    to_ms: float | None
    unread: int


@dataclass(frozen=True, slots=True)
class Level:
    """A partition in one bin of time: what was sent and delivered up to its end, and the largest lag within it."""

    sent: int
    delivered: int
    most_unread: int


@dataclass(slots=True)
class Track:
    """One partition of a run. Written by `follow`, read by everybody else.

    Records are told apart by their values: after a truncation other ones have the same offsets.
    """

    standstills: list[Standstill] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    unread: dict[int, str] = field(default_factory=dict)
    delivered: set[str] = field(default_factory=set)
    last_delivered: int = -1
    sent_records: int = 0
    delivered_records: int = 0
    sent_at_ms: list[float] = field(default_factory=list)
    _start: int = 0
    _gone: set[str] = field(default_factory=set)
    _waits_since_ms: float | None = None
    _most_unread: int = 0
    _paused_by: set[str] = field(default_factory=set)

    @property
    def gone_unread(self) -> int:
        """Records that the log lost before anybody had them."""
        return len(self._gone)

    def send(self, event: Sent) -> None:
        self.sent_records += 1
        self.sent_at_ms.append(event.at_ms)
        if event.value in self.delivered:  # a quick consumer, and a producer that learnt late that it was written
            return
        if event.offset < self._start:  # its removal is written as of the last look at the log before
            self._gone.add(event.value)
            return
        if not (self.unread or self._paused_by):
            self._waits_since_ms = event.at_ms
        self.unread[event.offset] = event.value
        self._most_unread = max(self._most_unread, len(self.unread))

    def poll(self, event: Polled) -> None:
        before = len(self.delivered)
        self.delivered.update(event.values)
        self._gone.difference_update(event.values)  # it was in a consumer's buffer when the log lost it
        self.delivered_records += len(self.delivered) - before
        self.last_delivered = max(self.last_delivered, event.offsets[-1])
        new = [each for each in zip(event.offsets, event.values, strict=True) if self.unread.get(each[0]) == each[1]]
        if new:
            self._move(event.at_ms)
            for offset, _ in new:
                del self.unread[offset]
            self._waits_since_ms = event.at_ms if self.unread else None

    def drop(self, event: Removed | Truncated | Vanished) -> None:
        match event:
            case Removed():
                self._start = max(self._start, event.before)
            case Truncated():
                self._start = min(self._start, event.to)
            case Vanished():
                pass
        gone = [offset for offset in self.unread if _is_gone(offset, event)]
        self._gone.update(self.unread[offset] for offset in gone)
        if len(gone) == len(self.unread):
            self._move(event.at_ms)
            self._waits_since_ms = None
        for offset in gone:
            del self.unread[offset]

    def pause(self, event: Paused) -> None:
        self._paused_by.add(event.member)
        self._move(event.at_ms)
        self._waits_since_ms = None

    def resume(self, member: str, at_ms: float) -> None:
        if member in self._paused_by:
            self._paused_by.discard(member)
            self._waits_since_ms = at_ms if self.unread and not self._paused_by else None

    def somebody_reads(self, at_ms: float) -> None:
        """The first consumer starts: nobody can be blamed for what waited before."""
        if self._waits_since_ms is not None:
            self._waits_since_ms = at_ms

    def fill(self, bins: int) -> None:
        """The bins up to here, all alike but the first, which has seen what came before."""
        while len(self.levels) < bins:
            self.levels.append(Level(self.sent_records, self.delivered_records, self._most_unread))
            self._most_unread = len(self.unread)

    def end(self) -> None:
        if self._waits_since_ms is not None:
            self.standstills.append(Standstill(self._waits_since_ms, None, len(self.unread)))

    def stood_still_at(self, at_ms: float, within_ms: float) -> list[Standstill]:
        """Those that go on at a moment, or begin within a time of it."""
        first = bisect_right(self.standstills, at_ms, key=lambda each: inf if each.to_ms is None else each.to_ms)
        later = islice(self.standstills, first, None)
        return list(takewhile(lambda each: each.from_ms <= at_ms + within_ms, later))

    def unwritten_ms(self, from_ms: float, to_ms: float) -> float:
        """The longest time in between in which nothing was appended: nobody could have read anything new."""
        first, behind = bisect_right(self.sent_at_ms, from_ms), bisect_right(self.sent_at_ms, to_ms)
        times_ms = [from_ms, *self.sent_at_ms[first:behind], to_ms]
        return max(later - earlier for earlier, later in pairwise(times_ms))

    def _move(self, at_ms: float) -> None:
        if self._waits_since_ms is not None:
            self.standstills.append(Standstill(self._waits_since_ms, at_ms, len(self.unread)))


def _is_gone(offset: int, event: Removed | Truncated | Vanished) -> bool:
    match event:
        case Removed():
            return offset < event.before
        case Truncated():
            return offset >= event.to
        case Vanished():
            return offset in event.offsets


def follow(ledger: Ledger, bins: int = BINS) -> Mapping[TopicPartition, Track]:
    """Every partition that ever had a record, in order."""
    followed = _Followed(bins, (ends_ms(ledger) or 1.0) / bins)
    for event in ledger.events:
        followed.take(event)
    for track in followed.tracks.values():
        track.fill(bins)
        track.end()
    return dict(sorted(followed.tracks.items()))


class _Followed:
    """All partitions, and when the first member started."""

    def __init__(self, bins: int, bin_ms: float) -> None:
        self.bins, self.bin_ms = bins, bin_ms
        self.tracks: dict[TopicPartition, Track] = {}
        self.has_started = False

    def take(self, event: Event) -> None:
        match event:
            case Sent() | Polled() | Removed() | Truncated() | Vanished():
                self.change(event)
            case Started() if not self.has_started:
                self.has_started = True
                for track in self.tracks.values():
                    track.somebody_reads(event.at_ms)
            case Paused() if event.partition in self.tracks:
                self.tracks[event.partition].pause(event)
            case Resumed() if event.partition in self.tracks:
                self.tracks[event.partition].resume(event.member, event.at_ms)
            case Assigned() | Revoked() | Lost():
                for partition in self.tracks.keys() & set(event.partitions):
                    self.tracks[partition].resume(event.member, event.at_ms)
            case Closed() | Killed():
                for track in self.tracks.values():
                    track.resume(event.member, event.at_ms)
            case _:
                pass

    def change(self, event: Sent | Polled | Removed | Truncated | Vanished) -> None:
        track = self.tracks.setdefault(event.partition, Track())
        if (position := min(self.bins - 1, int(event.at_ms / self.bin_ms))) > len(track.levels):
            track.fill(position)
        match event:
            case Sent():
                track.send(event)
            case Polled():
                track.poll(event)
            case Removed() | Truncated() | Vanished():
                track.drop(event)
