"""A `Processor` over a consumer with parallel rebalance: what is new and what a crash has left, side by side.

In virtual time; who is killed is not heard of any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer
from kwire.errors import IllegalStateError
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.parallel_rebalance.token import decode, head_group
from kwire.processing import Processor, Retry
from kwire.testing.simulation.blocking import sleep
from kwire.testing.simulation.script import Script, play

if TYPE_CHECKING:
    from kwire import Record
    from kwire.parallel_rebalance.token import Token

pytestmark = pytest.mark.slow

TOPIC = "t"
TP = TopicPartition(TOPIC, 0)
GROUP = "scripted"


class Life:
    """A processor in a process of its own. It is at each record until that is let go; what is done is written down.

    Attributes:
        held: Whose handlers do not end.
        failing: Whose handlers fail.
    """

    def __init__(
        self,
        script: Script,
        protocol: str,
        *,
        held: Iterable[int] = (),
        settings: dict[str, object] | None = None,
        **arguments: object,
    ) -> None:
        self.script = script
        self.held = set(held)
        self.failing: set[int] = set()
        self.begun: list[int] = []
        self.done: list[int] = []
        self.handled: list[tuple[int, int]] = []
        self.at_once = self.most_at_once = 0
        self.process = script.process()
        self.processor: Processor[bytes, bytes] | None = None
        self.consumer: Consumer[bytes, bytes] | None = None
        self._settings = {"enable_parallel_rebalance": True, "group_protocol": protocol, **(settings or {})}
        self._arguments = {"ordering": "none", "workers": 8, "commit_interval": 0.2, **arguments}
        script.start(self.process, self._live)
        script.at_end(self.stop)

    def _live(self) -> None:
        with self.script.consumer_in(self.process, **self._settings) as consumer:
            consumer.subscribe([TOPIC])
            self.consumer = consumer
            self.processor = Processor(consumer, self._handle, **self._arguments)  # type: ignore[arg-type]
            self.processor.run()

    def _handle(self, record: Record[bytes, bytes]) -> None:
        self.begun.append(record.offset)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        sleep(0.001)
        while record.offset in self.held:
            sleep(0.01)
        self.at_once -= 1
        if record.offset in self.failing:
            raise ConnectionError("the other system is away")
        self.done.append(record.offset)
        self.handled.append((record.partition, record.offset))

    def has_done(self, offsets: Iterable[int]) -> None:
        """These and no others, each once."""
        wanted = sorted(offsets)
        self.script.until(lambda: len(self.done) >= len(wanted))
        assert sorted(self.done) == wanted

    def kill(self) -> None:
        self.script.kill(self.process)

    def stop(self) -> None:
        self.held.clear()
        if self.processor is not None and not self.process.is_killed and not self.process.has_ended:
            self.processor.stop()
            self.script.until(lambda: self.process.has_ended)


def low(script: Script) -> int:
    """What everybody sees."""
    at = script.cluster.committed(GROUP).get(TP)
    return -1 if at is None else at.offset


def token(script: Script) -> Token | None:
    at = script.cluster.committed(GROUP).get(TP)
    return None if at is None else decode(at.metadata or "")


def head(script: Script) -> int:
    at = script.cluster.committed(head_group(GROUP)).get(TP)
    return -1 if at is None else at.offset


def undone(script: Script) -> tuple[range, ...]:
    found = token(script)
    return () if found is None else found.undone


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tell(story: Callable[[Script], None], partitions: int = 1) -> None:
    def begin(script: Script) -> None:
        script.cluster.create_topic(TOPIC, partitions)
        story(script)

    play(begin, brokers=1)


def left_at(script: Script, protocol: str, offset: int, end: int, *, partitions: int = 1) -> None:
    """Somebody had committed `offset` of each; the logs end at `end`."""
    tps = [TopicPartition(TOPIC, number) for number in range(partitions)]
    for tp in tps:
        script.send(TOPIC, end, tp.partition)
    before = script.consumer(TOPIC, group_protocol=protocol)
    script.until(lambda: not before.poll(0.1).is_empty())
    before.commit_sync(dict.fromkeys(tps, OffsetAndMetadata(offset)))
    before.close()


# --- the example of the proposal --------------------------------------------------------------------------------------


def test_the_worked_example_with_records_that_end_out_of_order(protocol: str) -> None:
    """Committed 70, crash at 100, the end at 120; then committed 140, crash at 170, the end at 190."""

    def story(script: Script) -> None:
        script.send(TOPIC, 100)
        first = Life(script, protocol, held={70, 85})
        first.has_done({*range(100)} - {70, 85})
        script.until(lambda: low(script) == 70)
        script.sleep(1_000.0)
        first.kill()

        script.send(TOPIC, 20)
        second = Life(script, protocol, held={85, 110, 145})
        second.has_done({70, *range(100, 120)} - {110})
        script.send(TOPIC, 50)
        second.has_done({70, *range(100, 170)} - {110, 145})
        script.until(lambda: (low(script), undone(script), head(script)) == (85, (range(85, 120),), 145))
        second.held -= {85, 110}
        script.until(lambda: (low(script), token(script)) == (145, None))
        second.has_done({70, 85, *range(100, 170)} - {145})
        script.sleep(1_000.0)
        second.kill()

        script.send(TOPIC, 20)
        third = Life(script, protocol)
        third.has_done({145, *range(170, 190)})
        script.send(TOPIC, 10)
        third.has_done({145, *range(170, 200)})
        script.until(lambda: (low(script), token(script)) == (200, None))

    tell(story)


def test_in_each_range_records_keep_their_order(protocol: str) -> None:
    """What is new overtakes the lag, and nothing else overtakes anything."""

    def story(script: Script) -> None:
        left_at(script, protocol, 70, 120)
        life = Life(script, protocol, held={80}, ordering="partition")
        script.until(lambda: 80 in life.begun)
        script.send(TOPIC, 30)
        script.until(lambda: 149 in life.done)
        assert life.begun == [*range(70, 81), *range(120, 150)]
        life.held.clear()
        life.has_done(range(70, 150))
        assert [offset for offset in life.done if offset < 120] == [*range(70, 120)]
        assert [offset for offset in life.done if offset >= 120] == [*range(120, 150)]
        assert life.most_at_once == 2, "one of each"

    tell(story)


# --- crashes, and who comes then --------------------------------------------------------------------------------------


def crashed_in_both(script: Script, protocol: str) -> set[int]:
    """Committed as far as that can be said: of [70, 120) two are not done, nor are two of what was new; what these are.
    The log ends at 150."""
    left_at(script, protocol, 70, 120)
    unfinished = {75, 90, 130, 140}
    life = Life(script, protocol, held=unfinished)
    script.until(lambda: 119 in life.done)
    script.send(TOPIC, 30)
    life.has_done({*range(70, 150)} - unfinished)
    script.until(lambda: (low(script), head(script)) == (75, 130))
    script.sleep(1_000.0)
    assert undone(script) == (range(75, 120),)
    life.kill()
    return unfinished


def test_after_a_crash_only_what_was_unfinished_in_either_range_runs_again(protocol: str) -> None:
    def story(script: Script) -> None:
        unfinished = crashed_in_both(script, protocol)
        script.send(TOPIC, 20)
        second = Life(script, protocol, held={90, 140})
        second.has_done({75, 130, *range(150, 170)})
        script.until(lambda: low(script) == 90)
        script.sleep(1_000.0)
        second.kill()
        third = Life(script, protocol)
        third.has_done({90, 140})
        script.until(lambda: (low(script), token(script)) == (170, None))
        assert {90, 140} < unfinished

    tell(story)


def test_a_processor_without_the_feature_runs_what_was_unfinished_and_skips_nothing(protocol: str) -> None:
    def story(script: Script) -> None:
        unfinished = crashed_in_both(script, protocol)
        script.send(TOPIC, 5)
        plain = Life(script, protocol, settings={"enable_parallel_rebalance": False})
        plain.has_done({*unfinished, *range(150, 155)})
        script.until(lambda: low(script) == 155)

    tell(story)


def test_a_client_that_knows_of_nothing_reads_everything_from_the_first_that_is_unfinished(protocol: str) -> None:
    def story(script: Script) -> None:
        crashed_in_both(script, protocol)
        plain = script.consumer(TOPIC, group_protocol=protocol)
        read: list[int] = []
        while len(read) < 75:
            read += [record.offset for record in plain.poll(1.0)]
        assert read == [*range(75, 150)]

    tell(story)


def test_a_map_of_before_speaks_of_the_same_records_when_the_group_is_further(protocol: str) -> None:
    """A consumer that catches up with auto-commit keeps metadata that it knows nothing of, with other offsets."""

    def story(script: Script) -> None:
        script.send(TOPIC, 60)
        before = Life(script, protocol, held={10, 30}, settings={"enable_parallel_rebalance": False})
        before.has_done({*range(60)} - {10, 30})
        script.until(lambda: low(script) == 10)
        script.sleep(1_000.0)
        before.kill()
        other = script.consumer(TOPIC, group_protocol=protocol, enable_parallel_rebalance=True, max_poll_records=5)
        read: list[int] = []
        while len(read) < 15:
            read += [record.offset for record in other.poll(1.0)]
        other.commit_sync()
        other.close()
        assert (read, low(script)) == ([*range(10, 25)], 25)
        after = Life(script, protocol, settings={"enable_parallel_rebalance": False})
        after.has_done({30})
        script.until(lambda: low(script) == 60)

    tell(story)


def test_a_partition_that_moves_on_takes_both_ranges_along(protocol: str) -> None:
    """Records in work of either range end before it goes; the next owner has what had not been begun."""

    def story(script: Script) -> None:
        left_at(script, protocol, 70, 120)
        first = Life(script, protocol, held={75, 125}, ordering="partition")
        script.until(lambda: 75 in first.begun)
        script.send(TOPIC, 30)
        script.until(lambda: 125 in first.begun)
        assert first.processor is not None
        first.processor.stop(drain=False)
        script.sleep(300.0)
        assert (75 in first.done, 125 in first.done) == (False, False)
        first.held.clear()
        script.until(lambda: first.process.has_ended)
        assert first.done == [*range(70, 75), *range(120, 125), *sorted({75, 125}, key=first.done.index)]
        second = Life(script, protocol)
        second.has_done([*range(76, 120), *range(126, 150)])
        assert not Counter(first.done) & Counter(second.done)

    tell(story)


def test_partitions_that_go_to_who_joins_are_committed_in_both_ranges(protocol: str) -> None:
    """While records of either are in work: those end first, and nothing runs twice."""

    def story(script: Script) -> None:
        left_at(script, protocol, 70, 120, partitions=4)
        held = {75, 125}
        first = Life(script, protocol, held=held, ordering="partition")
        script.until(lambda: len(first.done) == 4 * 5)
        for partition in range(4):
            script.send(TOPIC, 30, partition)
        script.until(lambda: len(first.done) == 4 * 10)
        second = Life(script, protocol, ordering="partition")
        script.sleep(1_000.0)
        first.held.clear()
        everything = Counter({(partition, offset): 1 for partition in range(4) for offset in range(70, 150)})
        script.until(lambda: Counter(first.handled) + Counter(second.handled) == everything)
        assert {partition for partition, _ in second.handled}, "some went"

    tell(story, partitions=4)


# --- neither holds up the other ---------------------------------------------------------------------------------------


def test_a_lag_whose_handlers_are_slow_does_not_hold_up_what_is_new(protocol: str) -> None:
    def story(script: Script) -> None:
        left_at(script, protocol, 10, 400)
        life = Life(
            script,
            protocol,
            held={10},
            ordering="partition",
            max_buffered_records=20,
            settings={"max_poll_records": 10},
        )
        script.until(lambda: 10 in life.begun)
        script.sleep(1_000.0)
        assert life.processor is not None
        status = life.processor.status()
        assert (status.paused, status.waiting < 60) == (frozenset({TP}), True)
        script.send(TOPIC, 100)
        script.until(lambda: 499 in life.done, within_ms=5_000.0)
        assert life.begun == [10, *range(400, 500)]
        life.held.clear()
        life.has_done(range(10, 500))

    tell(story)


def test_what_is_new_and_slow_does_not_hold_up_the_lag(protocol: str) -> None:
    def story(script: Script) -> None:
        left_at(script, protocol, 10, 400)
        life = Life(
            script,
            protocol,
            held={15, 400},
            ordering="partition",
            max_buffered_records=20,
            settings={"max_poll_records": 10},
        )
        script.until(lambda: 15 in life.begun)
        script.send(TOPIC, 300)
        script.until(lambda: 400 in life.begun)
        script.sleep(1_000.0)
        life.held = {400}
        script.until(lambda: 399 in life.done, within_ms=10_000.0)
        assert [offset for offset in life.done if offset >= 400] == []
        life.held.clear()
        life.has_done(range(10, 700))

    tell(story)


# --- failures, ends, several children ---------------------------------------------------------------------------------


def test_records_of_a_lag_are_tried_again_and_given_up_as_others_are(protocol: str) -> None:
    def story(script: Script) -> None:
        left_at(script, protocol, 70, 120)
        dead: list[int] = []
        life = Life(
            script,
            protocol,
            ordering="partition",
            retry=Retry(max_attempts=2, backoff=0.05),
            on_failure=lambda record, _error: dead.append(record.offset),
        )
        life.failing = {80, 130}
        script.until(lambda: 119 in life.done)
        script.send(TOPIC, 20)
        life.has_done({*range(70, 140)} - {80, 130})
        script.until(lambda: (low(script), token(script)) == (140, None))
        assert sorted(dead) == [80, 130]
        assert Counter(life.begun)[80] == Counter(life.begun)[130] == 2

    tell(story)


def test_a_consumer_goes_on_with_what_its_processor_has_left(protocol: str) -> None:
    """Ended in the middle of both ranges, without draining: the next processor of that consumer does the rest."""

    def story(script: Script) -> None:
        left_at(script, protocol, 70, 120)
        process, lives = script.process(), [list[int](), list[int]()]

        def work(consumer: Consumer[bytes, bytes], done: list[int], last: set[int], *, drain: bool) -> None:
            def handle(record: Record[bytes, bytes]) -> None:
                done.append(record.offset)
                if record.offset == 79:
                    script.send(TOPIC, 30)
                if {*done} >= last:
                    processor.stop(drain=drain)
                sleep(0.05 if record.offset in range(80, 120) else 0.001)

            processor = Processor(consumer, handle, ordering="partition", workers=2)
            processor.run()

        def live() -> None:
            settings = {"group_protocol": protocol, "enable_parallel_rebalance": True}
            with script.consumer_in(process, **settings) as consumer:
                consumer.subscribe([TOPIC])
                work(consumer, lives[0], {79, 124}, drain=False)
                work(consumer, lives[1], {*range(70, 150)} - {*lives[0]}, drain=True)

        script.start(process, live)
        script.until(lambda: process.has_ended)
        first, second = lives
        assert len(first) < 80
        assert Counter(first) + Counter(second) == Counter(range(70, 150))
        for done in lives:
            assert [offset for offset in done if offset < 120] == sorted(offset for offset in done if offset < 120)
        assert (low(script), token(script)) == (150, None)

    tell(story)


def test_several_children_share_a_lag_and_each_part_is_committed_exactly(protocol: str) -> None:
    """A commit of what the second one is through with must not cover what the first one is at."""

    def story(script: Script) -> None:
        left_at(script, protocol, 100, 40_000)
        settings: dict[str, object] = {"parallel_rebalance_children": 3, "max_poll_records": 2_000}
        life = Life(script, protocol, held={150}, settings=settings, ordering="partition", max_buffered_records=100_000)
        script.until(lambda: len(undone(script)) >= 1 and low(script) == 150 and len(life.done) > 25_000)
        script.sleep(2_000.0)
        kept = undone(script)
        handled = {*life.done}
        assert set(range(100, 40_000)) - handled <= {offset for part in kept for offset in part}
        life.kill()
        second = Life(script, protocol, settings=settings, max_buffered_records=100_000)
        script.until(lambda: {*range(100, 40_000)} <= handled | {*second.done})
        again = handled & {*second.done}
        assert not again, f"{len(again)} run again, such as {sorted(again)[:5]}"

    tell(story)


# --- what has to be said ----------------------------------------------------------------------------------------------


def test_who_orders_by_key_has_to_say_that_ranges_may_overtake() -> None:
    def story(script: Script) -> None:
        consumer = script.consumer(TOPIC, enable_parallel_rebalance=True)
        with pytest.raises(IllegalStateError, match="key_order_within_ranges=True"):
            Processor(consumer, print, ordering="key")
        Processor(consumer, print, ordering="key", key_order_within_ranges=True)
        for ordering in ("partition", "none"):
            Processor(consumer, print, ordering=ordering)

    tell(story)
