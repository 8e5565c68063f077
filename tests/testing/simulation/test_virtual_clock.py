"""Time jumps to the next moment that anybody waits for, and a sleeper is woken once: when called, or by its time."""

from __future__ import annotations

import math

import pytest
import trio

from kwire.testing.simulation.scheduler import BOOTED_SECONDS_AGO, VirtualTime, run_deterministically
from kwire.testing.simulation.virtual_clock import NobodyWaitsError, Sleeper, VirtualClock


def now() -> float:
    return trio.current_time() - BOOTED_SECONDS_AGO


def test_sleepers_and_deadlines_share_one_time() -> None:
    told: list[tuple[str, float]] = []

    async def main(_time: VirtualTime) -> None:
        async def deadline(name: str, seconds: float) -> None:
            await trio.sleep(seconds)
            told.append((name, now()))

        async def sleeper(name: str, seconds: float) -> None:
            await Sleeper().sleep(BOOTED_SECONDS_AGO + seconds)
            told.append((name, now()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(deadline, "b", 2.0)
            nursery.start_soon(sleeper, "c", 3.0)
            nursery.start_soon(sleeper, "a", 1.0)
            nursery.start_soon(deadline, "d", 4.0)

    run_deterministically(1, main)
    assert told == [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)]


def test_who_was_woken_early_is_not_woken_again_when_its_time_comes() -> None:
    async def main(_time: VirtualTime) -> list[float]:
        sleeper, woken = Sleeper(), []

        async def sleep() -> None:
            for seconds in (10.0, 30.0):
                await sleeper.sleep(BOOTED_SECONDS_AGO + seconds)
                woken.append(now())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep)
            await trio.sleep(5.0)
            sleeper.wake()
        return woken

    assert run_deterministically(1, main) == [5.0, 30.0]


def test_a_call_may_come_nearer_and_does_not_go_away() -> None:
    async def main(_time: VirtualTime) -> list[float]:
        sleeper, woken = Sleeper(), []

        async def sleep() -> None:
            for _ in range(3):
                await sleeper.sleep()
                woken.append(now())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep)
            await trio.sleep(1.0)
            sleeper.call_at(BOOTED_SECONDS_AGO + 9.0)
            sleeper.call_at(BOOTED_SECONDS_AGO + 3.0)  # nearer
            sleeper.call_at(BOOTED_SECONDS_AGO + 6.0)
            await trio.sleep(3.0)  # until 4.0: it has slept again since 3.0, and those calls are over
            sleeper.call_at(BOOTED_SECONDS_AGO + 2.0)  # has been: at once
            await trio.sleep(10.0)
            sleeper.wake()
        return woken

    assert run_deterministically(1, main) == [3.0, 4.0, 14.0]


def test_a_wake_up_that_nobody_sleeps_through_is_forgotten() -> None:
    async def main(_time: VirtualTime) -> float:
        sleeper = Sleeper()
        sleeper.wake()
        sleeper.call_at(BOOTED_SECONDS_AGO + 1.0)
        await sleeper.sleep(BOOTED_SECONDS_AGO + 7.0)
        return now()

    assert run_deterministically(1, main) == 7.0


def test_a_cancelled_sleep_is_over_and_the_place_is_free() -> None:
    async def main(_time: VirtualTime) -> float:
        sleeper = Sleeper()
        with trio.move_on_after(2.0) as scope:
            await sleeper.sleep(BOOTED_SECONDS_AGO + 5.0)
        assert scope.cancelled_caught
        await sleeper.sleep(BOOTED_SECONDS_AGO + 8.0)  # at 5.0 nothing happens
        return now()

    assert run_deterministically(1, main) == 8.0


def test_a_sleep_that_is_over_at_once_leaves_nothing_for_a_cancellation_to_end() -> None:
    """Once trio thought that the task slept on, and woke it as a scope was entered: a second time, which it refuses."""

    async def main(_time: VirtualTime) -> float:
        async with trio.open_nursery() as nursery:
            await Sleeper().sleep(BOOTED_SECONDS_AGO)
            nursery.cancel_scope.cancel()
            with trio.CancelScope():
                await trio.sleep(1.0)
        return now()

    assert run_deterministically(1, main) == 0.0


def test_all_sleepers_of_a_moment_wake_at_it() -> None:
    async def main(_time: VirtualTime) -> list[float]:
        woken: list[float] = []

        async def sleep() -> None:
            await Sleeper().sleep(BOOTED_SECONDS_AGO + 5.0)
            woken.append(now())

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(sleep)
        return woken

    assert run_deterministically(1, main) == [5.0] * 10


def test_a_world_in_which_nobody_waits_for_anything_is_found() -> None:
    clock = VirtualClock(3.0)
    assert clock.deadline_to_sleep_time(math.inf) > 0, "trio's own wake-up, at the end of a run, takes real time"
    assert clock.deadline_to_sleep_time(4.0) == 0.0
    assert clock.current_time() == 4.0
    clock.deadline_to_sleep_time(math.inf)
    with pytest.raises(NobodyWaitsError):
        clock.deadline_to_sleep_time(math.inf)
