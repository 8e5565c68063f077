"""Turns buffered fetches into chunks of records, on the application thread.

Checks every fetch against the newest assignment view: one of another epoch is dropped, one of a withheld partition is
put aside. Whatever lies in front of an error is handed out first; the error is raised by the next call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeAlias

from kwire.errors import KafkaError
from kwire.fetching.damage import CorruptPartitionError
from kwire.fetching.deserializing import Deserializers, deserialize_chunk
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import K, TopicPartition, V

if TYPE_CHECKING:
    from kwire.events import AssignmentView, Delivered
    from kwire.fetching.buffer import CompletedFetch, FetchBuffer
    from kwire.fetching.open_fetch import OpenFetch


Collected: TypeAlias = "tuple[list[PartitionRecords[K, V]], list[Delivered]]"


class FetchCollector(Generic[K, V]):
    """One per consumer; used by its application thread only."""

    def __init__(
        self,
        buffer: FetchBuffer,
        deserializers: Deserializers[K, V],
        *,
        max_poll_records: int,
        read_committed: bool,
        check_crcs: bool,
    ) -> None:
        self._buffer = buffer
        self._deserializers = deserializers
        self._max_poll_records = max_poll_records
        self._read_committed = read_committed
        self._check_crcs = check_crcs
        self._open: OpenFetch | None = None
        self._aside: list[OpenFetch] = []
        # How far partitions got in front of an error that was raised instead of being told; the next call tells it.
        self._untold: list[Delivered] = []
        # The assignment epochs whose records are damaged: what was fetched behind the damage must not be delivered.
        self._damaged: dict[TopicPartition, int] = {}

    def get_ready(self) -> None:
        """Load what decoding needs, above all numpy: that takes about as long as the first answer, so whoever waits for
        one does it meanwhile. Nothing happens the second time."""
        import fastcrc  # noqa: F401

        import kwire.fetching.open_fetch  # noqa: F401

    def take_drained(self) -> bool:
        """As `FetchBuffer.take_drained`."""
        return self._buffer.take_drained()

    def collect(self, view: AssignmentView, most: int | None = None) -> Collected[K, V]:
        """Up to `most` records, or `max_poll_records`.

        Returns:
            The chunks, and how far each partition got; a partition may advance without a record (compaction,
            transactions that were aborted).

        Raises:
            CorruptPartitionError, RecordDeserializationError: at the front of what is left to collect.
        """
        chunks: list[PartitionRecords[K, V]] = []
        delivered, self._untold = self._untold, []
        left = self._max_poll_records if most is None else most
        while left > 0 and (current := self._current(view)) is not None:
            try:
                chunk = self._next_chunk(current, left)
            except (CorruptPartitionError, KafkaError) as error:
                if chunks:
                    break  # the records first; the next call meets the error again
                if isinstance(error, CorruptPartitionError):
                    self._damaged[current.fetch.topic_partition] = current.fetch.epoch
                    self._close(current)
                self._untold = delivered
                raise
            delivered.append((chunk.topic_partition, current.fetch.epoch, chunk.next))
            if count := len(chunk):
                chunks.append(chunk)
                left -= count
            if current.is_finished:
                self._close(current)
        return chunks, delivered

    def _next_chunk(self, current: OpenFetch, max_records: int) -> PartitionRecords[K, V]:
        rows, behind = current.next_rows(max_records)
        raw: PartitionRecords[bytes, bytes] = PartitionRecords(
            topic_partition=current.fetch.topic_partition,
            columns=rows,
            next=behind,
            cursor=current.fetch.cursor,
            epoch=current.fetch.epoch,
        )
        chunk, error = deserialize_chunk(raw, self._deserializers)
        if error is not None and not len(chunk):
            raise error
        current.advance(len(chunk), chunk.next)
        return chunk

    def _current(self, view: AssignmentView) -> OpenFetch | None:
        """The fetch to go on with, after a look at what the view says of it."""
        for waiting in self._aside.copy():
            if not self._is_current(waiting.fetch, view):
                self._aside.remove(waiting)
                self._buffer.release(waiting.fetch)
            elif waiting.fetch.topic_partition not in view.withheld:
                self._aside.remove(waiting)
                self._put_aside_open()
                self._open = waiting
        while True:
            if self._open is None:
                fetch = self._buffer.take(view.withheld)
                if fetch is None:
                    return None
                if not self._is_current(fetch, view):
                    self._buffer.release(fetch)
                    continue
                self._open = self._opened(fetch)
            if not self._is_current(self._open.fetch, view):
                self._close(self._open)
            elif self._open.fetch.topic_partition in view.withheld:
                self._put_aside_open()
            else:
                return self._open

    def _opened(self, fetch: CompletedFetch) -> OpenFetch:
        from kwire.fetching.open_fetch import OpenFetch

        return OpenFetch(fetch, read_committed=self._read_committed, check_crcs=self._check_crcs)

    def _put_aside_open(self) -> None:
        if self._open is not None:
            self._aside.append(self._open)
            self._open = None

    def _close(self, fetch: OpenFetch) -> None:
        self._buffer.release(fetch.fetch)
        self._open = None

    def _is_current(self, fetch: CompletedFetch, view: AssignmentView) -> bool:
        """Whether its records may be delivered. After damage the epoch is over, though the view may not show it yet:
        the seek back to the damage is on its way to the network thread."""
        tp = fetch.topic_partition
        return view.epochs.get(tp) == fetch.epoch != self._damaged.get(tp)
