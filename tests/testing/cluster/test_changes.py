"""Waiting for changes: nothing is missed, nothing is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kwire.testing.cluster.changes import Changes

if TYPE_CHECKING:
    from tests.testing.cluster.in_memory import in_trio
else:
    from in_memory import in_trio


@in_trio
async def test_a_change_wakes_who_waits_for_it_and_nobody_else(nursery: trio.Nursery) -> None:
    changes = Changes()
    woken: list[str] = []

    async def wait(key: str) -> None:
        await changes.wait(key)
        woken.append(key)

    nursery.start_soon(wait, "a")
    nursery.start_soon(wait, "b")
    await trio.testing.wait_all_tasks_blocked()
    changes.notify("b")
    await trio.testing.wait_all_tasks_blocked()
    assert woken == ["b"]


@in_trio
async def test_waiting_ends_when_its_time_is_over_and_leaves_nothing_behind(nursery: trio.Nursery) -> None:
    changes = Changes()
    began_s = trio.current_time()
    assert not await changes.wait_any(["a", "b"], timeout_ms=1500)
    assert trio.current_time() - began_s == 1.5
    assert not changes._waiting


@in_trio
async def test_one_of_many_keys_is_enough(nursery: trio.Nursery) -> None:
    changes = Changes()

    async def notify_later() -> None:
        await trio.sleep(1)
        changes.notify("c")

    nursery.start_soon(notify_later)
    assert await changes.wait_any(["a", "b", "c"], timeout_ms=5000)
    assert trio.current_time() < 5
    assert not changes._waiting


@in_trio
async def test_no_time_is_no_wait(nursery: trio.Nursery) -> None:
    assert not await Changes().wait("a", timeout_ms=0)
