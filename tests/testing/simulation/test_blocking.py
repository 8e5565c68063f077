"""Blocking code as tasks: it waits, fails and is cancelled like a thread's, and others run meanwhile."""

from __future__ import annotations

import pytest
import trio

from kwire.clock import Deadline
from kwire.mailbox import Mailbox
from kwire.testing.simulation.blocking import GreenletWaiter, in_application, maybe_yield, run_blocking, sleep
from kwire.testing.simulation.scheduler import VirtualTime, run_deterministically


def test_two_sleepers_take_turns_on_the_virtual_clock() -> None:
    told: list[tuple[str, float]] = []

    async def main(time: VirtualTime) -> None:
        def sleeper(name: str, seconds: float) -> None:
            for _ in range(2):
                sleep(seconds)
                told.append((name, time.now_ms()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_blocking, lambda: sleeper("slow", 40.0))
            nursery.start_soon(run_blocking, lambda: sleeper("fast", 30.0))

    run_deterministically(1, main)
    assert told == [("fast", 30_000.0), ("slow", 40_000.0), ("fast", 60_000.0), ("slow", 80_000.0)]


def test_results_and_errors_come_out() -> None:
    async def main(_time: VirtualTime) -> int:
        def fails() -> int:
            sleep(1.0)
            raise ValueError("as it should")

        with pytest.raises(ValueError, match="as it should"):
            await run_blocking(fails)
        return await run_blocking(lambda: 7)

    assert run_deterministically(1, main) == 7


def test_who_is_cancelled_ends_where_it_waits() -> None:
    ended: list[str] = []

    async def main(_time: VirtualTime) -> None:
        def waits() -> None:
            try:
                sleep(1_000.0)
            finally:
                ended.append("cleaned up")

        with trio.move_on_after(1.0):
            await run_blocking(waits)
        ended.append("outside")

    run_deterministically(1, main)
    assert ended == ["cleaned up", "outside"]


def test_what_must_happen_before_the_application_goes_on() -> None:
    order: list[str] = []

    async def main(_time: VirtualTime) -> None:
        async def thaw() -> None:
            order.append("thawed")

        def application() -> None:
            sleep(1.0)
            order.append("on")

        await run_blocking(application, thaw)

    run_deterministically(1, main)
    assert order == ["thawed", "on"]


def test_only_applications_are_overtaken() -> None:
    async def main(_time: VirtualTime) -> list[bool]:
        maybe_yield()  # in a task: nothing to hand over
        return [in_application(), await run_blocking(in_application)]

    assert run_deterministically(1, main) == [False, True]


def test_a_mailbox_wakes_and_times_out_as_with_threads() -> None:
    async def main(time: VirtualTime) -> list[float]:
        mailbox = Mailbox(GreenletWaiter)

        def application() -> list[float]:
            mailbox.wait(mailbox.signal(), Deadline.after(5_000))
            timed_out = time.now_ms()
            seen = mailbox.signal()
            mailbox.wait(seen, Deadline.after(60_000))
            mailbox.wait(seen, Deadline.after(60_000))  # signalled since: no wait at all
            return [timed_out, time.now_ms()]

        async def wake() -> None:
            await trio.sleep(7.0)
            mailbox.notify()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wake)
            return await run_blocking(application)

    assert run_deterministically(1, main) == [5_000.0, 7_000.0]


def test_a_waiter_is_a_lock() -> None:
    waiter = GreenletWaiter()
    with pytest.raises(RuntimeError):
        waiter.release()
    assert waiter.acquire()
    waiter.release()
    assert waiter.acquire()
