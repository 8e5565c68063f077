"""Which records of a partition are in work and which are done, when they do not finish in order.

Contract: pure, and of one thread; nothing here polls, commits or waits. The owner tells it what was delivered and what
has finished, commits what it offers, and tells it when the broker has acknowledged that. What is offered is always safe
to commit: every record in front of it is finished, or does not exist.

    tracker = Tracker(position)
    for offset in tracker.deliver(offsets, behind):   # those that are still to be worked on
        ...
    tracker.finish(offset)                            # in any order
    if (offer := tracker.offer()) is not None:
        ...                                           # commit offer.base, with a map of offer.finished (`encode`)
        tracker.acknowledged(offer)                   # once the broker has said so, never before
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from kwire.errors import InvalidArgumentError


class Offer(NamedTuple):
    """What may be committed: everything in front of `base` is finished, and so are these ranges behind it."""

    base: int
    finished: tuple[range, ...] = ()


class Tracker:
    """Of one partition, for one assignment.

    Args:
        position: The offset of the next record to be delivered: what the group has committed, as a rule.
        finished: Ranges behind it that were finished in an earlier life (see `OffsetMap`).
    """

    def __init__(self, position: int, finished: Iterable[range] = ()) -> None:
        self._position = position
        self._unfinished: set[int] = set()
        self._order: deque[int] = deque()  # everything delivered from the lowest unfinished on
        self._restored = tuple(finished)
        self._acknowledged: Offer | None = Offer(position, self._restored)
        self._offered: Offer | None = None

    @property
    def base(self) -> int:
        """The lowest unfinished offset; without any, where the next record may be."""
        return self._order[0] if self._order else self._position

    @property
    def position(self) -> int:
        """The offset behind what was delivered."""
        return self._position

    @property
    def unfinished(self) -> int:
        """How many records are in work, or wait for it."""
        return len(self._unfinished)

    @property
    def is_clean(self) -> bool:
        """Whether the group knows all there is to know."""
        return self._offer() == self._acknowledged

    def deliver(self, offsets: Sequence[int], behind: int) -> list[int]:
        """Records have come.

        Args:
            offsets: Theirs, in order. What lies between them does not exist: compacted away, markers, aborted.
            behind: The position behind them (`PartitionRecords.next`).

        Returns:
            The offsets that are to be worked on: an earlier life has not finished them.

        Raises:
            InvalidArgumentError: They do not lie between the position and `behind`, in order.
        """
        if any(one >= two for one, two in pairwise((self._position - 1, *offsets, behind))):
            raise InvalidArgumentError(f"offsets {offsets} are not in order between {self._position} and {behind}")
        new = [offset for offset in offsets if not self._was_finished(offset)] if self._restored else list(offsets)
        self._unfinished.update(new)
        self._order.extend(offsets)
        self._position = behind
        self._restored = tuple(stretch for stretch in self._restored if stretch.stop > behind)
        self._advance()
        return new

    def finish(self, offset: int) -> bool:
        """A record is done with. Answers whether it was waited for: not if it was finished or given up before."""
        if offset not in self._unfinished:
            return False
        self._unfinished.remove(offset)
        self._advance()
        return True

    def finish_all(self, offsets: Iterable[int]) -> None:
        """Records are done with; as `finish`, of many."""
        self._unfinished.difference_update(offsets)
        self._advance()

    def disbelieve(self, offset: int) -> None:
        """From there on an earlier life has finished nothing: the log has been written anew."""
        self._restored = tuple(_cut(self._restored, offset))

    def offer(self) -> Offer | None:
        """What to commit. None: the broker has acknowledged all that."""
        offer = self._offer()
        self._offered = None if offer == self._acknowledged else offer
        return self._offered

    def acknowledged(self, offer: Offer) -> None:
        """The broker has it. Of an older offer than the last nothing follows: the last is still on its way, or failed,
        and has to be offered again."""
        if offer == self._offered:
            self._acknowledged, self._offered = offer, None

    def skip_to(self, offset: int) -> list[int]:
        """What lies in front of it exists no more (retention, DeleteRecords): nobody need finish it.

        Returns:
            The unfinished offsets that were given up, for the report.
        """
        gone = sorted(each for each in self._unfinished if each < offset)
        self._unfinished.difference_update(gone)
        self._position = max(self._position, offset)
        self._advance()
        return gone

    def truncate(self, offset: int) -> None:
        """The log was cut there (KIP-320): what was delivered from there on is void, finished or not, and whatever has
        these offsets later is another record. Completions of the old ones must not be told any more."""
        while self._order and self._order[-1] >= offset:
            self._unfinished.discard(self._order.pop())
        self.disbelieve(offset)
        self._position = min(self._position, offset)
        self._acknowledged = None  # whatever the group knows, it may speak of what is void

    # --- inside ---------------------------------------------------------------------------------------------

    def _offer(self) -> Offer:
        base = self.base
        restored = (range(max(each.start, self._position), each.stop) for each in self._restored)
        finished = _joined(chain(self._finished(), restored))
        if finished and finished[0].start <= base:  # nothing is in work: an earlier life had gone on from here
            base = finished.pop(0).stop
        return Offer(base, tuple(finished))

    def _finished(self) -> Iterator[range]:
        """Of what was delivered. What lies between two finished records does not exist."""
        start: int | None = None
        for offset in self._order:
            if offset not in self._unfinished:
                start = offset if start is None else start
            elif start is not None:
                yield range(start, offset)
                start = None
        if start is not None:
            yield range(start, self._position)

    def _advance(self) -> None:
        while self._order and self._order[0] not in self._unfinished:
            self._order.popleft()

    def _was_finished(self, offset: int) -> bool:
        at = bisect_right(self._restored, offset, key=lambda stretch: stretch.start) - 1
        return at >= 0 and offset in self._restored[at]


def _joined(ranges: Iterable[range]) -> list[range]:
    """The same, those that touch made one."""
    joined: list[range] = []
    for each in ranges:
        if joined and each.start <= joined[-1].stop:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, each.stop))
        elif each:
            joined.append(each)
    return joined


def _cut(ranges: Iterable[range], end: int) -> Iterator[range]:
    """Their part in front of `end`."""
    for stretch in ranges:
        if stretch.start < end:
            yield range(stretch.start, min(stretch.stop, end))
