"""Which records of a partition are in work and which are done, when they do not finish in order.

Contract: pure, and of one thread; nothing here polls, commits or waits. The owner tells it what was delivered and what
has finished, commits what it offers, and tells it when the broker has acknowledged that. What is offered is always safe
to commit: every record in front of it is finished, or does not exist.

    tracker = Tracker(position)
    tracker.deliver(offsets, behind)
    tracker.finish(offset)                            # in any order
    if (offer := tracker.offer()) is not None:
        ...                                           # commit offer.base, with a map of offer.finished (`encode`)
        tracker.acknowledged(offer)                   # once the broker has said so, never before
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from kwire.errors import InvalidArgumentError


class Committable(NamedTuple):
    """What may be committed: everything in front of `base` is finished, and so are these ranges behind it."""

    base: int
    finished: tuple[range, ...] = ()


class Tracker:
    """The records of one partition in one assignment: which are in work, and which are finished.

    What it keeps grows with what is unfinished, not with what was delivered since.

    Args:
        position: The offset of the next record to be delivered.
        is_committed: Whether that is what the group has committed; else it is offered, with nothing finished.
    """

    FEW_DELIVERIES = 64

    def __init__(self, position: int, *, is_committed: bool = True) -> None:
        self._position = position
        self._unfinished: set[int] = set()
        # Everything delivered from the lowest unfinished on: whole deliveries, as they came; where they got too many,
        # what is finished as one range, and between these what is not. Nothing is done record by record while there
        # are few.
        self._deliveries: deque[list[int] | range] = deque()
        self._too_many = self.FEW_DELIVERIES
        self._acknowledged = Committable(position) if is_committed else None
        self._offered: Committable | None = None

    @property
    def base(self) -> int:
        """The lowest unfinished offset; without any, where the next record may be."""
        self._advance()
        if not self._deliveries:
            return self._position
        return next(offset for offset in self._deliveries[0] if offset in self._unfinished)

    @property
    def latest(self) -> Committable:
        """What a commit would say now, whether the broker has that or not."""
        return self._offer()

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

    def deliver(self, offsets: Sequence[int], behind: int) -> None:
        """Records have come, and are in work.

        Args:
            offsets: Theirs, in order. What lies between them does not exist: compacted away, markers, aborted.
            behind: The position behind them (`PartitionRecords.next`).

        Raises:
            InvalidArgumentError: They do not lie between the position and `behind`, in order.
        """
        delivery, new = list(offsets), set(offsets)
        is_in_order = sorted(delivery) == delivery and len(new) == len(delivery)
        first, last = (delivery[0], delivery[-1]) if delivery else (self._position, self._position - 1)
        if not is_in_order or not self._position <= first or not last < behind:
            raise InvalidArgumentError(f"offsets {offsets} are not in order between {self._position} and {behind}")
        self._advance()
        self._unfinished |= new
        if delivery:
            self._deliveries.append(delivery)
            if len(self._deliveries) > self._too_many:
                self._sum_up()
        self._position = behind

    def finish(self, offset: int) -> bool:
        """A record is done with. Answers whether it was waited for: not if it was finished or given up before."""
        if offset not in self._unfinished:
            return False
        self._unfinished.remove(offset)
        return True

    def finish_all(self, offsets: Iterable[int]) -> None:
        """Records are done with; as `finish`, of many."""
        self._unfinished.difference_update(offsets)

    def offer(self) -> Committable | None:
        """What to commit. None: the broker has acknowledged all that."""
        offer = self._offer()
        self._offered = None if offer == self._acknowledged else offer
        return self._offered

    def acknowledged(self, offer: Committable) -> None:
        """The broker has it. Of an older offer than the last nothing follows: the last is still on its way, or failed,
        and has to be offered again."""
        if offer == self._offered:
            self._acknowledged, self._offered = offer, None

    def truncate(self, offset: int) -> None:
        """The log was cut there (KIP-320): what was delivered from there on is void, finished or not, and whatever has
        these offsets later is another record. Completions of the old ones must not be told any more."""
        while self._deliveries and self._deliveries[-1][-1] >= offset:
            last = self._deliveries.pop()
            cut = bisect_left(last, offset)
            if isinstance(last, list):
                self._unfinished.difference_update(last[cut:])
            if cut:
                self._deliveries.append(last[:cut])
        self._position = min(self._position, offset)
        self._acknowledged = None  # whatever the group knows, it may speak of what is void

    # --- inside ---------------------------------------------------------------------------------------------

    def _offer(self) -> Committable:
        base = self.base
        return Committable(base, tuple(each for each in self._finished() if each.start > base))

    def _finished(self) -> Iterator[range]:
        """Of what was delivered. What lies between two finished records does not exist."""
        start: int | None = None
        # Of a range its first offset will do: all of it is finished.
        for offset in chain.from_iterable(
            piece[:1] if isinstance(piece, range) else piece for piece in self._deliveries
        ):
            if offset not in self._unfinished:
                start = offset if start is None else start
            elif start is not None:
                yield range(start, offset)
                start = None
        if start is not None:
            yield range(start, self._position)

    def _advance(self) -> None:
        """Forget deliveries that are finished."""
        while self._deliveries and (
            isinstance(self._deliveries[0], range) or self._unfinished.isdisjoint(self._deliveries[0])
        ):
            self._deliveries.popleft()

    def _sum_up(self) -> None:
        """What is finished becomes ranges: one record that takes its time must not keep all that came since."""
        pieces: deque[list[int] | range] = deque()
        for delivery in self._deliveries:
            for piece in [delivery] if isinstance(delivery, range) else self._pieces(delivery):
                last = pieces[-1] if pieces else None
                if isinstance(piece, range) and isinstance(last, range):
                    pieces[-1] = range(last.start, piece.stop)
                elif isinstance(piece, list) and isinstance(last, list):
                    last += piece
                else:
                    pieces.append(piece)
        self._deliveries = pieces
        self._too_many = 2 * len(pieces) + self.FEW_DELIVERIES

    def _pieces(self, delivery: list[int]) -> Iterator[list[int] | range]:
        for is_unfinished, offsets in groupby(delivery, self._unfinished.__contains__):
            found = list(offsets)
            yield found if is_unfinished else range(found[0], found[-1] + 1)
