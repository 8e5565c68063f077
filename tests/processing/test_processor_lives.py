"""How a processor begins and ends, and what it leaves behind: stories that simulated worlds have found. In virtual
time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.model import TopicPartition
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


class Listening(RebalanceListener):
    """What the user's own listener is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.told.append("assigned")

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.told.append("revoked")


def tell(story: Callable[[Script, BytesConsumer], None], listener: RebalanceListener | None = None) -> None:
    """The story runs in the process of a consumer of a topic with one partition."""

    def begin(script: Script) -> None:
        script.cluster.create_topic(TOPIC, 1)
        process = script.process()

        def live() -> None:
            with script.consumer_in(process, enable_auto_commit=False) as consumer:
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
