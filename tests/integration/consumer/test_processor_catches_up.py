"""A `Processor` over a consumer with parallel rebalance, against Kafka, under both protocols."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from kwire.errors import IllegalStateError
from kwire.processing import Processor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kwire import Record
    from tests.integration.consumer.conftest import BytesConsumer
    from tests.integration.consumer.lag_story import Story

pytestmark = pytest.mark.slow

DEADLINE_S = 30.0


def wait_until(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until_s, "still not so"
        time.sleep(0.01)


class Working:
    """A processor in a thread of its own, in whose handler some records stay."""

    def __init__(self, story: Story, consumer: BytesConsumer, *, held: Iterable[int] = ()) -> None:
        self.held = {offset: threading.Event() for offset in held}
        self.done: list[int] = []
        self._story = story
        self._consumer = consumer
        self.processor = Processor(consumer, self._handle, ordering="none", workers=8, commit_interval=0.1)
        self.processor.__enter__()

    def _handle(self, record: Record[bytes, bytes]) -> None:
        if record.offset in self.held:
            assert self.held[record.offset].wait(2 * DEADLINE_S)
        self.done.append(record.offset)

    def has_done(self, offsets: Iterable[int]) -> None:
        wanted = sorted(offsets)
        wait_until(lambda: len(self.done) >= len(wanted))
        assert sorted(self.done) == wanted

    def crash(self) -> None:
        """What is in work is left alone in the middle of it; of what is done the processor has heard."""
        done = len(self.done)
        wait_until(lambda: self.processor.status().handled == done)
        self.processor.close(drain=False, timeout=0.0)
        self._story.crash(self._consumer)
        assert len(self.done) == done
        for each in self.held.values():
            each.set()


def test_the_worked_example_of_the_proposal_through_a_processor(story: Story) -> None:
    """Committed 70, crash at 100, the end at 120; then committed 140, crash at 170, the end at 190: with records that
    are unfinished in the middle of each range."""
    story.produce_up_to(100)
    first = Working(story, story.start(), held={70, 85})
    first.has_done({*range(100)} - {70, 85})
    wait_until(lambda: story.group_log().offset == 70)
    first.crash()

    story.produce_up_to(120)
    second = Working(story, story.start(), held={85, 110, 140, 145})
    second.has_done({70, *range(100, 120)} - {110})
    story.produce_up_to(170)
    second.has_done({70, *range(100, 170)} - {110, 140, 145})
    wait_until(lambda: (story.group_log().offset, story.head_log().offset) == (85, 140))
    token = story.group_log().token
    assert token is not None
    assert (token.undone, token.head) == ((range(85, 120),), 140)
    for offset in (85, 110):
        second.held[offset].set()
    wait_until(lambda: (story.group_log().offset, story.group_log().token) == (140, None))
    second.crash()

    story.produce_up_to(190)
    third = Working(story, story.start())
    third.has_done({140, 145, *range(170, 190)})
    story.produce_up_to(200)
    third.has_done({140, 145, *range(170, 200)})
    wait_until(lambda: (story.group_log().offset, story.group_log().metadata) == (200, ""))
    third.crash()


@pytest.mark.parametrize("catches_up", [True, False], ids=["with", "without"])
def test_whoever_comes_runs_what_was_unfinished_in_both_ranges_and_nothing_else(
    story: Story, *, catches_up: bool
) -> None:
    consumer = story.lag(70, 120)
    unfinished = {75, 90, 130, 140}
    first = Working(story, consumer, held=unfinished)
    wait_until(lambda: 119 in first.done)
    story.produce_up_to(150)
    first.has_done({*range(70, 150)} - unfinished)
    wait_until(lambda: story.group_log().offset == 75)
    first.crash()

    second = Working(story, story.start(enable_parallel_rebalance=catches_up))
    second.has_done(unfinished)
    wait_until(lambda: (story.group_log().offset, story.group_log().metadata) == (150, ""))
    second.crash()


def test_who_orders_by_key_has_to_say_that_ranges_may_overtake_each_other(story: Story) -> None:
    consumer = story.start()
    with pytest.raises(IllegalStateError, match="key_order_within_ranges=True"):
        Processor(consumer, print, ordering="key")
