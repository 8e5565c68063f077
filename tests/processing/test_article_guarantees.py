"""What a multi-threaded consumer has to keep of a single-threaded one: order per partition, at least once, and a group
that never waits for a handler. In virtual time, so that handlers may take minutes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.model import TopicPartition
from kwire.processing import Processor, Retry
from kwire.testing.simulation.blocking import sleep
from kwire.testing.simulation.script import Script, play

if TYPE_CHECKING:
    from kwire import Record

pytestmark = pytest.mark.slow

TOPIC = "t"
T0, T1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
GROUP = "scripted"
MINUTE_S = 60.0


class Application(RebalanceListener):
    """A consumer and a processor in a process of their own. A record takes `seconds(value)`; what is done, and what
    has failed, is written down."""

    def __init__(
        self,
        script: Script,
        seconds: Callable[[bytes], float] = lambda _value: 0.001,
        *,
        fails: Callable[[bytes], bool] = lambda _value: False,
        settings: dict[str, object] | None = None,
        **arguments: object,
    ) -> None:
        self.script = script
        self.begun: list[tuple[float, bytes]] = []
        self.done: list[bytes] = []
        self.failures = 0
        self.told: list[tuple[str, frozenset[TopicPartition]]] = []
        self.process = script.process()
        self.processor: Processor[bytes, bytes] | None = None
        self._seconds, self._fails = seconds, fails
        self._settings = settings or {}
        self._arguments = arguments
        script.start(self.process, self._live)
        script.at_end(self.stop)

    def _live(self) -> None:
        settings = {"enable_auto_commit": False, **self._settings}
        with self.script.consumer_in(self.process, **settings) as consumer:
            consumer.subscribe([TOPIC], listener=self)
            self.processor = Processor(consumer, self._handle, **self._arguments)  # type: ignore[arg-type]
            self.processor.run()

    def _handle(self, record: Record[bytes, bytes]) -> None:
        value = record.value or b""
        self.begun.append((self.script.now_ms(), value))
        sleep(self._seconds(value))
        if self._fails(value):
            self.failures += 1
            raise ConnectionError("the other system is away")
        self.done.append(value)

    def stop(self) -> None:
        if self.processor is not None and not self.process.is_killed:
            self.processor.stop()
            self.script.until(lambda: self.process.has_ended)

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("assigned", frozenset(partitions)))

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("revoked", frozenset(partitions)))

    def on_partitions_lost(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("lost", frozenset(partitions)))


def committed(script: Script, tp: TopicPartition = T0) -> int:
    at = script.cluster.committed(GROUP).get(tp)
    return 0 if at is None else at.offset


def tell(story: Callable[[Script], None], partitions: int = 2) -> None:
    def begin(script: Script) -> None:
        script.cluster.create_topic(TOPIC, partitions)
        story(script)

    play(begin, brokers=1)


def test_records_of_a_partition_are_processed_in_their_order() -> None:
    def story(script: Script) -> None:
        sent = {number: script.send(TOPIC, 20, number) for number in (0, 1)}
        application = Application(script, lambda value: 0.05 if value.endswith(b"3") else 0.001, workers=4)
        script.until(lambda: len(application.done) == 40)
        for values in sent.values():
            assert [value for value in application.done if value in values] == values

    tell(story)


def test_each_record_is_processed_at_least_once_though_a_member_is_killed() -> None:
    def story(script: Script) -> None:
        sent = script.send(TOPIC, 30)
        first = Application(script, lambda _value: 0.5, commit_interval=1.0)
        script.until(lambda: len(first.done) == 10)
        script.kill(first.process)
        second = Application(script)
        script.until(lambda: {*first.done, *second.done} == {*sent})
        assert second.done == sent[len(sent) - len(second.done) :], "in order, and nothing in front of the commit"
        assert set(sent[10:]) <= {*second.done}

    tell(story)


def test_the_group_never_waits_for_a_record_however_long_it_takes() -> None:
    def story(script: Script) -> None:
        slow, *_ = script.send(TOPIC, 3, 0)
        application = Application(
            script,
            lambda value: 10 * MINUTE_S if value == slow else 0.001,
            settings={"max_poll_interval_ms": 15_000},
        )
        script.until(lambda: application.begun)
        for _ in range(10):
            sent = script.send(TOPIC, 5, 1)
            script.until(lambda sent=sent: set(sent) <= set(application.done), within_ms=2_000.0)  # type: ignore[misc]
            script.sleep(MINUTE_S * 1000.0 - 2_000.0)
        script.until(lambda: slow in application.done, within_ms=2 * MINUTE_S * 1000.0)
        assert application.told == [("assigned", frozenset({T0, T1}))], "it was a member all along"

    tell(story)


def test_a_partition_in_flight_is_paused_and_resumed_when_it_is_done() -> None:
    def story(script: Script) -> None:
        slow, *_ = script.send(TOPIC, 50, 0)
        application = Application(
            script,
            lambda value: 30.0 if value == slow else 0.001,
            settings={"max_poll_records": 10},
            max_buffered_records=20,
        )
        script.until(lambda: application.processor is not None and application.processor.status().paused == {T0})
        others = script.send(TOPIC, 50, 1)
        script.until(lambda: len(application.done) == 50, within_ms=10_000.0)
        assert application.done == others
        script.until(lambda: len(application.done) == 100)
        assert application.processor is not None
        script.until(lambda: application.processor is not None and not application.processor.status().paused)

    tell(story)


def test_commits_are_made_every_now_and_then_behind_the_last_processed_record() -> None:
    def story(script: Script) -> None:
        application = Application(script, lambda _value: 0.9, commit_interval=5.0)
        commits: list[tuple[float, int]] = []
        script.cluster.groups.offsets.on_put = lambda _group, _tp, at: commits.append((script.now_ms(), at.offset))
        script.send(TOPIC, 30)
        script.until(lambda: len(application.done) == 30)
        script.sleep(6_000.0)
        times = [at_ms for at_ms, _ in commits]
        assert all(4_500.0 < later - earlier < 6_500.0 for earlier, later in pairwise(times))
        offsets = [offset for _, offset in commits]
        assert offsets == sorted(offsets)
        assert offsets[-1] == 30

    tell(story, partitions=1)


def test_a_revocation_waits_for_the_record_in_flight_and_leaves_the_rest_to_the_next_owner() -> None:
    def story(script: Script) -> None:
        sent = {number: script.send(TOPIC, 10, number) for number in (0, 1)}
        settings: dict[str, object] = {"partition_assignment_strategy": ["cooperative-sticky"]}
        first = Application(script, lambda _value: 3.0, settings=settings, commit_interval=60.0)
        script.until(lambda: len(first.begun) == 2)
        second = Application(script, settings=settings)
        script.until(lambda: any(partitions for kind, partitions in second.told if kind == "assigned"))
        gone = next(partitions for kind, partitions in first.told if kind == "revoked")
        (partition,) = (tp.partition for tp in gone)
        of_first = [value for value in first.done if value in sent[partition]]
        assert of_first == sent[partition][: len(of_first)]
        assert 1 <= len(of_first) < 5, "what was in flight, and not all that it had"
        assert committed(script, TopicPartition(TOPIC, partition)) >= len(of_first)
        script.until(lambda: len(first.done) + len(second.done) == 20)
        assert [value for value in second.done if value in sent[partition]] == sent[partition][len(of_first) :]

    tell(story)


def test_a_failing_record_is_tried_again_for_as_long_as_it_takes() -> None:
    def story(script: Script) -> None:
        sent = script.send(TOPIC, 5)
        is_away = True
        application = Application(
            script,
            fails=lambda value: is_away and value == sent[2],
            settings={"max_poll_interval_ms": 15_000},
            retry=Retry(backoff=0.1, backoff_max=10.0),
        )
        script.sleep(10 * MINUTE_S * 1000.0)
        assert application.done == sent[:2], "those behind it wait"
        assert application.failures > 50
        assert committed(script) == 2
        is_away = False
        script.until(lambda: application.done == sent)
        assert application.told == [("assigned", frozenset({T0}))]

    tell(story, partitions=1)


@pytest.mark.parametrize("later", [False, True])
def test_a_handler_that_takes_too_long_loses_its_record_and_not_the_group(later: bool) -> None:
    """What others have been done with of the partition is committed; the record in work comes again."""

    def story(script: Script) -> None:
        settings: dict[str, object] = {
            "partition_assignment_strategy": ["cooperative-sticky"],
            "max_poll_interval_ms": 15_000,
            "enable_async_revocation": later,
        }
        quick = {number: script.send(TOPIC, 1, number) for number in (0, 1)}
        slow = {number: script.send(TOPIC, 1, number)[0] for number in (0, 1)}
        first = Application(
            script, lambda value: 60.0 if value in slow.values() else 0.001, settings=settings, commit_interval=60.0
        )
        script.until(lambda: {slow[0], slow[1]} <= {value for _, value in first.begun})
        second = Application(script, settings=settings)
        script.until(lambda: bool(second.done), within_ms=30_000.0)
        gone = next(partitions for kind, partitions in first.told if kind in ("revoked", "lost") and partitions)
        (partition,) = (tp.partition for tp in gone)
        assert second.done == [slow[partition]], "what was done of it was committed"
        script.until(lambda: slow[1 - partition] in first.done, within_ms=120_000.0)
        assert first.told.count(("assigned", frozenset({T0, T1}))) == 1
        assert quick[1 - partition][0] not in second.done, "what stays, stays"

    tell(story)
