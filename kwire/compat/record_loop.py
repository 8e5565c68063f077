"""Records one by one, as other clients hand them out: commits cover those that were handed out, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

from kwire.consumer.sync import Consumer
from kwire.model import K, Record, V


class RecordLoop(Generic[K, V]):
    """The loop of `Consumer.__iter__`, which comes back when nothing is there."""

    def __init__(self, consumer: Consumer[K, V]) -> None:
        self._consumer = consumer
        self._records: Iterator[Record[K, V]] = iter(())

    def next(self, timeout: float) -> Record[K, V] | None:
        """The next record; None if there is none within `timeout` seconds. Raises what a poll does."""
        record = next(self._records, None)
        if record is None:
            self._consumer._poll(timeout, to_loop=True)
            self._records = self._consumer._session.state.delivery.iterate()
            record = next(self._records, None)
        return record

    def at_hand(self, most: int) -> list[Record[K, V]]:
        """Up to so many that need no further poll."""
        found: list[Record[K, V]] = []
        while len(found) < most and (record := next(self._records, None)) is not None:
            found.append(record)
        return found
