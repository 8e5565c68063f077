"""What a task does: reads its ranges as Arrow batches.

Spark reuses the processes its tasks run in, so consumers stay: the next task finds connections and metadata as they
were. Fetching runs ahead in the consumer's thread while this one decodes and Spark takes what was decoded. Brokers that
go away are waited for by the consumer; what fails beyond that fails the task, which Spark tries again.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from kwire.config import ConsumerConfig
from kwire.consumer.range_consumer import RangeConsumer
from kwire.errors import BootstrapError, CorruptRecordError, KafkaTimeoutError, OffsetOutOfRangeError
from kwire.model import TopicPartition
from kwire.spark import errors
from kwire.spark.columns import ArrowBatches
from kwire.spark.kafka_options import task_config
from kwire.spark.limits import EARLIEST_OFFSET, LATEST_OFFSET
from kwire.spark.offsets import Offsets
from kwire.spark.options import SourceOptions
from kwire.spark.planning import Task, loss_handler

log = logging.getLogger(__name__)

Spans = dict[TopicPartition, tuple[int, int]]

_LATE = {EARLIEST_OFFSET: "its beginning", LATEST_OFFSET: "its end"}

# Consumers that nobody uses now, by process and settings. A process that was forked must not touch its parent's.
_idle: dict[tuple[int, ConsumerConfig], RangeConsumer] = {}
_MAX_IDLE = 8


def read_task(task: Task, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """All visible records of the ranges, each partition's in order.

    Raises:
        OffsetsError: A range ends in front of its start, now that both are known.
        DataLossError: Some of the range is not there any more (a warning with `failOnDataLoss=false`).
        CorruptRecordError: A damaged batch; names topic, partition and offset (a warning with
            `kwire.skipDamagedBatches=true`).
        KafkaTimeoutError: Nothing came for `kafkaConsumer.pollTimeoutMs`; names broker, topic, partition and offset.
    """
    config = task_config(options.kafka)
    key = (os.getpid(), config)
    consumer = _idle.pop(key, None) or RangeConsumer(config)
    is_sound = False
    try:
        yield from _TaskRead(consumer, options).batches(task)
        is_sound = True
    finally:
        # A reader that failed, or was left in the middle, may be in any state.
        if is_sound and key not in _idle:
            _keep(key, consumer)
        else:
            consumer.close(timeout_ms=0)  # it may be an outage that has to be told of


def _keep(key: tuple[int, ConsumerConfig], consumer: RangeConsumer) -> None:
    """For the next task. Settings may never come again (a token that was renewed): those used last are kept."""
    _idle[key] = consumer
    while len(_idle) > _MAX_IDLE:
        _idle.pop(next(iter(_idle))).close(timeout_ms=0)


class _TaskRead:
    """One task's reading."""

    def __init__(self, consumer: RangeConsumer, options: SourceOptions) -> None:
        self._consumer = consumer
        self._options = options
        self._on_loss = loss_handler(options)
        self._begun: set[TopicPartition] = set()
        self._damaged: set[tuple[TopicPartition, int]] = set()

    def batches(self, task: Task) -> Iterator[pa.RecordBatch]:
        spans = self._bound(task)
        makers = {tp: ArrowBatches(tp, include_headers=self._options.include_headers) for tp in spans}
        while spans:
            try:
                with self._named(spans):
                    for chunk in self._consumer.read(spans, timeout_ms=self._options.poll_timeout_ms):
                        tp = chunk.topic_partition
                        self._begun.add(tp)
                        yield from makers[tp].of(chunk)
                        spans[tp] = (chunk.next.offset, spans[tp][1])
                return
            except OffsetOutOfRangeError as error:
                spans = self._without_lost(spans, error.offsets)
            except KafkaTimeoutError as late:
                spans = self._without_cut_off(spans, late)
            except CorruptRecordError as error:
                spans = self._without_damage(spans, error)

    def _bound(self, task: Task) -> Spans:
        """The ranges, with those ends looked up that were left for the task."""
        firsts = self._look_up(
            EARLIEST_OFFSET, (span.topic_partition for span in task if span.start == EARLIEST_OFFSET)
        )
        ends = self._look_up(LATEST_OFFSET, (span.topic_partition for span in task if span.end == LATEST_OFFSET))
        spans = {tp: (firsts.get(tp, start), ends.get(tp, end)) for tp, start, end in task}
        for tp, (start, end) in spans.items():
            if start > end:
                raise errors.resolved_start_behind_end(start, end, tp)
        return spans

    def _look_up(self, which: int, partitions: Iterable[TopicPartition]) -> Offsets:
        wanted = dict.fromkeys(partitions, which)
        with self._named(dict.fromkeys(wanted, (which, 0))):
            return self._consumer.offsets(wanted, timeout_ms=self._options.poll_timeout_ms)

    def _without_cut_off(self, spans: Spans, late: KafkaTimeoutError) -> Spans:
        """What is left to be read when nothing has come: a log may end in front of a range by now, because it was cut
        or its topic created anew. A broker does not refuse a position at the end of its log, but waits there. Raises:
        `late` if no log ends there, DataLossError as `_without_lost`."""
        starts = {tp: start for tp, (start, end) in spans.items() if start < end}
        try:
            ends = self._look_up(LATEST_OFFSET, starts)
        except KafkaTimeoutError:
            raise late from None  # brokers answer nothing at all
        cut_off = {tp: start for tp, start in starts.items() if start >= ends.get(tp, 0)}
        if not cut_off:
            raise late
        return self._without_lost(spans, cut_off)

    def _without_lost(self, spans: Spans, offsets: Mapping[TopicPartition, int]) -> Spans:
        """What is left to be read when there are no records at these offsets any more. Raises: DataLossError, unless
        that is to be lived with."""
        left = dict(spans)
        for tp in sorted(offsets):
            start, end = spans[tp]
            start = max(start, offsets[tp])
            with self._named({tp: (start, end)}):
                first, behind_last = self._consumer.bounds(tp, timeout_ms=self._options.poll_timeout_ms)
            if first <= start < behind_last and tp not in self._begun:
                # The range is there, in a topic that took the place of the one that this consumer knew from an earlier
                # task. Once some of the range was read, the rest would be another topic's.
                self._begun.add(tp)
                left[tp] = (start, end)
                continue
            self._on_loss(errors.could_not_read(tp, start, end))
            if start >= behind_last or first >= end:
                log.warning("%s now has offsets [%d, %d): [%d, %d) is skipped", tp, first, behind_last, start, end)
                del left[tp]
            else:
                log.warning("%s now begins at %d: what is in front of it is skipped", tp, first)
                left[tp] = (max(start, first), end)
        return left

    def _without_damage(self, spans: Spans, error: CorruptRecordError) -> Spans:
        """What is left to be read: the same once more, for it may have been damaged on its way, and then what lies
        behind the batch. Raises: CorruptRecordError, unless such batches are to be skipped."""
        if not self._options.skip_damaged_batches or error.topic is None or error.partition is None:
            raise errors.damaged_batch(error) from error
        tp, at = TopicPartition(error.topic, error.partition), error.offset or 0
        if (tp, at) not in self._damaged:
            self._damaged.add((tp, at))
            return spans
        end = spans[tp][1]
        behind = min(error.next_offset or self._behind_batch(tp, at, end, error), end)
        log.warning("%s: records in [%d, %d) are skipped: %s", tp, at, behind, error.problem)
        return {**spans, tp: (behind, end)}

    def _behind_batch(self, tp: TopicPartition, at: int, end: int, error: CorruptRecordError) -> int:
        """The first offset that lies in another batch than the one at `at`. Where nothing behind a damaged batch was
        fetched with it, because it is large, only its base offset tells the two apart: looked for in ever larger steps,
        and then between the last two. Offset by offset, each would fetch the batch again."""
        inside, step = at, 1
        while inside + step < end and self._is_in_batch(error, tp, inside + step):
            inside, step = inside + step, 2 * step
        outside = min(inside + step, end)
        while outside - inside > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if self._is_in_batch(error, tp, middle) else (inside, middle)
        return outside

    def _is_in_batch(self, error: CorruptRecordError, tp: TopicPartition, offset: int) -> bool:
        """Whether a read from this offset meets the same damaged batch; False if that cannot be told."""
        span = {tp: (offset, offset + 1)}
        try:
            with self._named(span):
                deque(self._consumer.read(span, timeout_ms=self._options.poll_timeout_ms), maxlen=0)
        except CorruptRecordError as other:
            return _base_offset(error) is not None and _base_offset(other) == _base_offset(error)
        except OffsetOutOfRangeError:
            return False
        return False

    @contextmanager
    def _named(self, spans: Spans) -> Iterator[None]:
        """Raises a timeout in the words of Spark's source, with all offsets that have not come, and from whom."""
        try:
            yield
        except (KafkaTimeoutError, BootstrapError) as error:  # the latter if this process has never reached a broker
            waiting = {tp: start for tp, (start, end) in spans.items() if start < end}
            offsets = ", ".join(f"{tp} at {_LATE.get(start, start)}" for tp, start in sorted(waiting.items()))
            timeout_ms = self._options.poll_timeout_ms
            raise KafkaTimeoutError(
                f"Cannot fetch record for offset {offsets} in {timeout_ms:.0f} milliseconds: {error}"
            ) from error


def _base_offset(error: CorruptRecordError) -> int | None:
    """The base offset in the damaged batch's header, if whatever found the damage knew it."""
    found = error.__cause__
    return found.offset if isinstance(found, CorruptRecordError) else None
