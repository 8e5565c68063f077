"""The cluster's clockwork: what is due is done at its time, also when a request brings it nearer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio
import trio.testing

from kwire.testing.cluster.timers import Timers

if TYPE_CHECKING:
    from tests.testing.cluster.in_memory import in_trio
else:
    from in_memory import in_trio


class Due:
    """Something that wants to be called at certain times."""

    def __init__(self, *at_ms: float) -> None:
        self.at_ms = sorted(at_ms)
        self.done_at_ms: list[float] = []

    def expire(self, now_ms: float) -> float:
        while self.at_ms and self.at_ms[0] <= now_ms:
            self.at_ms.pop(0)
            self.done_at_ms.append(now_ms)
        return self.at_ms[0] if self.at_ms else math.inf


def now_ms() -> float:
    return trio.current_time() * 1000


@in_trio
async def test_everybody_is_called_when_something_of_theirs_is_due(nursery: trio.Nursery) -> None:
    timers, first, second = Timers(now_ms), Due(1_000, 3_000), Due(2_000)
    timers.add(first.expire)
    timers.add(second.expire)
    nursery.start_soon(timers.run)
    await trio.sleep(10)
    assert (first.done_at_ms, second.done_at_ms) == ([1_000, 3_000], [2_000])


@in_trio
async def test_a_look_finds_what_has_come_nearer(nursery: trio.Nursery) -> None:
    timers, due = Timers(now_ms), Due(60_000)
    timers.add(due.expire)
    nursery.start_soon(timers.run)
    await trio.testing.wait_all_tasks_blocked()
    due.at_ms.insert(0, 500)
    timers.look()
    await trio.sleep(10)
    assert due.done_at_ms == [500]
