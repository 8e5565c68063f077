"""The loop with a `Processor`: it prints polls and commits as the other loops and, with orders, the records that
workers begin and end. Java's program has no such loop.

    {"timestamp":...,"name":"record_begun","topic":"t","partition":0,"offset":7,"key":"k","value":"v"}
    {"timestamp":...,"name":"record_handled", ...}

Workers, which may be processes, write these lines themselves, each in one write, so that the work of a killed process
is known. So a line must not be longer than what a pipe takes at once, and `record_data` has no values here.
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
from kwire.verifiable_consumer.events import EventLog, partition_fields, record_line
from kwire.verifiable_consumer.orders import ProcessingOrders

log = logging.getLogger(__name__)

COMMIT_INTERVAL_S = 0.5
STDOUT = 1
# A record takes none, one or two times the ordered time, so that records end in another order.
WEIGHTS = 3


@dataclass(frozen=True, slots=True)
class WorkHandler:
    """The handler. It may be sent to another process, and reads its orders there."""

    orders: Path | None

    def __call__(self, record: Record[bytes, bytes]) -> None:
        if self.orders is None:
            return
        tell_of("record_begun", record)
        ProcessingOrders(self.orders).work(crc32(record.value or b"") % WEIGHTS)
        tell_of("record_handled", record)


def tell_of(name: str, record: Record[bytes, bytes]) -> None:
    """Print an event in one write, bypassing the buffer of this process."""
    os.write(STDOUT, record_line(name, record).encode())


class TellingConsumer(Consumer[bytes, bytes]):
    """A consumer that prints its polls and commits, also those of a `Processor`.

    Args:
        tells_records: whether to print each record, too.
    """

    def __init__(self, events: EventLog, settings: Mapping[str, object], *, tells_records: bool) -> None:
        super().__init__(config=settings)
        self._events = events
        self._tells_records = tells_records

    def poll(self, timeout: Timeout = 1.0, *, max_records: int | None = None) -> Records[bytes, bytes]:
        records = super().poll(timeout, max_records=max_records)
        if not records:
            return records
        summaries: list[dict[str, str | int]] = []
        for tp in dict.fromkeys(chunk.topic_partition for chunk in records.chunks() if len(chunk)):
            if self._tells_records:
                self._events.record_data(records.records(tp))
            offsets = records.offsets(tp).tolist()
            summaries.append(
                partition_fields(tp) | {"count": len(offsets), "minOffset": offsets[0], "maxOffset": offsets[-1]}
            )
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
    """Processes a topic and prints events.

    Args:
        topic: the topic, or several, separated by commas.
        orders: the file with orders. With one, each record is printed, and the loop goes on after errors.
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
        """End the loop. May be called by a signal handler, even while the processor holds a lock."""
        self._is_stopping = True
        if self._processor is not None:
            Thread(target=self._processor.stop, kwargs={"drain": False}, name="stopper").start()

    def run(self) -> None:
        """Run the loop. Returns after `stop()` or, without orders, after an error, which is logged."""
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
        if self._is_stopping:  # the signal came before there was a processor to stop
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
