"""What `Processor.describe()` says beside what its consumer does: queues, and handlers that take long."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.description.consumer_description import ConsumerDescription
from kwire.description.processor_description import ProcessorDescription, QueueDescription, RecordInWork
from kwire.description.values import Cause, CauseKind, age_s
from kwire.model import K, V
from kwire.processing.dispatcher import Dispatcher
from kwire.processing.status import Status

SLOW_MS = 1_000.0
MAX_SLOW = 20


def describe(
    consumer: ConsumerDescription, status: Status, dispatcher: Dispatcher[K, V], now_ms: float
) -> ProcessorDescription:
    """How the processor of this consumer stands; from any thread."""
    slow = tuple(_slow(dispatcher, now_ms))
    return ProcessorDescription(
        is_running=status.is_running,
        waiting=status.waiting,
        in_work=status.in_work,
        retrying=status.retrying,
        progress_s=round(status.seconds_since_progress, 3),
        queues=tuple(_queues(consumer, status, dispatcher)),
        slow=slow,
        causes=tuple(map(_cause, slow)),
        consumer=consumer,
    )


def _slow(dispatcher: Dispatcher[K, V], now_ms: float) -> Iterator[RecordInWork]:
    longest = sorted(dispatcher.at_work(), key=lambda each: each[1])[:MAX_SLOW]
    for record, since_ms, attempts in longest:
        if now_ms - since_ms >= SLOW_MS:
            yield RecordInWork(
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                for_s=age_s(since_ms, now_ms),
                attempts=attempts,
            )


def _cause(slow: RecordInWork) -> Cause:
    tries = f", attempt {slow.attempts + 1}" if slow.attempts else ""
    text = f"a handler is at {slow.topic}-{slow.partition} offset {slow.offset}{tries}"
    return Cause(kind=CauseKind.SLOW_HANDLER, text=text, for_s=slow.for_s)


def _queues(consumer: ConsumerDescription, status: Status, dispatcher: Dispatcher[K, V]) -> Iterator[QueueDescription]:
    in_work = dispatcher.in_work_by_partition()
    held = {(tp.topic, tp.partition) for tp in status.paused}
    assigned = {(each.topic, each.partition) for each in consumer.partitions}
    for topic, partition in sorted(in_work.keys() | held | assigned):
        yield QueueDescription(
            topic=topic,
            partition=partition,
            in_work=in_work.get((topic, partition), 0),
            is_held=(topic, partition) in held,
        )
