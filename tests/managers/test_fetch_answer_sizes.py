"""How much one answer may bring: over a slow line it has to come within `request_timeout_ms`, or none ever does."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from kwire.config.consumer_config import MIB
from kwire.errors import DisconnectError
from kwire.managers.fetch_connection import FIRST_ANSWER_BYTES, GROWTH, MIN_ANSWER_BYTES, SHARE_IF_FAILED
from kwire.model import TopicPartition
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.managers.scenario import Scenario
    from tests.record_batches import batch
else:
    from record_batches import batch

O0 = TopicPartition("orders", 0)
TIMEOUT_MS = 30_000
WAIT_MS = 500
MAX_BYTES = 16 * MIB
"""A quarter of the default buffer."""


class Line:
    """The way to the one broker that is fetched from."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._offsets = count()
        scenario.start_fetching(O0)

    @property
    def asked_bytes(self) -> int:
        return self.scenario.request(FetchRequest).max_bytes

    def answer(
        self,
        size_bytes: int | None = None,
        *,
        after_ms: float = 2.0,
        arrival_ms: float = 0.0,
        throttle_time_ms: int = 0,
    ) -> None:
        """With so many bytes of records, or with as many as were asked for, which begin to come after this time; all is
        collected at once."""
        wanted_bytes = self.asked_bytes if size_bytes is None else size_bytes
        offset = next(self._offsets)
        records = batch(offset, values={offset: bytes(wanted_bytes)}) if wanted_bytes else None
        found = PartitionData(partition_index=0, records=records, high_watermark=1_000)
        topic = FetchableTopicResponse(topic="orders", partitions=[found])
        self._pass(after_ms + arrival_ms)
        on_arrival = self.scenario.unsent(FetchRequest).on_arrival
        assert on_arrival is not None
        on_arrival(arrival_ms)
        responses = [topic] if records else []
        response = FetchResponse(throttle_time_ms=throttle_time_ms, session_id=7, responses=responses)
        self.scenario.answer(FetchRequest, response)
        while (fetch := self.scenario.buffer.front()) is not None:
            self.scenario.buffer.release(fetch)
        self.scenario.turn()

    def give_up(self, after_ms: float) -> None:
        """The connection breaks, or is given up."""
        self._pass(after_ms)
        self.scenario.fail(FetchRequest, DisconnectError("no answer in time"))
        self.scenario.advance(2_000)  # the back-off

    def _pass(self, duration_ms: float) -> None:
        self.scenario.now_ms += duration_ms


@pytest.fixture
def line(scenario: Scenario) -> Line:
    return Line(scenario)


def test_over_a_fast_line_the_fourth_answer_is_as_large_as_any(line: Line) -> None:
    asked = []
    for _ in range(5):
        asked.append(line.asked_bytes)
        line.answer()
    assert asked == [FIRST_ANSWER_BYTES, MIB, 4 * MIB, MAX_BYTES, MAX_BYTES]


@pytest.mark.parametrize("bytes_per_s", [2_000_000, 300_000, 30_000, 3_000])
def test_over_a_slow_line_every_answer_but_the_first_comes_in_time(line: Line, bytes_per_s: int) -> None:
    """300 KB/s are a home's, or a VPN's: 16 MiB, asked for at once, would take 56 s, time after time."""
    late = 0
    for _ in range(20):
        arrival_ms = line.asked_bytes / bytes_per_s * 1_000
        if arrival_ms > TIMEOUT_MS + WAIT_MS:
            late += 1
            line.give_up(after_ms=TIMEOUT_MS + WAIT_MS)
        else:
            line.answer(arrival_ms=arrival_ms)
    assert late == (1 if bytes_per_s == 3_000 else 0)
    assert line.asked_bytes / bytes_per_s * 1_000 < TIMEOUT_MS / 2


