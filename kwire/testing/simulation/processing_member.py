"""A member of a world that works with a `Processor`: its handlers take their time, and fail; it writes down what is in
whose hands.

The processor is kwire's own; its threads are greenlets of the member's process (`threads.py`). Now and then the member
stops it in the middle, drained or not, and goes on with another one on the same consumer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from kwire.consumer.host import current_host
from kwire.consumer.listener import RebalanceConsumer
from kwire.consumer.sync import Consumer
from kwire.errors import KafkaError, RecordDeserializationError
from kwire.model import TopicPartition
from kwire.processing import Processor
from kwire.testing.invariants.handling_events import (
    AskedForCommits,
    HandlingBegan,
    HandlingEnded,
    Lined,
    ProcessorEnded,
    ProcessorStarted,
    StatusSeen,
)
from kwire.testing.invariants.ledger import (
    Assigned,
    Event,
    Lost,
    Paused,
    Polled,
    Resumed,
    Revoked,
    Sought,
    Started,
)
from kwire.testing.invariants.user_events import GivenUp
from kwire.testing.simulation.blocking import sleep
from kwire.testing.simulation.failing import BytesRecord, Failing, PoisonedError, what_is_not_raw
from kwire.testing.simulation.handling import SLOW_MS, Handling
from kwire.testing.simulation.host import Process
from kwire.testing.simulation.member import HURRIED_MS, SimulatedMember
from kwire.testing.simulation.scenario import Scenario
from kwire.testing.simulation.threads import TaskExecutor
from kwire.testing.simulation.user_code import Interrupt, UserError
from kwire.testing.simulation.user_faults import text_of
from kwire.testing.simulation.watched_consumer import WatchedConsumer

SLOW_SECONDS = (0.5, 4.0)
LOOKING_SECONDS = 0.2
# With another policy it goes on for so long, at most.
BURYING_MS = 3_000.0
# Given up within so long, what is in work is left alone.
IMPATIENT_SECONDS = 1.0


class ProcessingMember(SimulatedMember):
    """A simulated application that works with a `Processor`.

    Args: as of a `SimulatedMember`.
    """

    slow_value: str = ""
    """The record with this value takes long, even when the member is hurried."""

    def __init__(
        self,
        scenario: Scenario,
        process: Process,
        write: Callable[[Event], None],
        bootstrap: str,
        now_ms: Callable[[], float],
        rng: random.Random,
    ) -> None:
        super().__init__(scenario, process, write, bootstrap, now_ms, rng)
        assert scenario.handling is not None
        self._handling: Handling = scenario.handling
        self._processor: Processor[bytes, bytes] | None = None
        self._number = 0
        self._cut_short = 0
        """The number of the last one that was told to stop with a timeout."""
        self._failing = Failing(scenario, self._give_up_value)

    def leave(self) -> None:
        super().leave()
        if self._processor is not None:
            self._processor.stop()

    def tell_status(self) -> None:
        """Write down what the processor says of itself."""
        if self._processor is None:
            return
        status = self._processor.status()
        self._write(
            StatusSeen(
                at_ms=self._now_ms(),
                member=self.name,
                processor=self._number,
                waiting=status.waiting,
                in_work=status.in_work,
                retrying=status.retrying,
                handled=status.handled,
                skipped=status.skipped,
                paused=tuple(sorted(status.paused)),
            )
        )

    # --- one processor after the other ----------------------------------------------------------------------

    def _started(self) -> Started:
        return replace(super()._started(), tells_processing=False, commits_on_revoke=False, commits_by_itself=False)

    def _new_consumer(self, settings: dict[str, object]) -> Consumer[bytes, bytes]:
        return WatchedConsumer(self, settings | {"enable_async_revocation": self._handling.async_revocation})

    def _work(self, consumer: Consumer[bytes, bytes]) -> None:
        while not self.is_leaving:
            self._number += 1
            processor = self._new_processor(consumer, self._number)
            self._processor = processor
            self._write(
                ProcessorStarted(
                    at_ms=self._now_ms(), member=self.name, processor=self._number, workers=self._handling.workers
                )
            )
            try:
                with self._user.interruptible():
                    self._run(processor)
            except RecordDeserializationError as error:
                self._raised("processor", error)
                self._stepping.step(consumer, error, is_hurried=self.is_hurried)
            except (KafkaError, Interrupt) as error:
                self._raised("processor", error)
                self._failing.stopped(error)
                sleep(0.1)
            else:
                self._failing.buries_all = False
            finally:
                self._write(
                    ProcessorEnded(
                        at_ms=self._now_ms(),
                        member=self.name,
                        processor=self._number,
                        is_cut_short=self._cut_short == self._number,
                    )
                )

    def _new_processor(self, consumer: Consumer[bytes, bytes], number: int) -> Processor[bytes, bytes]:
        handling = self._handling
        return Processor(
            consumer,
            partial(self._handle, number),
            ordering=handling.order,
            workers=handling.workers,
            executor=TaskExecutor(self.process) if handling.on_tasks else None,
            commit_interval=handling.commit_interval,
            retry=self._failing.retry(),
            on_failure=self._failing.policy(partial(self._bury, number)),
            offset_map=handling.offset_map,
            max_buffered_records=handling.most_records,
        )

    def _run(self, processor: Processor[bytes, bytes]) -> None:
        if self._handling.in_background:
            with processor:
                self._stop_in_time(processor)
            return
        current_host().start_thread(lambda: self._stop_in_time(processor), "stopper")
        if not self.is_leaving:
            processor.run()

    def _stop_in_time(self, processor: Processor[bytes, bytes]) -> None:
        self._wait_for_the_end(processor)
        if self.is_hurried or self.is_leaving:
            processor.stop()
        else:
            timeout = IMPATIENT_SECONDS if self._rng.random() < 0.3 else None
            if timeout is not None and processor is self._processor:
                self._cut_short = self._number
            processor.stop(drain=self._rng.random() < 0.5, timeout=timeout)

    def _wait_for_the_end(self, processor: Processor[bytes, bytes]) -> None:
        most_ms = BURYING_MS if self._failing.buries_all else self._handling.restarts_ms
        ends_ms = self._now_ms() + self._rng.uniform(0.0, most_ms) if most_ms else float("inf")
        sleep(LOOKING_SECONDS)
        while not self.is_leaving and processor is self._processor and processor.status().is_running:
            if not self.is_hurried and self._now_ms() >= ends_ms:
                return
            sleep(LOOKING_SECONDS)

    # --- one record -----------------------------------------------------------------------------------------

    def _handle(self, processor: int, record: BytesRecord) -> None:
        value = _value_of(record)
        self._begin(processor, record)
        sleep(self._handling_ms(value) / 1000.0)
        if self._handling.is_poisoned(value):
            is_skipped = not self._handling.buries
            self._end(processor, record, is_done=is_skipped, is_passed_by=is_skipped)  # nobody tries it again
            raise PoisonedError(value)
        if not self.is_hurried and (self._rng.random() < self._handling.failing or self._failing.fails(record, value)):
            self._end(processor, record, is_done=False)
            self._failing.failed(record, value)
            raise OSError("not now")
        self._end(processor, record, is_done=True)

    def _on_unreadable(self, value: str) -> None:
        self._failing.passed_by(value)

    def _give_up_value(self, value: str) -> None:
        now_ms = self._now_ms()
        self._write(GivenUp(at_ms=now_ms, member=self.name, value=value, how="skip", processor=self._number))

    def _bury(self, processor: int, record: BytesRecord, error: Exception) -> None:
        self._begin(processor, record)
        sleep(HURRIED_MS / 1000.0)
        if isinstance(error, RecordDeserializationError) and (problem := what_is_not_raw(record, error)):
            self._raised("dead letter", AssertionError(problem))
        if not self.is_hurried and self._rng.random() < self._faults.dead_letter:
            self._end(processor, record, is_done=False)
            raise UserError("a dead-letter function")
        self._end(processor, record, is_done=True)

    def _handling_ms(self, value: str) -> float:
        if value == self.slow_value:
            return SLOW_MS
        if self.is_hurried:
            return self._rng.uniform(0.0, HURRIED_MS)
        if self._rng.random() < self._handling.slow:
            return self._rng.uniform(*SLOW_SECONDS) * 1000.0
        return self._rng.uniform(0.0, self._handling.handling_ms)

    def _begin(self, processor: int, record: BytesRecord) -> None:
        self._write(
            HandlingBegan(
                at_ms=self._now_ms(),
                member=self.name,
                processor=processor,
                partition=record.topic_partition,
                offset=record.offset,
                value=_value_of(record),
            )
        )

    def _end(self, processor: int, record: BytesRecord, *, is_done: bool, is_passed_by: bool = False) -> None:
        self._write(
            HandlingEnded(
                at_ms=self._now_ms(),
                member=self.name,
                processor=processor,
                partition=record.topic_partition,
                offset=record.offset,
                value=_value_of(record),
                is_done=is_done,
                is_passed_by=is_passed_by,
            )
        )

    # --- what its consumer does -----------------------------------------------------------------------------

    def polled(self, records: Sequence[BytesRecord]) -> None:
        now_ms, partition = self._now_ms(), records[0].topic_partition
        offsets, values = tuple(record.offset for record in records), tuple(map(_value_of, records))
        for offset in offsets:
            self._failing.comes_anew((partition, offset))
        self._write(Polled(at_ms=now_ms, member=self.name, partition=partition, offsets=offsets, values=values))
        lanes = tuple(self._handling.lane_of(partition.partition, record.key) for record in records)
        self._write(Lined(at_ms=now_ms, member=self.name, partition=partition, offsets=offsets, lanes=lanes))

    def sought(self, partition: TopicPartition, offset: int) -> None:
        self._write(Sought(at_ms=self._now_ms(), member=self.name, partition=partition, offset=offset))

    def paused(self, partitions: Collection[TopicPartition]) -> None:
        for partition in sorted(partitions):
            self._write(Paused(at_ms=self._now_ms(), member=self.name, partition=partition))

    def resumed(self, partitions: Collection[TopicPartition]) -> None:
        for partition in sorted(partitions):
            self._write(Resumed(at_ms=self._now_ms(), member=self.name, partition=partition))

    def asks_for_commits(self, partitions: Collection[TopicPartition]) -> None:
        asked = tuple(sorted(partitions))
        self._write(AskedForCommits(at_ms=self._now_ms(), member=self.name, partitions=asked))

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._half_told = frozenset(partitions)
        self._user.begin_callback("on_partitions_assigned")
        self._user.end_listener("on_partitions_assigned")
        self._half_told = frozenset()
        self._write(Assigned(at_ms=self._now_ms(), member=self.name, partitions=tuple(sorted(partitions))))

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._user.begin_callback("on_partitions_revoked")
        self._write(Revoked(at_ms=self._now_ms(), member=self.name, partitions=self._known(partitions)))
        self._user.end_listener("on_partitions_revoked")

    def on_partitions_lost(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._user.begin_callback("on_partitions_lost")
        self._write(Lost(at_ms=self._now_ms(), member=self.name, partitions=self._known(partitions)))
        self._user.end_listener("on_partitions_lost")


def _value_of(record: BytesRecord) -> str:
    return text_of(record.value)
