"""Counts of records sent and polled during a run: for the progress line, and to wait until the group has caught up at
the beginning, and drained everything at the end.

A listener of the `Recorder`, which calls it in the order of writing: the poll of a record may come before its
acknowledgement. The ledger has the final truth.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Event, Polled, Removed, Sent, Truncated, Vanished


class Tally:
    """Counts records by value. Any thread may call it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._unread: dict[TopicPartition, dict[int, str]] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._reached: dict[TopicPartition, int] = {}
        self._early: set[str] = set()
        self._sent = self._polled = 0

    @property
    def sent(self) -> int:
        """The number of acknowledged records."""
        return self._sent

    @property
    def polled(self) -> int:
        """The number of polled records, repeated ones included."""
        return self._polled

    @property
    def is_drained(self) -> bool:
        with self._changed:
            return not any(self._unread.values())

    def unread(self) -> dict[TopicPartition, int]:
        """The number of unread records of each partition that has any."""
        with self._changed:
            return {partition: len(left) for partition, left in self._unread.items() if left}

    def wait_drained(self, timeout_s: float) -> bool:
        """Wait until every record is polled. Returns whether that came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not any(self._unread.values()), timeout_s)

    def marks(self) -> dict[TopicPartition, int]:
        """The last unread record of each partition that has any."""
        with self._changed:
            return {partition: max(left) for partition, left in self._unread.items() if left}

    def wait_reached(self, marks: Mapping[TopicPartition, int], timeout_s: float) -> bool:
        """Wait until these records are polled; records skipped before them do not matter. Returns whether that came in
        time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(self._reached.get(partition, -1) >= mark for partition, mark in marks.items()), timeout_s
            )

    def take(self, event: Event) -> None:
        with self._changed:
            match event:
                case Sent():
                    self._send(event)
                case Polled():
                    self._poll(event)
                case Removed():
                    self._starts[event.partition] = event.before
                    self._drop(event.partition, lambda offset: offset < event.before)
                case Truncated():
                    self._starts[event.partition] = min(event.to, self._starts.get(event.partition, 0))
                    self._drop(event.partition, lambda offset: offset >= event.to)
                case Vanished():
                    self._drop(event.partition, set(event.offsets).__contains__)
                case _:
                    return
            self._changed.notify_all()

    def _send(self, event: Sent) -> None:
        self._sent += 1
        if event.value in self._early:
            self._early.discard(event.value)
        elif event.offset >= self._starts.get(
            event.partition, 0
        ):  # or its acknowledgement is late, and the record is gone already
            self._unread.setdefault(event.partition, {})[event.offset] = event.value

    def _poll(self, event: Polled) -> None:
        self._polled += len(event.values)
        self._reached[event.partition] = max(self._reached.get(event.partition, -1), *event.offsets)
        unread = self._unread.get(event.partition, {})
        for offset, value in zip(event.offsets, event.values, strict=True):
            if unread.get(offset) == value:
                del unread[offset]
            else:  # not acknowledged yet, or polled before
                self._early.add(value)

    def _drop(self, partition: TopicPartition, is_gone: Callable[[int], bool]) -> None:
        unread = self._unread.get(partition, {})
        for offset in [offset for offset in unread if is_gone(offset)]:
            del unread[offset]
