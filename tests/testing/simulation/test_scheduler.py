"""A seed decides the order of things, time passes only when everybody waits, and nothing is left behind."""

from __future__ import annotations

import gc
import threading
import time
from uuid import UUID

import pytest
import trio

from kwire import clock
from kwire.clock import Deadline, chance, monotonic_ms, new_uuid, secure_random_bytes, wall_clock_ms
from kwire.testing.cluster.state import EPOCH_MS
from kwire.testing.simulation.scheduler import StandstillError, VirtualTime, run_deterministically


def order_of(seed: int) -> list[int]:
    told: list[int] = []

    async def main(_time: VirtualTime) -> None:
        async def tell(number: int) -> None:
            for _ in range(3):
                await trio.lowlevel.checkpoint()
                told.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(tell, number)

    run_deterministically(seed, main)
    return told


def test_the_order_of_tasks_is_the_seeds() -> None:
    assert order_of(1) == order_of(1)
    assert order_of(1) != order_of(2)


def test_time_and_chance_are_the_worlds_inside_and_the_machines_outside() -> None:
    async def main(virtual: VirtualTime) -> tuple[float, int, float, UUID, bytes]:
        before_ms = monotonic_ms()
        await trio.sleep(3_600.0)
        assert virtual.now_ms() == 3_600_000.0
        return monotonic_ms() - before_ms, wall_clock_ms(), chance(), new_uuid(), secure_random_bytes(8)

    began = time.monotonic()
    first, second = run_deterministically(5, main), run_deterministically(5, main)
    assert first == second
    assert first[:2] == (3_600_000.0, EPOCH_MS + 3_600_000)
    assert time.monotonic() - began < 60, "an hour has passed in no time"
    assert abs(monotonic_ms() - time.monotonic() * 1_000) < 1_000
    assert new_uuid() != new_uuid()
    assert secure_random_bytes(8) != secure_random_bytes(8)


def test_threads_beside_a_world_keep_the_machines_time_and_change_nothing() -> None:
    """Once, a cluster of another test's that did something meanwhile drew from the world's chance."""

    async def main(_virtual: VirtualTime) -> list[object]:
        drawn: list[object] = []
        for _ in range(20):
            thread = threading.Thread(target=live_beside)
            thread.start()
            thread.join()
            drawn += [monotonic_ms(), chance(), new_uuid(), trio._core._run._r.random()]
        return drawn

    def live_beside() -> None:
        for _ in range(1 if quietly else 7):
            seen.append((monotonic_ms(), wall_clock_ms(), chance(), new_uuid()))
            trio.run(trio.lowlevel.checkpoint)

    seen: list[tuple[float, int, float, UUID]] = []
    quietly = True
    first = run_deterministically(5, main)
    quietly = False
    assert run_deterministically(5, main) == first
    assert all(abs(at_ms - time.monotonic() * 1_000) < 60_000 for at_ms, *_ in seen)
    assert len({number for _, _, number, _ in seen}) == len({uuid for *_, uuid in seen}) == len(seen)


def test_the_wall_clock_may_step_and_deadlines_do_not_mind() -> None:
    async def main(virtual: VirtualTime) -> tuple[int, float]:
        deadline = Deadline.after(1_000)
        virtual.wall_clock_step_ms = -3_600_000
        return wall_clock_ms() - EPOCH_MS, deadline.remaining_ms()

    assert run_deterministically(1, main) == (-3_600_000, 1_000.0)


def test_a_loop_that_does_not_wait_is_found() -> None:
    async def main(virtual: VirtualTime) -> None:
        virtual.allowed_reads = 1_000
        while True:
            monotonic_ms()
            await trio.lowlevel.checkpoint()

    with pytest.raises(StandstillError, match=r"times at 0\.000 ms"):
        run_deterministically(1, main)


def test_a_world_that_fails_leaves_no_trace() -> None:
    async def main(_time: VirtualTime) -> None:
        raise ValueError("as it should")

    deterministic = trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING  # hypothesis may have set it
    source = clock.install(clock.TimeSource())
    clock.install(source)
    with pytest.raises(ValueError, match="as it should"):
        run_deterministically(1, main)
    assert clock.install(source) is source
    assert gc.isenabled()
    assert trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING is deterministic
