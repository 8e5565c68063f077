"""Locked by `FetchBuffer._lock`: what was fetched and not yet collected, bounded in bytes (KIP-81).

The network thread puts, the application thread takes. Bytes count from `put` on, for as long as they are in memory
(`held_bytes.py`).

An exception of a signal handler may strike between any two lines that the application thread runs here. So `front`
returns the same fetch until it is released.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from itertools import count, islice
from threading import Lock
from typing import TYPE_CHECKING

from kwire.fetching.completed_fetch import CompletedFetch
from kwire.fetching.held_bytes import HeldBytes

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator

    from kwire.model import TopicPartition

# A full buffer is refilled once a quarter is free: fewer, larger fetches than topping up after every poll.
REFILL_SHARE = 0.75
# This share is kept for partitions of which nothing is buffered, so that a slow application hears of their records
# before it has handled all that is buffered of others.
RESERVED_SHARE = 1 / 8
# However much is withheld, this share of the limit may be held beside it: 1 MiB, what a partition may answer in Java.
MIN_SHARE = 1 / 64


@dataclass(frozen=True, slots=True, eq=False)
class NoRoom:
    """A refusal for want of room: the limit at that time, and the partitions that did not count."""

    limit_bytes: int
    withheld: Collection[TopicPartition]


class FetchBuffer:
    """First in, first out within a partition. Partitions take turns, a fetch each: what a slow application has not
    taken of one partition must not stand in front of what others have.

    Args:
        children: How many other cursors have a buffer of their own, which are beside this one (`children`).

    Attributes:
        limit_bytes: How much may be fetched ahead; the network thread's.
        tells_run_out: Whether `drained` tells also when nothing is left of a partition; the network thread's.
        awaits_return: Whether the network thread waits for the application to come back for more. The network thread
            sets it, the application thread takes it back.
    """

    def __init__(self, children: int = 0) -> None:
        self.children = tuple(FetchBuffer() for _ in range(children))
        self.limit_bytes = 0
        self.tells_run_out = False
        self.awaits_return = False
        self._lock = Lock()
        # Each partition's fetches. The partitions stand in the order of their turns.
        self._lines: OrderedDict[TopicPartition, deque[CompletedFetch]] = OrderedDict()
        self._held = HeldBytes()
        self._taken: dict[CompletedFetch, None] = {}
        self._refusal: NoRoom | None = None

    @property
    def size_bytes(self) -> int:
        """What is held in memory."""
        with self._lock:
            return self._held.total()

    @property
    def taken(self) -> Collection[CompletedFetch]:
        """The fetches that were taken and have not been released."""
        return self._taken.keys()

    def room_bytes(self, limit_bytes: int, withheld: Collection[TopicPartition]) -> int:
        """How much may be fetched. Up to the limit, what is withheld does not count: a pause, or a delayed revocation,
        may last, and must not keep the rest from being fetched.

        When there is no room, the buffer remembers that somebody waits for it: see `drained`.
        """
        with self._lock:
            room_bytes = self._room_bytes(limit_bytes, withheld)
            self._refusal = NoRoom(limit_bytes, withheld) if room_bytes <= 0 else None
            return room_bytes

    def free_bytes(self, limit_bytes: int, withheld: Collection[TopicPartition]) -> int:
        """As `room_bytes`, for somebody who does not wait for room."""
        with self._lock:
            return self._room_bytes(limit_bytes, withheld)

    def _room_bytes(self, limit_bytes: int, withheld: Collection[TopicPartition]) -> int:
        counted_bytes = self._held.without(withheld)
        return self._limit_beside_withheld(limit_bytes, counted_bytes) - counted_bytes

    def has_room_again(self, limit_bytes: int, withheld: Collection[TopicPartition]) -> bool:
        """Whether so much is free that the buffer is to be refilled. If not, it remembers that somebody waits for that:
        see `drained`."""
        with self._lock:
            refusal = NoRoom(limit_bytes, withheld)
            self._refusal = None if self._has_room_after(refusal) else refusal
            return self._refusal is None

    def held(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of which something is buffered."""
        with self._lock:
            held = self._held.partitions()
            return [tp for tp in partitions if tp in held]

    def waiting_bytes(self, withheld: Collection[TopicPartition]) -> int:
        """What is held in memory, of all that the application can take. With nothing, it waits or is about to."""
        with self._lock:
            return self._held.without(withheld)

    def drained(self) -> NoRoom | None:
        """The last refusal, if there is room again, or with `tells_run_out` if nothing is left of a partition. None:
        nothing was refused, or there is still no room. The answer is the same until `drain_told`."""
        refusal = self._refusal
        if refusal is None:  # almost always, and every poll asks
            return None
        with self._lock:
            has_news = (self.tells_run_out and self._held.has_run_out) or self._has_room_after(refusal)
            return refusal if has_news else None

    def _has_room_after(self, refusal: NoRoom) -> bool:
        counted_bytes = self._held.without(refusal.withheld)
        return counted_bytes <= self._limit_beside_withheld(refusal.limit_bytes, counted_bytes) * REFILL_SHARE

    def drain_told(self, refusal: NoRoom) -> None:
        """The network thread has been told. If there is room, the refusal is over."""
        with self._lock:
            self._held.has_run_out = False
            if self._refusal is refusal and self._has_room_after(refusal):
                self._refusal = None

    def _limit_beside_withheld(self, limit_bytes: int, counted_bytes: int) -> int:
        """The limit of what counts, less what is withheld beyond the limit. Otherwise partitions that are paused one
        after the other would each fill the buffer once, and all of that would stay in memory."""
        above_bytes = max(0, self._held.total() - counted_bytes - limit_bytes)
        return max(limit_bytes - above_bytes, int(limit_bytes * MIN_SHARE), 1)

    def put(self, fetches: Collection[CompletedFetch]) -> None:
        """Add the fetches of one answer."""
        with self._lock:
            self._held.add(fetches)
            for fetch in fetches:
                self._lines.setdefault(fetch.topic_partition, deque()).append(fetch)

    def front(self, withheld: Container[TopicPartition] = ()) -> CompletedFetch | None:
        """The oldest fetch of the partition whose turn it is; partitions that are withheld keep their place. It counts
        as taken, and its bytes count, until it is released: until then it is the oldest of its partition."""
        if not self._lines:  # as a rule before a poll waits, and it asks each time
            return None
        with self._lock:
            fetch = next(self._in_turn(withheld), None)
            if fetch is not None:
                self._taken[fetch] = None
            return fetch

    def first(self, max_fetches: int, withheld: Container[TopicPartition] = ()) -> list[CompletedFetch]:
        """Up to `max_fetches` fetches that are not taken: those that are next in front, unless something changes."""
        with self._lock:
            return list(islice((each for each in self._in_turn(withheld) if each not in self._taken), max_fetches))

    def end_turn(self, tp: TopicPartition) -> None:
        """Have all other partitions take their turn before this one."""
        with self._lock:
            if tp in self._lines:
                self._lines.move_to_end(tp)

    def has_others(self, tp: TopicPartition, withheld: Container[TopicPartition]) -> bool:
        """Whether there are fetches of other partitions that are not withheld."""
        with self._lock:
            return any(line and other != tp and other not in withheld for other, line in self._lines.items())

    def _in_turn(self, withheld: Container[TopicPartition]) -> Iterator[CompletedFetch]:
        """The oldest fetch of each partition, then the second oldest of each, and so on."""
        for place in count():
            is_over = True
            for tp, line in self._lines.items():
                if place < len(line) and tp not in withheld:
                    is_over = False
                    yield line[place]
            if is_over:
                return

    def release(self, fetch: CompletedFetch) -> None:
        """The fetch is collected, or not wanted any more, and its partition's turn is over. A second call has no
        effect."""
        with self._lock:
            self._leave(fetch)
            self._held.release(fetch)
            self._taken.pop(fetch, None)  # last: what is taken and finished is released again

    def _leave(self, fetch: CompletedFetch) -> None:
        tp = fetch.topic_partition
        line = self._lines.get(tp)
        if line and line[0] is fetch:
            line.popleft()
            self._lines.move_to_end(tp)
        if line is not None and not line:
            del self._lines[tp]

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is buffered of these partitions."""
        with self._lock:
            for tp in partitions:
                for fetch in [each for each in self._lines.get(tp, ()) if each not in self._taken]:
                    self._held.release(fetch)
                    self._lines[tp].remove(fetch)
                if tp in self._lines and not self._lines[tp]:
                    del self._lines[tp]

    def clear(self) -> None:
        """Forget everything, taken fetches as well: the consumer is closed. To release those later does no harm."""
        with self._lock:
            self._held.clear()
            self._lines.clear()
            self._taken.clear()
        for child in self.children:
            child.clear()

    def forget_other_threads(self) -> None:
        """Make a new lock, in a process that was forked: a thread that held the old one does not run here."""
        self._lock = Lock()
        for child in self.children:
            child.forget_other_threads()
