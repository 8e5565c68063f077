"""How the loop sleeps while turns are taken in other tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kwire.network.loop import Waker

if TYPE_CHECKING:
    from tests.network.conftest import InVirtualTime


def test_a_sleep_can_be_cut_short_but_not_made_longer(in_virtual_time: InVirtualTime) -> None:
    """A turn in another task may find that something is due sooner. What is due later the loop finds out by itself."""

    async def slept_s(*at_most_ms: float) -> float:
        waker = Waker()
        started_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waker.sleep, 1_000.0)
            await trio.testing.wait_all_tasks_blocked()
            for duration_ms in at_most_ms:
                waker.sleep_at_most(duration_ms)
        return round(trio.current_time() - started_s, 6)

    async def scenario() -> None:
        assert await slept_s() == 1
        assert await slept_s(200) == 0.2
        assert await slept_s(200, 5_000) == 0.2
        assert await slept_s(-5) == 0

    in_virtual_time(scenario)


def test_who_is_awake_is_not_asleep(in_virtual_time: InVirtualTime) -> None:
    """A task with news takes no turn of its own then: the loop's is due."""

    async def scenario() -> None:
        waker = Waker()
        seen = [waker.is_asleep]
        waker.sleep_at_most(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waker.sleep, 1_000.0)
            await trio.testing.wait_all_tasks_blocked()
            seen.append(waker.is_asleep)
            waker.wake()
            seen.append(waker.is_asleep)
        assert [*seen, waker.is_asleep] == [False, True, False, False]

    in_virtual_time(scenario)
