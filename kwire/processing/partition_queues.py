"""The queues of one partition, a class for each ordering: `OrderedQueues` has one of them for each partition.

Contract: pure, and of one thread. Nothing is done for each record where a whole slice will do: with handlers that take
no time, this is part of what a record costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from enum import Enum
from itertools import chain, islice
from operator import itemgetter
from typing import Generic

from kwire.errors import InvalidArgumentError
from kwire.model import K, Record, V
from kwire.processing.lazy_records import FEW_ROWS, LazyRecords

EVERYTHING = range(1 << 63)
"""All offsets there are."""
_NOTHING: frozenset[Hashable] = frozenset()
_key_of = itemgetter(Record._fields.index("key"))


class MergePolicy(Enum):
    """What is taken at once."""

    ONE_QUEUE = "one queue"
    OPEN_QUEUES = "open queues"
    """Records of as many queues of a partition as are open."""
    WHOLE_SLICES = "whole slices"
    """As OPEN_QUEUES, but nothing while one of the next queues is closed: it will be open in a moment, and sorting out
    its records would take longer."""


class Unordered(Generic[K, V]):
    """Where order does not matter: each record may go. Also what all have in common."""

    def __init__(self) -> None:
        self._queue: deque[Record[K, V]] = deque()
        """Records as they came."""
        self._rows: deque[LazyRecords[K, V]] = deque()
        """What came behind all of the queue, and has not been made yet."""
        self._rows_count = 0

    @property
    def waiting(self) -> int:
        """How many records wait."""
        return len(self._queue) + self._rows_count

    def add(self, records: Sequence[Record[K, V]]) -> None:
        """Have records wait, each behind those of its queue."""
        if isinstance(records, LazyRecords):
            self._rows.append(records)
            self._rows_count += len(records)
        else:
            self._make()
            self._queue.extend(records)

    def take(
        self, max_records: int, _merge_policy: MergePolicy, /
    ) -> tuple[Sequence[Record[K, V]], Sequence[Hashable]]:
        """Records of open queues, maybe none; and the queue of each, now closed."""
        return self._next(max_records), ()

    def open(self, queues: Sequence[Hashable]) -> None:
        """Nothing of these is in work any more."""

    def give_back(self, records: Sequence[Record[K, V]]) -> None:
        """Have taken records wait again, in front of all others of their queues, which are still closed."""
        self._queue.extendleft(reversed(list(records)))

    def drop(self, offsets: range) -> list[Record[K, V]]:
        """Forget what waits and has such an offset; what that was."""
        self._make()
        gone, self._queue = _parted(self._queue, offsets)
        return gone

    def _next(self, max_records: int) -> Sequence[Record[K, V]]:
        """The first that wait: not made yet, if none of them is and many are wanted."""
        if not self._queue and self._rows:
            if max_records >= FEW_ROWS:
                return self._next_rows(max_records)
            rows = self._rows.popleft()
            self._rows_count -= len(rows)
            self._queue.extend(rows)
        return _popped(self._queue, max_records)

    def _next_rows(self, max_records: int) -> LazyRecords[K, V]:
        """As they came, if they are not too many: cutting takes time."""
        rows = self._rows.popleft()
        while self._rows and len(rows) + len(self._rows[0]) <= max_records:
            rows += self._rows.popleft()
        if len(rows) > max_records:
            self._rows.appendleft(rows[max_records:])
            rows = rows[:max_records]
        self._rows_count -= len(rows)
        return rows

    def _make(self) -> None:
        """All that wait."""
        self._queue.extend(chain.from_iterable(self._rows))
        self._rows.clear()
        self._rows_count = 0


class PartitionQueue(Unordered[K, V]):
    """A partition is a queue: one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._is_open = True

    def take(
        self, max_records: int, _merge_policy: MergePolicy, /
    ) -> tuple[Sequence[Record[K, V]], Sequence[Hashable]]:
        if not self._is_open or not self.waiting:
            return [], ()
        self._is_open = False
        taken = self._next(max_records)
        return taken, ("all",) * len(taken)

    def open(self, queues: Sequence[Hashable]) -> None:
        self._is_open = self._is_open or bool(queues)


