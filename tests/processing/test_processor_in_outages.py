"""A processor while its brokers are away: it goes on, and handles nothing before it is known what was done already. In
virtual time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import Event
from typing import TYPE_CHECKING

import pytest

from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.errors import BootstrapError, KafkaError
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.processing import OffsetMap, Processor, encode
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.testing.simulation.blocking import sleep
from kwire.testing.simulation.script import CLASSIC_SETTINGS, BytesConsumer, Script, play

if TYPE_CHECKING:
    from kwire import Record
    from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
    from kwire.protocol.messages.metadata import MetadataResponse
    from kwire.protocol.messages.offset_commit import OffsetCommitResponse
    from kwire.protocol.messages.offset_fetch import OffsetFetchResponse
    from kwire.testing.cluster.control import Rule
    from tests.processing.interrupted_thread import InterruptedThread
else:
    from interrupted_thread import InterruptedThread

TOPIC = "t"
T0 = TopicPartition(TOPIC, 0)
# What scripts' consumers have as `default_api_timeout_ms`.
PATIENCE_MS = 15_000.0
LONGER_MS = 3 * PATIENCE_MS


def tell(
    story: Callable[[Script, BytesConsumer], None],
    listener: RebalanceListener | None = None,
    dial_error: OSError | None = None,
    group_protocol: str = "classic",
) -> None:
    """The story runs in the process of a consumer of a topic with one partition."""

    def begin(script: Script) -> None:
        script.dial_error = dial_error
        script.cluster.create_topic(TOPIC, 1)
        process = script.process()

        def live() -> None:
            settings = {} if group_protocol == "consumer" else {"partition_assignment_strategy": ["cooperative-sticky"]}
            with script.consumer_in(process, group_protocol=group_protocol, **settings) as consumer:
                consumer.subscribe([TOPIC], listener=listener)
                story(script, consumer)

        script.start(process, live)
        script.until(lambda: process.has_ended, within_ms=600_000.0)

    play(begin, brokers=1)


def nobody_tells_commits(script: Script) -> Rule:
    """The group's coordinator is loading."""

    def load(answer: OffsetFetchResponse) -> None:
        for group in answer.groups or ():
            group.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    return script.edit(OffsetFetchRequest, load)


class Seeking(RebalanceListener):
    """Knows where to begin, so that records come before anybody can tell what was committed."""

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        for tp in partitions:
            consumer.seek(tp, 0)


def commit(script: Script, consumer: BytesConsumer, *finished: range) -> None:
    """Nothing in front of offset 0 is done, and these behind it."""
    topic = script.cluster.topics[TOPIC]
    consumer.poll(0.0)
    script.until(lambda: consumer.poll(0.1) is not None and bool(consumer.assignment()))
    at = OffsetAndMetadata(0, encode(0, OffsetMap(topic.topic_id, None, finished)))
    consumer.commit_sync({T0: at})
    consumer.unsubscribe()


def test_it_outlives_an_outage_in_which_nobody_tells_what_is_committed() -> None:
    """It ended with a `KafkaTimeoutError`, after `default_api_timeout_ms`."""

    def story(script: Script, consumer: BytesConsumer) -> None:
        handled: list[bytes | None] = []
        sent = script.send(TOPIC, 5)
        rule = nobody_tells_commits(script)
        with Processor(consumer, lambda record: handled.append(record.value)):
            script.sleep(LONGER_MS)
            assert not handled
            rule.remove()
            script.until(lambda: handled == sent, within_ms=5_000.0)

    tell(story)


def test_no_record_is_handled_before_it_is_known_what_was_finished() -> None:
    def story(script: Script, consumer: BytesConsumer) -> None:
        handled: list[bytes | None] = []
        sent = script.send(TOPIC, 5)
        commit(script, consumer, range(1, 3))
        consumer.subscribe([TOPIC], listener=Seeking())
        rule = nobody_tells_commits(script)
        with Processor(consumer, lambda record: handled.append(record.value)) as processor:
            script.until(lambda: processor.status().paused == {T0}, within_ms=10_000.0)
            script.sleep(LONGER_MS)
            assert not handled
            rule.remove()
            script.until(lambda: len(handled) == 3, within_ms=5_000.0)
            script.sleep(1_000.0)
        assert handled == [sent[0], *sent[3:]]
        assert script.cluster.committed("scripted")[T0].offset == 5
        assert processor.status().paused == frozenset()

    tell(story)


