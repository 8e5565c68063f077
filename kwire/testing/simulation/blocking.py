"""Code that blocks, as a task among tasks: each "application thread" of a world is a greenlet that a trio task drives.

The blocking code runs until it has to wait; then it hands an awaitable to its task, which awaits it and switches back
with the result. So the very code that users run in threads runs here, one piece at a time, in an order that can be
repeated. `run_blocking` is called by the world; `wait_for` by what replaces the locks and sleeps of real threads.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
from greenlet import getcurrent, greenlet

from kwire.testing.simulation.virtual_clock import Sleeper

T = TypeVar("T")


async def _at_once() -> None:
    """Does not wait: nothing keeps the application from going on."""


async def run_blocking(function: Callable[[], T], before_it_goes_on: Callable[[], Awaitable[None]] = _at_once) -> T:
    """Run the function to its end, with other tasks in between. Returns or raises what it does.

    Args:
        before_it_goes_on: awaited after each wait, however it ended.
    """
    result: list[T] = []
    worker = greenlet(lambda: result.append(function()))
    request = worker.switch()
    while not worker.dead:
        try:
            answer = await request()
            await before_it_goes_on()
        except BaseException as error:  # noqa: BLE001  belongs to the waiting thread, cancellation included
            request = worker.throw(error)
        else:
            request = worker.switch(answer)
    return result[0]


def in_application() -> bool:
    """Whether the caller is blocking code that may wait here, and not a task."""
    return getcurrent().parent is not None


def wait_for(wait: Callable[[], Awaitable[T]]) -> T:
    """Await from blocking code. Only inside `run_blocking`."""
    task = getcurrent().parent
    assert task is not None, "only code inside run_blocking can wait"
    answer: T = task.switch(wait)
    return answer


def sleep(seconds: float) -> None:
    """Sleep, as `time.sleep` in a thread."""
    wait_for(lambda: Sleeper().sleep(trio.current_time() + seconds))


def maybe_yield() -> None:
    """Let other tasks run first, if the caller is blocking code that may be preempted here."""
    if in_application():
        wait_for(trio.lowlevel.checkpoint)


class GreenletWaiter:
    """`mailbox.Waiter` of an application in a greenlet."""

    def __init__(self) -> None:
        self._is_held = False
        self._sleeper = Sleeper()

    def acquire(self, *, timeout: float = -1) -> bool:
        if not self._is_held:
            self._is_held = True
            return True
        wait_for(lambda: self._sleeper.sleep(math.inf if timeout < 0 else trio.current_time() + timeout))
        was_released, self._is_held = not self._is_held, True
        return was_released

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("nobody sleeps here")
        self._is_held = False
        self._sleeper.wake()
