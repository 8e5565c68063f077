"""The loop with a `Processor`: what is polled and committed is told as always, and, if there are orders, which worker
has which record. kwire's own; Java's program has none.

    {"timestamp":...,"name":"record_begun","topic":"t","partition":0,"offset":7,"key":"k","value":"v"}
    {"timestamp":...,"name":"record_handled", ...}

Workers write these themselves, each in one write, so that what a process had done when it was killed is known; they may
be processes of their own. So lines are not longer than what a pipe takes at once: no values in `record_data` here.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from zlib import crc32

from kwire.consumer.arguments import Timeout
from kwire.consumer.listener import RebalanceListener
from kwire.consumer.sync import Consumer
from kwire.errors import FencedInstanceIdError, KafkaError
from kwire.events import CommitCallback
from kwire.fetching.columns import Records
from kwire.model import OffsetAndMetadata, Record, TopicPartition
from kwire.processing import Processor
from kwire.verifiable_consumer.arguments import Processing
from kwire.verifiable_consumer.events import EventLog, record_line
from kwire.verifiable_consumer.orders import ProcessingOrders

log = logging.getLogger(__name__)

COMMIT_INTERVAL_S = 0.5
STDOUT = 1
# A record takes none, one or two of the times it is ordered to take: so they end in another order.
WEIGHTS = 3


@dataclass(frozen=True, slots=True)
class WorkHandler:
    """The handler. Travels to processes, and so reads its orders where it is."""

    orders: Path | None

    def __call__(self, record: Record[bytes, bytes]) -> None:
        if self.orders is None:
            return
        tell_of("record_begun", record)
        ProcessingOrders(self.orders).work(crc32(record.value or b"") % WEIGHTS)
        tell_of("record_handled", record)


def tell_of(name: str, record: Record[bytes, bytes]) -> None:
    """A line in one write, past what this process has buffered."""
    os.write(STDOUT, record_line(name, record).encode())


class TellingConsumer(Consumer[bytes, bytes]):
    """Tells of its polls and commits, a `Processor`'s included.

    Args:
        tells_records: whether of each record, too.
    """

    def __init__(self, events: EventLog, settings: Mapping[str, object], *, tells_records: bool) -> None:
        super().__init__(config=settings)
        self._events = events
        self._tells_records = tells_records

    def poll(self, timeout: Timeout = 1.0) -> Records[bytes, bytes]:
        records = super().poll(timeout)
        if not records:
            return records
        summaries: list[dict[str, str | int]] = []
        for tp in dict.fromkeys(chunk.topic_partition for chunk in records.chunks() if len(chunk)):
            if self._tells_records:
                self._events.record_data(records.records(tp))
            offsets = records.offsets(tp).tolist()
            summaries.append(_place(tp) | {"count": len(offsets), "minOffset": offsets[0], "maxOffset": offsets[-1]})
        self._events.records_consumed(len(records), summaries)
        return records

    def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout: Timeout | None = None
    ) -> None:
        try:
            super().commit_sync(offsets, timeout=timeout)
        except KafkaError as error:
            self._events.offsets_committed(dict(offsets or {}), error)
            raise
        self._events.offsets_committed(dict(offsets or {}))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        callback: CommitCallback | None = None,
    ) -> None:
        def tell(committed: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
            self._events.offsets_committed(dict(committed), error)
            if callback is not None:
                callback(committed, error)

        super().commit_async(offsets, callback=tell)


class VerifiableProcessor:
    """Works on a topic and tells of it.

    Args:
        topic: or several, with commas in between.
        orders: the file with them. If there is one, each record is told of, and the loop goes on after errors.
    """

    def __init__(
        self,
        consumer: Consumer[bytes, bytes],
        events: EventLog,
        topic: str,
        processing: Processing,
        *,
        listener: RebalanceListener,
        orders: Path | None = None,
    ) -> None:
        self._consumer = consumer
        self._events = events
        self._topics: Collection[str] = topic.split(",")
        self._processing = processing
        self._listener = listener
        self._orders = orders
        self._processor: Processor[bytes, bytes] | None = None
        self._is_stopping = False

    def stop(self) -> None:
        """End; also from a signal handler, which may have struck while the processor held a lock of its own."""
        self._is_stopping = True
        if self._processor is not None:
            Thread(target=self._processor.stop, kwargs={"drain": False}, name="stopper").start()

    def run(self) -> None:
        """Returns after `stop()`, and, having logged it, after an error, unless there are orders."""
        try:
            self._events.startup_complete()
            with ExitStack() as stack:
                pool = stack.enter_context(self._new_pool()) if self._processing.in_processes else None
                self._consumer.subscribe(self._topics, listener=self._listener)
                while not self._is_stopping:
                    self._run_once(pool)
        except Exception:
            log.exception("error during processing, closing")
        finally:
            if self._orders is not None:
                self._events.closing()
            self._consumer.close()
            self._events.shutdown_complete()

    def _run_once(self, pool: ProcessPoolExecutor | None) -> None:
        processing = self._processing
        self._processor = Processor(
            self._consumer,
            WorkHandler(self._orders),
            ordering=processing.order,
            workers=processing.workers,
            executor=pool,
            commit_interval=COMMIT_INTERVAL_S,
            offset_map=processing.offset_map,
        )
        if self._is_stopping:  # the signal came while there was nobody to tell
            return
        try:
            self._processor.run()
        except KafkaError as error:
            if self._orders is None or isinstance(error, FencedInstanceIdError):
                raise
            self._events.poll_failed(error)
            ProcessingOrders(self._orders).pause()

    def _new_pool(self) -> ProcessPoolExecutor:
        # Spawned: a fork would take the network thread's locks with it.
        return ProcessPoolExecutor(self._processing.workers, mp_context=multiprocessing.get_context("spawn"))


def _place(tp: TopicPartition) -> dict[str, str | int]:
    return {"topic": tp.topic, "partition": tp.partition}
