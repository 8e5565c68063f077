"""How a processor begins and ends, and what it leaves behind: stories that simulated worlds have found. In virtual
time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import pytest

from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.errors import RebalanceListenerError
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.processing import Processor, Retry
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.testing.simulation.blocking import sleep
from kwire.testing.simulation.script import BytesConsumer, Script, play
from kwire.testing.simulation.threads import TaskExecutor

if TYPE_CHECKING:
    from kwire import Record
    from kwire.protocol.messages.offset_fetch import OffsetFetchResponse

TOPIC = "t"
AT = TopicPartition(TOPIC, 0)


class Listening(RebalanceListener):
    """What the user's own listener is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.told.append("assigned")

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.told.append("revoked")


def tell(
    story: Callable[[Script, BytesConsumer], None], listener: RebalanceListener | None = None, **settings: object
) -> None:
    """The story runs in the process of a consumer of a topic with one partition."""

    def begin(script: Script) -> None:
        script.cluster.create_topic(TOPIC, 1)
        process = script.process()

        def live() -> None:
            with script.consumer_in(process, enable_auto_commit=False, **settings) as consumer:
                consumer.subscribe([TOPIC], listener=listener)
                story(script, consumer)

        script.start(process, live)
        script.until(lambda: process.has_ended)

    play(begin, brokers=1)


def test_one_that_is_left_before_it_has_begun_just_ends() -> None:
    """It said that a processor runs once, because it had been stopped."""

    def story(_script: Script, consumer: BytesConsumer) -> None:
        with Processor(consumer, print):
            pass
        processor = Processor(consumer, print)
        processor.stop()
        processor.run()

    tell(story)


def test_the_users_listener_hears_of_partitions_whose_commits_nobody_can_tell() -> None:
    """It heard of the revocation alone."""
    listening = Listening()

    def story(script: Script, consumer: BytesConsumer) -> None:
        def refuse(answer: OffsetFetchResponse) -> None:
            for group in answer.groups or ():
                for topic in group.topics or ():
                    for partition in topic.partitions or ():
                        partition.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

        rule = script.edit(OffsetFetchRequest, refuse)
        error: Exception | None = None
        try:
            Processor(consumer, print).run()
        except Exception as raised:  # noqa: BLE001  any will do
            error = raised
        rule.remove()
        assert "authorized" in str(error)

    tell(story, listening)
    assert listening.told == ["assigned", "revoked"]


def test_a_listener_that_has_raised_is_called_again_before_the_next_one_handles_records() -> None:
    """Once the next processor began at the committed position."""
    handled: list[int] = []

    class Seeking(Listening):
        def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
            super().on_partitions_assigned(consumer, partitions)
            if self.told.count("assigned") <= 2:
                raise LookupError("the store is away")
            consumer.seek(AT, 2)

    def story(script: Script, consumer: BytesConsumer) -> None:
        def handle(record: Record[bytes, bytes]) -> None:
            handled.append(record.offset)
            if record.offset == 4:
                processor.stop()

        script.send(TOPIC, 5)
        for _ in range(2):
            with pytest.raises(RebalanceListenerError, match="the next poll calls it again"):
                Processor(consumer, handle).run()
        assert handled == []
        processor = Processor(consumer, handle)
        processor.run()
        assert consumer.committed([AT])[AT] == OffsetAndMetadata(5, leader_epoch=0)

    listening = Seeking()
    tell(story, listening)
    assert handled == [2, 3, 4]
    assert listening.told == ["assigned"] * 3 + ["revoked"]


def test_no_more_is_in_work_than_workers_though_retries_are_due() -> None:
    """An executor was given all retries that were due at once."""
    at_once, most, attempts = 0, 0, 0

    def handle(record: Record[bytes, bytes]) -> None:
        nonlocal at_once, most, attempts
        attempts += 1
        at_once += 1
        most = max(most, at_once)
        sleep(0.5)
        at_once -= 1
        if attempts <= 30:
            raise OSError("not now")

    def story(script: Script, consumer: BytesConsumer) -> None:
        script.send(TOPIC, 12)
        pool = TaskExecutor(script.process_of(consumer))
        arguments = {"ordering": "none", "workers": 3, "executor": pool, "retry": Retry(backoff=0.1, backoff_max=0.1)}
        with Processor(consumer, handle, **arguments) as processor:  # type: ignore[arg-type]
            script.until(lambda: processor.status().handled == 12)

    tell(story)
    assert most == 3


def test_what_is_left_alone_when_time_is_up_begins_nothing_more() -> None:
    """A worker with several records went on with them, beside the next processor."""
    begun: list[bytes] = []

    def handle(record: Record[bytes, bytes]) -> None:
        begun.append(record.value or b"")
        sleep(5.0 if len(begun) == 325 else 0.0001)

    def story(script: Script, consumer: BytesConsumer) -> None:
        values = script.send(TOPIC, 400)  # enough for several to go at once
        with Processor(consumer, handle) as processor:
            script.until(lambda: len(begun) == 325)
            processor.stop(timeout=0.5)
        script.sleep(10_000.0)
        assert begun == values[:325]
        with Processor(consumer, handle) as processor:
            script.until(lambda: processor.status().handled == 76)
        assert begun == values[:325] + values[324:]

    tell(story)


def test_who_goes_on_notices_that_the_log_was_cut_meanwhile() -> None:
    """Without a leader epoch at its position, it would go on behind records that are new in front of that."""
    handled: list[bytes] = []

    def handle(record: Record[bytes, bytes]) -> None:
        handled.append(record.value or b"")

    def story(script: Script, consumer: BytesConsumer) -> None:
        values = [value for _ in range(10) for value in script.send(TOPIC)]
        with Processor(consumer, handle):
            script.until(lambda: len(handled) == 10)
        script.cluster.elect_uncleanly(TOPIC, 0, 3)
        values += script.send(TOPIC, 5)
        with Processor(consumer, handle):
            script.until(lambda: len(handled) == 15)
        assert handled == values

    tell(story)


def test_who_goes_on_begins_behind_what_the_last_commit_took_from_a_map() -> None:
    """It would begin where records ended to come, in front of its own commit, and do again what an earlier one did."""
    handled: list[int] = []

    def story(script: Script, consumer: BytesConsumer) -> None:
        script.send(TOPIC, 10)

        def leave_the_first(record: Record[bytes, bytes]) -> None:
            sleep(0.0 if record.offset else 60.0)
            handled.append(record.offset)

        with Processor(consumer, leave_the_first, ordering="none", workers=2) as processor:
            script.until(lambda: len(handled) == 9)
            processor.stop(timeout=0.5)

        def do_one(record: Record[bytes, bytes]) -> None:
            handled.append(record.offset)
            processor.stop()

        with Processor(consumer, do_one, max_buffered_records=1) as processor:
            script.until(lambda: 0 in handled)
        assert consumer.committed([AT])[AT] == OffsetAndMetadata(10, "", 0)
        script.send(TOPIC)
        with Processor(consumer, lambda record: handled.append(record.offset)):
            script.until(lambda: 10 in handled)
        assert sorted(handled) == list(range(11))

    tell(story, max_poll_records=1)
