"""How many records a poll returns: what the program says, and more for a loop that is quick."""

from __future__ import annotations

import pytest

from kwire.consumer.poll_size import LOOP_RECORDS, QUICK_MS, PollSize

QUICK = QUICK_MS / 4


class Loop:
    """A loop whose polls find as many records as they may return."""

    def __init__(self, size: PollSize) -> None:
        self.size = size
        self.now_ms = 1_000.0

    def poll(self, took_ms: float, *, is_through: bool = True, found: int = LOOP_RECORDS) -> int:
        """One poll, so long after the one before; how many records it returns."""
        self.now_ms += took_ms
        self.size.begin_for_loop(self.now_ms, is_through=is_through)
        returned = min(found, self.size.max_records)
        self.size.returned(returned)
        return returned


@pytest.fixture
def loop() -> Loop:
    return Loop(PollSize(500, grows=True))


def test_a_poll_of_the_program_has_what_it_asks_for_and_else_what_is_set() -> None:
    size = PollSize(200, grows=True)
    size.begin(None)
    assert size.max_records == 200
    size.begin(7)
    assert size.max_records == 7
    size.begin(None)
    assert size.max_records == 200


def test_a_loop_that_is_quick_gets_twice_as_many_each_time(loop: Loop) -> None:
    assert [loop.poll(QUICK) for _ in range(7)] == [500, 1_000, 2_000, 4_000, 8_000, LOOP_RECORDS, LOOP_RECORDS]


def test_a_loop_that_takes_its_time_gets_as_many_as_are_set(loop: Loop) -> None:
    assert [loop.poll(QUICK), loop.poll(QUICK), loop.poll(QUICK_MS), loop.poll(QUICK)] == [500, 1_000, 500, 1_000]


def test_a_loop_that_has_not_seen_all_gets_as_many_as_are_set(loop: Loop) -> None:
    assert [loop.poll(QUICK), loop.poll(QUICK), loop.poll(QUICK, is_through=False)] == [500, 1_000, 500]


def test_a_loop_that_waits_for_records_gets_no_more_than_are_set(loop: Loop) -> None:
    """A burst may follow, and nobody knows yet how long the loop takes for so many."""
    assert [loop.poll(QUICK, found=3) for _ in range(4)] == [3] * 4
    assert loop.poll(QUICK) == 500


def test_a_smaller_number_that_is_set_holds_for_loops_as_well() -> None:
    loop = Loop(PollSize(499, grows=True))
    assert [loop.poll(QUICK) for _ in range(3)] == [499] * 3


def test_with_deserializers_a_loop_gets_as_many_as_are_set() -> None:
    loop = Loop(PollSize(500, grows=False))
    assert [loop.poll(QUICK) for _ in range(3)] == [500] * 3


def test_a_larger_number_that_is_set_is_never_made_smaller() -> None:
    loop = Loop(PollSize(50_000, grows=True))
    assert [loop.poll(each, found=50_000) for each in (QUICK, QUICK, QUICK_MS)] == [50_000] * 3


def test_a_loop_whose_polls_fall_short_gets_fewer_step_by_step(loop: Loop) -> None:
    """As with large records: a poll is full when they take some MiB."""
    assert [loop.poll(QUICK, found=3_000) for _ in range(7)] == [500, 1_000, 2_000, 3_000, 2_000, 3_000, 2_000]
    assert [loop.poll(QUICK, found=3) for _ in range(4)] == [3] * 4
    assert loop.poll(QUICK) == 500


def test_a_loop_behind_polls_of_the_program_begins_anew(loop: Loop) -> None:
    loop.poll(QUICK)
    loop.size.begin(9_000)
    loop.size.returned(9_000)
    assert loop.poll(QUICK) == 500