def test_a_broker_that_takes_seconds_before_it_begins_is_asked_for_large_answers(line: Line) -> None:
    """Whatever their size, as with tiered storage, or under load: with small ones it would be slow."""
    for _ in range(4):
        line.answer(after_ms=TIMEOUT_MS * 0.8)
    assert line.asked_bytes == MAX_BYTES


def test_under_a_quota_an_answer_takes_about_a_second_of_it(line: Line) -> None:
    """All partitions of the broker waited while it throttled for ten seconds, and then once more."""
    for _ in range(2):
        line.answer()
    assert line.asked_bytes == 4 * MIB
    line.answer(0, throttle_time_ms=8_000)
    assert line.asked_bytes == MIB // 2
    for _ in range(5):
        line.answer(after_ms=10_000)
        assert line.asked_bytes == MIB // 2, "it would be throttled again"
    line.answer(after_ms=10_000)
    assert line.asked_bytes == 2 * MIB, "the quota may have been raised"


def test_a_quota_makes_no_answer_smaller_than_the_first(line: Line) -> None:
    line.answer()
    for throttle_time_ms in (3_000, 30_000, 900):
        line.answer(0, throttle_time_ms=throttle_time_ms)
    assert line.asked_bytes == FIRST_ANSWER_BYTES


def test_answers_that_a_slow_line_has_made_small_grow_under_a_quota(line: Line) -> None:
    for _ in range(2):
        line.give_up(after_ms=TIMEOUT_MS)
    assert line.asked_bytes < FIRST_ANSWER_BYTES
    for _ in range(5):
        line.answer(throttle_time_ms=1_500)
    assert line.asked_bytes >= FIRST_ANSWER_BYTES


def test_a_short_throttle_makes_no_answer_smaller(line: Line) -> None:
    line.answer()
    line.answer(throttle_time_ms=900)
    assert line.asked_bytes == 4 * MIB


def test_answers_that_are_small_say_nothing_of_the_line(line: Line) -> None:
    """Who keeps up has little in each; then a backlog comes."""
    for _ in range(10):
        line.answer(5_000)
    assert line.asked_bytes == FIRST_ANSWER_BYTES


def test_an_answer_that_came_in_slowly_makes_the_next_one_smaller(line: Line) -> None:
    for _ in range(3):
        line.answer()
    line.answer(arrival_ms=TIMEOUT_MS * 0.4)
    assert line.asked_bytes == MAX_BYTES // 2
    line.answer(arrival_ms=TIMEOUT_MS * 0.2)
    assert line.asked_bytes == MAX_BYTES // 2, "neither slow nor quick"


def test_a_connection_that_breaks_at_once_says_nothing_of_the_line(line: Line) -> None:
    line.answer()
    line.give_up(after_ms=100)
    assert line.asked_bytes == MIB


def test_after_a_second_failure_in_a_row_less_is_asked_for(line: Line) -> None:
    """Something on the way cut off each large answer, and the same was asked for again and again."""
    for _ in range(3):
        line.answer()
    assert line.asked_bytes == MAX_BYTES
    line.give_up(after_ms=100)
    assert line.asked_bytes == MAX_BYTES
    line.give_up(after_ms=100)
    assert line.asked_bytes == MAX_BYTES // SHARE_IF_FAILED
    line.answer()
    line.give_up(after_ms=100)
    assert line.asked_bytes == MAX_BYTES // SHARE_IF_FAILED * GROWTH


def test_there_is_always_something_to_ask_for(line: Line) -> None:
    for _ in range(10):
        line.give_up(after_ms=TIMEOUT_MS + WAIT_MS)
    assert line.asked_bytes == MIN_ANSWER_BYTES
    for _ in range(6):
        line.answer()
    assert line.asked_bytes == MAX_BYTES


def test_what_the_user_allows_is_never_exceeded(make_scenario: Callable[..., Scenario]) -> None:
    line = Line(make_scenario(fetch_max_bytes=600_000))
    for _ in range(5):
        line.answer()
    assert line.asked_bytes == 600_000
