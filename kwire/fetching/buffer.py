"""Locked by `FetchBuffer._lock`: what was fetched and not yet collected, bounded in bytes (KIP-81).

The network thread puts, the application thread takes. Bytes count from `put` on, for as long as they are in memory.
What came in one answer is there as a whole until the last fetch of it is released: all of them are views of one frame.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from kwire.model import Cursor

if TYPE_CHECKING:
    from collections.abc import Collection, Container

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


@dataclass(slots=True, kw_only=True, eq=False)
class _Answer:
    """What was put together: who has not been released yet, and how much of the rest they keep in memory."""

    left: set[CompletedFetch]
    released_bytes: int = 0


class FetchBuffer:
    """First in, first out, except that fetches of withheld partitions wait at their place.

    Args:
        children: How many other cursors have a buffer of their own, which are beside this one (`children`).
    """

    def __init__(self, children: int = 0) -> None:
        self.children = tuple(FetchBuffer() for _ in range(children))
        self._lock = Lock()
        self._fetches: deque[CompletedFetch] = deque()
        self._answers: dict[CompletedFetch, _Answer] = {}
        self._begun: set[_Answer] = set()  # some of it has been released, and some has not
        self._bytes: dict[TopicPartition, int] = {}
        self._size_bytes = 0
        self._refused: tuple[int, Collection[TopicPartition]] | None = None

    @property
    def size_bytes(self) -> int:
        """What is held in memory."""
        return self._size_bytes

    def room_bytes(self, limit_bytes: int, withheld: Collection[TopicPartition]) -> int:
        """How much may be fetched. What is withheld does not count: a pause, or a revoke that is delayed, may last, and
        must not keep the rest from being fetched.

        When there is no room, the buffer remembers that somebody waits for it: see `take_drained`.
        """
        with self._lock:
            room_bytes = limit_bytes - self._counted_bytes(withheld)
            self._refused = (limit_bytes, withheld) if room_bytes <= 0 else None
            return room_bytes

    def take_drained(self) -> bool:
        """Whether fetching was refused for want of room, and there is some again; says so once."""
        with self._lock:
            if self._refused is None:
                return False
            limit_bytes, withheld = self._refused
            if self._counted_bytes(withheld) > limit_bytes * REFILL_SHARE:
                return False
            self._refused = None
            return True

    def _counted_bytes(self, withheld: Collection[TopicPartition]) -> int:
        """What the application can make room of by going on: all but what is withheld, and what only that keeps."""
        if not withheld:
            return self._size_bytes
        kept_bytes = sum(
            answer.released_bytes
            for answer in self._begun
            if all(fetch.topic_partition in withheld for fetch in answer.left)
        )
        return self._size_bytes - kept_bytes - sum(size for tp, size in self._bytes.items() if tp in withheld)

    def put(self, fetches: Collection[CompletedFetch]) -> None:
        """What came in one answer."""
        answer = _Answer(left=set(fetches))
        with self._lock:
            for fetch in fetches:
                self._fetches.append(fetch)
                self._answers[fetch] = answer
                tp, size_bytes = fetch.topic_partition, len(fetch.records)
                self._bytes[tp] = self._bytes.get(tp, 0) + size_bytes
                self._size_bytes += size_bytes

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
            self._release(fetch)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is buffered of these partitions."""
        with self._lock:
            if not any(tp in self._bytes for tp in partitions):
                return
            gone = set(partitions)
            for fetch in self._fetches:
                if fetch.topic_partition in gone:
                    self._release(fetch)
            self._fetches = deque(fetch for fetch in self._fetches if fetch.topic_partition not in gone)

    def _release(self, fetch: CompletedFetch) -> None:
        tp, size_bytes = fetch.topic_partition, len(fetch.records)
        self._bytes[tp] -= size_bytes
        if not self._bytes[tp]:
            del self._bytes[tp]
        answer = self._answers.pop(fetch)
        answer.left.remove(fetch)
        answer.released_bytes += size_bytes
        if answer.left:
            self._begun.add(answer)
        else:
            self._begun.discard(answer)
            self._size_bytes -= answer.released_bytes
