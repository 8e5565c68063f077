"""Locked by `FetchBuffer._lock`: what was fetched and not yet collected, bounded in bytes (KIP-81).

The network thread puts, the application thread takes. Bytes count from `put` until `release`, so a fetch that is being
collected piece by piece still counts: it holds its whole answer in memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from kwire.model import Cursor

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from kwire.model import TopicPartition
    from kwire.protocol.record_batch import Buffer

# A full buffer is refilled once a quarter is free: fewer, larger fetches than topping up after every poll.
REFILL_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompletedFetch:
    """One partition's part of a Fetch answer.

    `epoch` is the assignment epoch it was fetched in, `fetch_epoch` the leader epoch of what lies in front of
    `fetch_offset`; `aborted` has (producer id, first offset) of aborted transactions. `cursor` has fetched it, and
    wants nothing from `stop_offset` on.
    """

    topic_partition: TopicPartition
    epoch: int
    fetch_offset: int
    records: Buffer
    aborted: tuple[tuple[int, int], ...] = ()
    fetch_epoch: int | None = None
    cursor: Cursor = Cursor.MAIN
    stop_offset: int | None = None


class FetchBuffer:
    """First in, first out, except that fetches of withheld partitions wait at their place.

    Args:
        children: How many other cursors have a buffer of their own, which are beside this one (`children`).
    """

    def __init__(self, children: int = 0) -> None:
        self.children = tuple(FetchBuffer() for _ in range(children))
        self._lock = Lock()
        self._fetches: deque[CompletedFetch] = deque()
        self._bytes: dict[TopicPartition, int] = {}
        self._size_bytes = 0
        self._wanted_below_bytes: float | None = None

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def room_bytes(self, limit_bytes: int, withheld: Collection[TopicPartition]) -> int:
        """How much may be fetched. What is withheld does not count: a pause, or a revoke that is delayed, may last, and
        must not keep the rest from being fetched.

        When there is no room, the buffer remembers that somebody waits for it: see `take_drained`.
        """
        with self._lock:
            if withheld:
                limit_bytes += sum(size for tp, size in self._bytes.items() if tp in withheld)
            room_bytes = limit_bytes - self._size_bytes
            self._wanted_below_bytes = limit_bytes * REFILL_SHARE if room_bytes <= 0 else None
            return room_bytes

    def take_drained(self) -> bool:
        """Whether fetching was refused for want of room, and there is some again; says so once."""
        with self._lock:
            if self._wanted_below_bytes is None or self._size_bytes >= self._wanted_below_bytes:
                return False
            self._wanted_below_bytes = None
            return True

    def put(self, fetches: Iterable[CompletedFetch]) -> None:
        with self._lock:
            for fetch in fetches:
                self._fetches.append(fetch)
                self._add(fetch.topic_partition, len(fetch.records))

    def take(self, withheld: Container[TopicPartition] = ()) -> CompletedFetch | None:
        """The oldest fetch of a partition that is not withheld. Its bytes count until it is released."""
        with self._lock:
            for index, fetch in enumerate(self._fetches):
                if fetch.topic_partition not in withheld:
                    del self._fetches[index]
                    return fetch
            return None

    def release(self, fetch: CompletedFetch) -> None:
        """The fetch is collected, or dropped after `take`."""
        with self._lock:
            self._add(fetch.topic_partition, -len(fetch.records))

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is buffered of these partitions."""
        with self._lock:
            if not any(tp in self._bytes for tp in partitions):
                return
            gone = set(partitions)
            for fetch in self._fetches:
                if fetch.topic_partition in gone:
                    self._add(fetch.topic_partition, -len(fetch.records))
            self._fetches = deque(fetch for fetch in self._fetches if fetch.topic_partition not in gone)

    def _add(self, tp: TopicPartition, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        left = self._bytes.get(tp, 0) + size_bytes
        if left:
            self._bytes[tp] = left
        else:
            self._bytes.pop(tp, None)
