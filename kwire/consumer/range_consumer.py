"""`RangeConsumer`: reads ranges of offsets to their ends, as columns; what batch jobs need of a consumer, and no more.

The network side is that of `Consumer`: fetches run ahead while the caller works on what came before, outages are waited
out, leaders followed. There is no group, no commit and no position that outlives a range. Used by one thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from kwire.clock import Deadline, monotonic_ms
from kwire.config import ConsumerConfig
from kwire.consumer.forks import disown_in_children
from kwire.consumer.network_link import NetworkLink
from kwire.errors import InvalidArgumentError, KafkaTimeoutError
from kwire.events import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AssignRanges,
    BufferDrained,
    ErrorRaised,
    GetLeaders,
    LookUpOffsets,
    PollStarted,
    RecordsDelivered,
)
from kwire.fetching.completed_fetch import CompletedFetch
from kwire.fetching.damage import CorruptPartitionError
from kwire.fetching.open_fetch import OpenFetch
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import TopicPartition

_numbers = itertools.count(1)


class RangeConsumer:
    """Reads one set of ranges after the other, over connections that stay. Close it, best with `with`.

    Args:
        config: Without a group, and with `auto_offset_reset="none"`: a range whose start is gone is an error.

    Raises:
        InvalidArgumentError: The config has a group.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        if config.group_id is not None:
            raise InvalidArgumentError("ranges are read without a group: leave group_id out")
        self._config = config
        self._link = NetworkLink(config, client_id=config.client_id or f"ranges-{next(_numbers)}")
        self._buffer, self._mailbox = self._link.buffer, self._link.mailbox
        self._link.start()
        disown_in_children(self._link)

    def offsets(self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: float) -> dict[TopicPartition, int]:
        """The offsets of these times: ms since the epoch, -1 for the end (under read_committed the last stable offset),
        -2 for the beginning. Where all records are older there is no entry.

        Raises:
            KafkaTimeoutError: No answer within `timeout_ms`; names who should have sent it.
        """
        if not timestamps:
            return {}
        try:
            found = self._link.run(
                self._link.ask("offsets", partial(LookUpOffsets, dict(timestamps)), timeout_ms / 1000.0)
            )
        except KafkaTimeoutError as late:
            whose = self._whose(timestamps)
            raise KafkaTimeoutError(f"no offsets of {whose} within {timeout_ms:.0f} ms: {late}") from late
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    def bounds(self, tp: TopicPartition, *, timeout_ms: float) -> tuple[int, int]:
        """The first offset of a partition and the one behind its last; raises as `offsets`."""
        first = self.offsets({tp: EARLIEST_TIMESTAMP}, timeout_ms=timeout_ms)[tp]
        return first, self.offsets({tp: LATEST_TIMESTAMP}, timeout_ms=timeout_ms)[tp]

    def read(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], *, timeout_ms: float
    ) -> Iterator[PartitionRecords[bytes, bytes]]:
        """All visible records of the ranges (start, end), in offset order within each partition.

        Partitions of one broker are fetched together. Leaving the iterator early drops what was fetched ahead.

        Raises:
            InvalidArgumentError: A range begins below 0.
            OffsetOutOfRangeError: The log does not have a position that was asked for, or not any more.
            CorruptRecordError: Everything in front of the damage has been yielded.
            KafkaTimeoutError: Nothing came for `timeout_ms`; names who should have sent it.
        """
        if below := [f"{tp} at {start}" for tp, (start, _) in ranges.items() if start < 0]:
            raise InvalidArgumentError(f"there are no offsets below 0: {', '.join(below)}")
        reading = {tp: span for tp, span in ranges.items() if span[0] < span[1]}
        if not reading:
            return
        self._link.run(self._link.command("read", partial(AssignRanges, reading)))
        try:
            yield from self._read({tp: end for tp, (_, end) in reading.items()}, timeout_ms)
        finally:
            # Not waited for: it may be an error of the network thread that ends this.
            self._link.post(partial(AssignRanges, {})).abandon()

    def _read(self, ends: dict[TopicPartition, int], timeout_ms: float) -> Iterator[PartitionRecords[bytes, bytes]]:
        deadline = Deadline.after(timeout_ms)
        while ends:
            seen = self._mailbox.signal()
            self._raise_errors()
            fetch = self._buffer.front()
            if fetch is not None:
                yield from self._collect(fetch, ends)
                deadline = Deadline.after(timeout_ms)
                continue
            if self._mailbox.awaits_poll:
                self._mailbox.post(PollStarted())
            if deadline.expired:
                raise self._timed_out(ends, timeout_ms)
            self._mailbox.wait(seen, deadline)

    def _raise_errors(self) -> None:
        self._link.check_alive()
        event = self._mailbox.find(lambda _: True)
        if event is None:
            return
        self._mailbox.remove(event)
        if isinstance(event, ErrorRaised) and event.subscription_epoch in (None, self._mailbox.view.subscription_epoch):
            raise event.error.with_traceback(None)

    def _timed_out(self, ends: Collection[TopicPartition], timeout_ms: float) -> Exception:
        if self._mailbox.bootstrap_error is not None:
            return self._mailbox.bootstrap_error.with_traceback(None)
        why = f": {self._mailbox.connection_failures}" if self._mailbox.connection_failures else ""
        return KafkaTimeoutError(f"nothing came of {self._whose(ends)} within {timeout_ms:.0f} ms{why}")

    def _whose(self, partitions: Iterable[TopicPartition]) -> str:
        """Partitions, each with the broker that should have answered."""
        leaders = self._link.run(self._link.command("leaders", partial(GetLeaders, frozenset(partitions))))
        unknown = f"a leader that {', '.join(map(str, self._config.bootstrap_servers))} did not tell"
        return ", ".join(f"{tp} (from {leader or unknown})" for tp, leader in sorted(leaders.items()))

    def _collect(
        self, fetch: CompletedFetch, ends: dict[TopicPartition, int]
    ) -> Iterator[PartitionRecords[bytes, bytes]]:
        """The records of one fetch, portion by portion. A range that has come to its end is taken out of `ends`."""
        tp = fetch.topic_partition
        try:
            if self._mailbox.view.epochs.get(tp) != fetch.epoch or tp not in ends:
                return
            opened = OpenFetch(
                fetch,
                read_committed=self._config.reads_committed,
                check_crcs=self._config.check_crcs,
            )
            is_through = False
            while not is_through:
                rows, behind = opened.next_rows(len(fetch.records))
                opened.progress = opened.behind(len(rows), behind)
                if behind.offset >= ends[tp]:
                    del ends[tp]
                if len(rows):
                    yield PartitionRecords(topic_partition=tp, columns=rows, next=behind)
                self._mailbox.note(RecordsDelivered([(tp, fetch.epoch, behind)]))
                is_through = tp not in ends or opened.is_finished
        except CorruptPartitionError as corrupt:
            raise corrupt.error from corrupt.error.__cause__
        finally:
            self._buffer.release(fetch)
            if (refusal := self._buffer.drained()) is not None:
                self._mailbox.post(BufferDrained())
                self._buffer.drain_told(refusal)

    def close(self, *, timeout_ms: float | None = None) -> None:
        """End the network thread, and with it all connections. Waits until brokers have taken note, for `timeout_ms`
        at most (None: `close_timeout_ms`)."""
        most_ms = self._config.close_timeout_ms if timeout_ms is None else timeout_ms
        deadline = Deadline(monotonic_ms() + most_ms)
        self._link.post_close(deadline.at_ms)
        self._link.run(self._link.wait_for_end(deadline))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