def test_partitions_that_are_lost_in_the_last_commit_end_it_in_peace() -> None:
    """`run()` raised that the partition was not assigned, in place of what it had ended with."""

    def story(script: Script, consumer: BytesConsumer) -> None:
        sent = script.send(TOPIC, 5)
        handled: list[bytes | None] = []
        with Processor(consumer, lambda record: handled.append(record.value)) as processor:
            script.until(lambda: handled == sent, within_ms=10_000.0)
            commits = processor._loop._commits
            commit_last = commits.commit_last

            def lose(*of_commit: object) -> None:
                script.edit(ConsumerGroupHeartbeatRequest, _refuse)
                script.sleep(6_000.0)
                commit_last(*of_commit)  # type: ignore[arg-type]  # as it was called

            commits.commit_last = lose  # type: ignore[method-assign,assignment]
            processor.close()
        assert T0 not in consumer._session.state.view.epochs, "the group refused the member"

    tell(story, group_protocol="consumer")


def _refuse(answer: ConsumerGroupHeartbeatResponse) -> None:
    answer.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_what_came_too_soon_is_left_to_whoever_goes_on_with_the_consumer() -> None:
    def story(script: Script, consumer: BytesConsumer) -> None:
        sent = script.send(TOPIC, 5)
        consumer.subscribe([TOPIC], listener=Seeking())
        rule = nobody_tells_commits(script)
        with Processor(consumer, print) as processor:
            script.until(lambda: processor.status().paused == {T0}, within_ms=10_000.0)
            took_ms = script.took_ms(processor.close)
        assert took_ms < 1_000.0, "ending it does not wait for the outage to be over"
        rule.remove()
        assert [record.value for record in script.read(consumer, sent)] == sent

    tell(story)


def test_partitions_that_are_open_do_not_wait_for_one_that_cannot_be_opened() -> None:
    def story(script: Script, consumer: BytesConsumer) -> None:
        handled: list[bytes | None] = []
        consumer.subscribe([TOPIC, "u"])
        sent = script.send(TOPIC, 1)
        with Processor(consumer, lambda record: handled.append(record.value)) as processor:
            script.until(lambda: handled == sent)
            rule = nobody_tells_commits(script)
            script.cluster.create_topic("u", 1)
            script.until(lambda: TopicPartition("u", 0) in consumer._session.state.assignment, within_ms=600_000.0)
            late = script.send("u", 3)
            for count in range(11, 111, 10):
                sent += script.send(TOPIC, 10)
                script.until(lambda count=count: len(handled) == count, within_ms=1_000.0)  # type: ignore[misc]
                script.sleep(PATIENCE_MS / 5)
            rule.remove()
            script.until(lambda: len(handled) == 104, within_ms=5_000.0)
        assert handled == sent + late
        assert processor.status().handled == len(handled)

    tell(story)


def test_a_topic_that_no_broker_knows_for_a_moment_is_waited_for() -> None:
    def story(script: Script, consumer: BytesConsumer) -> None:
        handled: list[bytes | None] = []
        sent = script.send(TOPIC, 5)
        commit(script, consumer, range(1, 3))
        consumer.subscribe([TOPIC], listener=Seeking())
        script.until(lambda: consumer.poll(0.0) is not None and bool(consumer.assignment()))

        def forget(answer: MetadataResponse) -> None:
            answer.topics = []

        rule = script.edit(MetadataRequest, forget)
        with Processor(consumer, lambda record: handled.append(record.value)):
            script.sleep(5_000.0)
            assert not handled
            rule.remove()
            script.until(lambda: len(handled) == 3, within_ms=5_000.0)
        assert handled == [sent[0], *sent[3:]]

    tell(story)