class KeyQueues(Unordered[K, V]):
    """A queue for each key; records without one go as they come.

    Only a record that is met in the queue while its key is closed is put behind others of its key: as a rule a slice of
    the queue goes out whole.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[Hashable, deque[Record[K, V]]] = {}
        """What waits behind records of its key, and in front of all of the queue that have it; never empty."""
        self._held_count = 0
        self._closed: set[Hashable] = set()
        """Keys that are in work or held: the queue's records must not overtake those."""
        self._taken: Sequence[Hashable] | None = None
        """Keys of the last rows that were taken, while nobody has had to look at them: one by one that takes longer
        than a handler that does nothing."""
        self._ready: deque[Hashable] = deque()
        """Held keys of which nothing is in work, each once, the one that has waited longest first."""

    @property
    def waiting(self) -> int:
        return super().waiting + self._held_count

    def add(self, records: Sequence[Record[K, V]]) -> None:
        """As above.

        Raises:
            InvalidArgumentError: A key that no queue can be looked up by.
        """
        _check_keys(records)
        super().add(records)

    def take(self, max_records: int, merge_policy: MergePolicy, /) -> tuple[Sequence[Record[K, V]], Sequence[Hashable]]:
        self._look_at_taken()
        if (rows := self._take_rows(max_records, merge_policy)) is not None:
            self._taken = rows.keys()
            return rows, self._taken
        taken = self._take_made(max_records, merge_policy)
        keys: list[Hashable] = list(map(_key_of, taken))
        self._closed.update(keys)
        self._closed.discard(None)
        return taken, keys

    def _take_rows(self, max_records: int, merge_policy: MergePolicy) -> LazyRecords[K, V] | None:
        """The rows that come next, if none of their records is made yet, and the queues of all are open."""
        if (
            merge_policy is MergePolicy.ONE_QUEUE
            or self._ready
            or self._queue
            or not self._rows
            or max_records < FEW_ROWS
        ):
            return None
        rows = self._next_rows(max_records)
        if not self._closed or self._closed.isdisjoint(rows.keys()):
            return rows
        self._rows.appendleft(rows)
        self._rows_count += len(rows)
        return None

    def _take_made(self, max_records: int, merge_policy: MergePolicy) -> list[Record[K, V]]:
        taken: list[Record[K, V]] = []
        if (
            merge_policy is not MergePolicy.WHOLE_SLICES or self._queue or max_records < FEW_ROWS
        ):  # else they wait as they are
            self._make()
        if merge_policy is MergePolicy.ONE_QUEUE:
            self._sort_out()
            if self._ready:
                taken = self._take_held(self._ready.popleft(), max_records)
        else:
            while self._ready and len(taken) < max_records:
                taken += self._take_held(self._ready.popleft(), max_records - len(taken))
            waits = False
            while self._queue and len(taken) < max_records and not waits:
                found = self._take_queued(max_records - len(taken), merge_policy)
                waits = not found and merge_policy is MergePolicy.WHOLE_SLICES
                taken += found
        return taken

    def open(self, queues: Sequence[Hashable]) -> None:
        if queues is self._taken:  # nobody has looked, so nobody waits for them
            self._taken = None
            return
        self._look_at_taken()
        if not self._held:
            self._closed.difference_update(queues)
            return
        for key in dict.fromkeys(queues):
            if key is None or key not in self._held:
                self._closed.discard(key)
            else:
                self._ready.append(key)

    def give_back(self, records: Sequence[Record[K, V]]) -> None:
        for record in reversed(list(records)):
            if record.key is None:
                self._queue.appendleft(record)
            else:
                self._held.setdefault(_key_of(record), deque()).appendleft(record)
                self._held_count += 1

    def drop(self, offsets: range) -> list[Record[K, V]]:
        gone = super().drop(offsets)
        for key, held in list(self._held.items()):
            dropped, rest = _parted(held, offsets)
            self._held_count -= len(dropped)
            gone += dropped
            if rest:
                self._held[key] = rest
                continue
            del self._held[key]
            if key in self._ready:  # nothing of it is left, neither here nor in work
                self._ready.remove(key)
                self._closed.discard(key)
        return gone

    # --- inside ---------------------------------------------------------------------------------------------

    def _look_at_taken(self) -> None:
        if self._taken is not None:
            self._closed.update(self._taken)
            self._closed.discard(None)
            self._taken = None

    def _take_held(self, key: Hashable, max_records: int) -> list[Record[K, V]]:
        held = self._held[key]
        taken = _popped(held, max_records)
        self._held_count -= len(taken)
        if not held:
            del self._held[key]
        elif key is None:
            self._ready.append(key)
        return taken

    def _take_queued(self, max_records: int, merge_policy: MergePolicy) -> list[Record[K, V]]:
        if self._closed.isdisjoint(map(_key_of, islice(self._queue, max_records))):
            return _popped(self._queue, max_records)
        if merge_policy is MergePolicy.WHOLE_SLICES:
            return []
        records = _popped(self._queue, max_records)
        taken: list[Record[K, V]] = []
        for record in records:
            if record.key in self._closed:
                self._hold(record)
            else:
                taken.append(record)
        return taken

    def _sort_out(self) -> None:
        """Each record to those of its key."""
        for record in self._queue:
            key = _key_of(record)
            if key not in self._held and key not in self._closed:
                self._closed.add(key)
                self._ready.append(key)
            self._hold(record)
        self._queue.clear()

    def _hold(self, record: Record[K, V]) -> None:
        self._held.setdefault(_key_of(record), deque()).append(record)
        self._held_count += 1


def _popped(queue: deque[Record[K, V]], max_records: int) -> list[Record[K, V]]:
    """The first records of a queue, which has them no more."""
    if max_records >= len(queue):
        popped = list(queue)
        queue.clear()
        return popped
    return [queue.popleft() for _ in range(max_records)]


def _parted(records: deque[Record[K, V]], offsets: range) -> tuple[list[Record[K, V]], deque[Record[K, V]]]:
    """Those with such an offset, and the others."""
    gone = [record for record in records if record.offset in offsets]
    return gone, deque(record for record in records if record.offset not in offsets) if gone else records


def _keys_of(records: Sequence[Record[K, V]]) -> Sequence[Hashable]:
    return records.keys() if isinstance(records, LazyRecords) else list(map(_key_of, records))


def _check_keys(records: Sequence[Record[K, V]]) -> None:
    try:
        _NOTHING.isdisjoint(_keys_of(records))  # looks up each
    except TypeError as error:
        bad = next(record for record in records if not _can_be_looked_up(record.key))
        raise InvalidArgumentError(
            f"{bad.topic_partition} offset {bad.offset}: ordering by key needs keys that can be looked up, and a "
            f"{type(bad.key).__name__} like this cannot; let the key deserializer make something immutable of it"
        ) from error


def _can_be_looked_up(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