def test_it_may_be_started_before_its_brokers() -> None:
    """It ended with the first poll, after a second."""

    def story(script: Script, consumer: BytesConsumer) -> None:
        handled: list[bytes | None] = []
        sent = script.send(TOPIC, 3)
        with Processor(consumer, lambda record: handled.append(record.value)):
            script.sleep(0.8 * PATIENCE_MS)
            script.dial_error = None
            script.until(lambda: handled == sent, within_ms=10_000.0)

    tell(story, dial_error=OSError("refused"))


def test_brokers_that_never_come_end_it() -> None:
    def story(script: Script, consumer: BytesConsumer) -> None:
        began_ms = script.now_ms()
        with pytest.raises(BootstrapError):
            Processor(consumer, print).run()
        assert PATIENCE_MS <= script.now_ms() - began_ms < PATIENCE_MS + 3_000.0

    tell(story, dial_error=OSError("refused"))


class Asking(RebalanceListener):
    """Asks the cluster in each callback, as listeners may."""

    def __init__(self) -> None:
        self.answers = 0
        self.errors: list[KafkaError] = []

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        try:
            for tp in partitions:
                for _ in range(20):
                    consumer.end_offsets([tp])
                    self.answers += 1
        except KafkaError as error:
            self.errors.append(error)


def test_workers_that_end_do_not_interrupt_what_the_users_listener_asks() -> None:
    """They woke the consumer up, whatever it was at."""
    listener = Asking()

    def handle(_record: Record[bytes, bytes]) -> None:
        sleep(0.0007)

    def story(script: Script, consumer: BytesConsumer) -> None:
        consumer.subscribe([TOPIC, "u"], listener=listener)
        with Processor(consumer, handle) as processor:
            script.until(lambda: listener.answers == 20)
            script.send(TOPIC, 5_000)
            script.until(lambda: processor.status().in_work > 0)
            script.cluster.create_topic("u", 1)
            script.until(lambda: listener.answers >= 40 or bool(listener.errors), within_ms=600_000.0)
            processor.stop(drain=False)

    tell(story)
    assert not listener.errors


class Watching(RebalanceListener):
    """Knows when partitions went, and how."""

    def __init__(self, script: Script) -> None:
        self.revoked_ms: list[float] = []
        self.lost_ms: list[float] = []
        self._now_ms = script.now_ms

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, _partitions: Collection[TopicPartition]) -> None:
        self.revoked_ms.append(self._now_ms())

    def on_partitions_lost(self, _consumer: RebalanceConsumer, _partitions: Collection[TopicPartition]) -> None:
        self.lost_ms.append(self._now_ms())


@pytest.mark.parametrize("refusals", [1, 3])
def test_who_stops_while_the_group_rebalances_commits_when_that_is_over(refusals: int) -> None:
    """The last commit was refused, and what was done came again."""
    refused: list[int] = []

    def refuse(answer: OffsetCommitResponse) -> None:
        for topic in answer.topics if len(refused) < refusals else ():
            for partition in topic.partitions:
                refused.append(partition.partition_index)
                partition.error_code = ErrorCode.REBALANCE_IN_PROGRESS

    def story(script: Script, consumer: BytesConsumer) -> None:
        handled: list[bytes | None] = []
        sent = script.send(TOPIC, 5)
        script.edit(OffsetCommitRequest, refuse)
        with Processor(consumer, lambda record: handled.append(record.value), commit_interval=600.0):
            script.until(lambda: handled == sent)
        assert script.cluster.committed("scripted")[T0].offset == 5

    tell(story)
    assert len(refused) == refusals


def load(answer: OffsetCommitResponse) -> None:
    """The group's coordinator takes no commits yet."""
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def stopped(script: Script, consumer: BytesConsumer, *, timeout: float, refusals: int | None) -> tuple[float, int]:
    """How many milliseconds a processor takes from `stop` to its end, when all that it got is handled; and how many of
    its commits were taken."""
    rule = script.edit(OffsetCommitRequest, load, times=refusals)
    handled: list[bytes | None] = []
    sent = script.send(TOPIC, 5)
    with Processor(consumer, lambda record: handled.append(record.value), commit_interval=600.0) as processor:
        script.until(lambda: handled == sent)
        began_ms = script.now_ms()
        processor.stop(timeout=timeout)
    rule.remove()
    return script.now_ms() - began_ms, processor.status().commits


def test_the_last_commit_ends_soon_after_the_time_that_stop_was_given() -> None:
    """It took all of `default_api_timeout_ms`, a minute as a rule."""

    def story(script: Script, consumer: BytesConsumer) -> None:
        took_ms, commits = stopped(script, consumer, timeout=0.5, refusals=None)
        assert 5_000.0 < took_ms < 6_000.0
        assert commits == 0

    tell(story)


def test_a_second_ctrl_c_ends_a_last_commit_that_no_broker_answers() -> None:
    """It took `default_api_timeout_ms`, and the consumer could not be closed before."""

    def story(script: Script, consumer: BytesConsumer) -> None:
        handled: list[bytes | None] = []

        def press_ctrl_c() -> None:
            with processor:
                script.until(lambda: handled == sent)
                assert processor._thread is not None
                processor._thread = InterruptedThread(processor._thread, first_s=1.0)
                raise KeyboardInterrupt

        sent = script.send(TOPIC, 2)
        rule = script.edit(OffsetCommitRequest, load)
        processor = Processor(consumer, lambda record: handled.append(record.value), commit_interval=600.0)
        began_ms = script.now_ms()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
        assert script.now_ms() - began_ms < 10_000.0
        assert processor._has_ended
        rule.remove()

    tell(story)


def test_what_is_done_is_committed_by_who_is_stopped_at_once_if_the_broker_answers_soon() -> None:
    def story(script: Script, consumer: BytesConsumer) -> None:
        took_ms, commits = stopped(script, consumer, timeout=0.0, refusals=3)
        assert took_ms < 5_000.0
        assert commits == 1

    tell(story)


def test_the_last_commit_takes_no_more_than_is_left_of_the_poll_interval() -> None:
    """It took `default_api_timeout_ms` on top of what the handler had: the member was late, and lost what it kept."""
    poll_interval_ms = 10_000

    def begin(script: Script) -> None:
        script.cluster.create_topic(TOPIC, 2)
        script.edit(OffsetCommitRequest, load)
        settings = {"max_poll_interval_ms": poll_interval_ms, "default_api_timeout_ms": 3 * poll_interval_ms}
        process, listener = script.process(), Watching(script)
        handled: list[bytes | None] = []
        ends = Event()

        def handle(record: Record[bytes, bytes]) -> None:
            handled.append(record.value)
            if record.offset == 1:
                sleep(2 * poll_interval_ms / 1000.0)

        def live() -> None:
            with script.consumer_in(process, partition_assignment_strategy="range", **settings) as consumer:
                consumer.subscribe([TOPIC], listener=listener)
                with Processor(consumer, handle, commit_interval=600.0) as processor:
                    script.until(ends.is_set, within_ms=600_000.0)
                    processor.stop(drain=False)

        script.start(process, live)
        sent = script.send(TOPIC, 2)
        script.until(lambda: handled == sent)
        other, began_ms = script.consumer(TOPIC, partition_assignment_strategy="range"), script.now_ms()
        script.until(lambda: other.poll(0.1) is not None and bool(other.assignment()), within_ms=600_000.0)
        heard_ms = CLASSIC_SETTINGS["heartbeat_interval_ms"]
        assert not listener.lost_ms
        assert isinstance(heard_ms, int)
        assert 0.8 * poll_interval_ms < listener.revoked_ms[0] - began_ms < 0.95 * poll_interval_ms + heard_ms + 500.0
        assert len(other.assignment()) == 1, "the other partition stays where it was"
        ends.set()
        script.until(lambda: process.has_ended, within_ms=600_000.0)

    play(begin, brokers=1)
