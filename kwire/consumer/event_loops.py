"""Drives a call's steps on an event loop, asyncio's or trio's: the calling task awaits where a thread would sleep.

No thread is needed for that. A task that waits registers with the mailbox; a signal, mostly of the network thread,
makes the loop wake the task. Neither library is loaded before it is in use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from inspect import GEN_CLOSED, getgeneratorstate
from typing import TYPE_CHECKING, Protocol, TypeVar

from kwire.consumer.steps import Await, Steps, Wait
from kwire.errors import IllegalStateError
from kwire.fetching.columns import Records
from kwire.mailbox import Mailbox
from kwire.model import Record

if TYPE_CHECKING:
    import asyncio

    import trio

T = TypeVar("T")

# Neither loop's timers take infinity.
MAX_WAIT_S = 86_400.0


class Turn(Protocol):
    """The right to make a call, which others want as well."""

    def leave(self) -> None: ...

    def take_at_once(self) -> bool:
        """Take it, if nobody else has it or goes first; whether the caller has it now."""
        ...

    def take(self) -> Steps[None]:
        """Wait until nobody else has it or goes first, and take it."""
        ...


class EventLoop(Protocol):
    """A running event loop that a consumer is used on."""

    def is_current(self) -> bool:
        """Whether the caller runs on it."""
        ...

    def is_over(self) -> bool:
        """Whether nothing can run on it any more, as far as it can be told."""
        ...

    def current_task(self) -> object: ...

    def tasks(self) -> list[tuple[object, str]]:
        """Those that can be found, and their names."""
        ...

    def has_returned(self, task: object) -> bool:
        """Whether it is known that the task is done with its records: it came to its end, not by an error, not by a
        cancellation, and has passed them on to nobody."""
        ...

    def cancellations(self, task: object) -> int:
        """How often the task was told to end, without those times that were taken back, as by `asyncio.timeout`."""
        ...

    async def wait(self, mailbox: Mailbox, wait: Wait) -> None:
        """Let other tasks run, until something is signalled after `wait.seen`, or its deadline."""
        ...

    def shield(self) -> AbstractContextManager[object]:
        """Within it a cancellation that was told already is not told again."""
        ...


async def run_awaiting(mailbox: Mailbox, steps: Steps[T], loop: EventLoop, turn: Turn | None = None) -> T:
    """Drive the steps to their end in the calling task, and answer their result.

    A cancellation is raised inside them, where they wait: they may have something to undo, or to finish first.

    Args:
        turn: The turn that the call has; it is left to others while the steps are idle.
    """
    struck: BaseException | None = None
    shield: Callable[[], AbstractContextManager[object]] = nullcontext
    try:
        while True:
            try:
                step = next(steps) if struck is None else steps.throw(struck)
                struck = None
                with shield():
                    await _done(step, mailbox, loop, turn)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what a generator returns is typed in Steps alone
            except BaseException as error:
                if getgeneratorstate(steps) == GEN_CLOSED:  # raised by the steps themselves
                    raise
                struck = error
                if not isinstance(error, Exception):
                    shield = loop.shield  # trio and anyio cancel each wait that follows as well
    finally:
        struck = None  # its traceback holds this frame


async def _done(step: Wait | Await, mailbox: Mailbox, loop: EventLoop, turn: Turn | None) -> None:
    if isinstance(step, Await):
        await step.result
    elif turn is None or not step.is_idle:
        await loop.wait(mailbox, step)
    else:
        turn.leave()
        await loop.wait(mailbox, step)
        if not turn.take_at_once():
            await run_awaiting(mailbox, turn.take(), loop)


def running_loop() -> EventLoop:
    """The event loop that the caller runs on.

    Raises:
        IllegalStateError: It runs on none.
    """
    asyncio, trio = sys.modules.get("asyncio"), sys.modules.get("trio")
    if asyncio is not None and not _is_in_trio_task() and (loop := asyncio._get_running_loop()) is not None:
        return AsyncioLoop(loop)
    if trio is not None and trio.lowlevel.in_trio_run():
        return TrioLoop(trio.lowlevel.current_trio_token())
    raise IllegalStateError(
        "there is no running event loop here: an AsyncConsumer, or run_async(), wants a task of asyncio or trio"
    )


def _is_in_trio_task() -> bool:
    """Whether the caller is a task of trio, which may run as a guest of asyncio's loop. That loop runs then as well,
    but no task of it. A task of trio-asyncio is a task of both, and counts as asyncio's."""
    asyncio, trio = sys.modules.get("asyncio"), sys.modules.get("trio")
    if trio is None or not trio.lowlevel.in_trio_task():
        return False
    return asyncio is None or asyncio._get_running_loop() is None or asyncio.current_task() is None


class _Sleeper:
    """A waiter of the mailbox: wakes the task on its loop, once. Used under the mailbox's lock."""

    __slots__ = ("_is_up", "_wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._is_up = False

    def release(self) -> None:
        """Raises RuntimeError if it is up already, or its loop has ended."""
        if self._is_up:
            raise RuntimeError("it is up")
        self._is_up = True
        self._wake()


class AsyncioLoop:
    """asyncio's, or one that stands in its place, such as uvloop's.

    Attributes:
        loop: As given.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        self.loop = loop
        self._asyncio = asyncio

    def is_current(self) -> bool:
        return self._asyncio._get_running_loop() is self.loop and not _is_in_trio_task()

    def is_over(self) -> bool:
        return self.loop.is_closed()

    def current_task(self) -> object:
        return self._asyncio.current_task(self.loop)

    def has_returned(self, task: object) -> bool:
        """False of a task that has returned records: it has polled for another task, as `create_task(consumer.poll())`
        and Python 3.11's `wait_for` do. `task.exception()` is not asked: it would mark the error as retrieved."""
        assert isinstance(task, self._asyncio.Task)
        if not task.done() or task.cancelled() or task._exception is not None:
            return False
        return not isinstance(task.result(), Records | Record)

    def cancellations(self, task: object) -> int:
        return task.cancelling() if isinstance(task, self._asyncio.Task) else 0

    async def wait(self, mailbox: Mailbox, wait: Wait) -> None:
        if mailbox.signal() != wait.seen:
            await self._asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = self.loop.create_future()
        sleeper = _Sleeper(lambda: self.loop.call_soon_threadsafe(_set, woken))
        mailbox.add_waiter(sleeper, wait.reply)
        timer = self.loop.call_later(_seconds(wait), _set, woken)
        try:
            if mailbox.signal() == wait.seen:
                await woken
        finally:
            timer.cancel()
            mailbox.remove_waiter(sleeper)

    def shield(self) -> AbstractContextManager[object]:
        """asyncio tells of a cancellation once. anyio, which many have beneath their web service, does so at each wait,
        as trio does."""
        anyio = sys.modules.get("anyio")
        shield: AbstractContextManager[object] = nullcontext() if anyio is None else anyio.CancelScope(shield=True)
        return shield

    def tasks(self) -> list[tuple[object, str]]:
        return [(task, task.get_name()) for task in self._asyncio.all_tasks(self.loop)]


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


class TrioLoop:
    """trio's."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        import trio

        self._token = token
        self._trio = trio

    def is_current(self) -> bool:
        return self._trio.lowlevel.in_trio_run() and self._trio.lowlevel.current_trio_token() is self._token

    def is_over(self) -> bool:
        """False: trio does not say so."""
        return False

    def current_task(self) -> object:
        return self._trio.lowlevel.current_task()

    def has_returned(self, task: object) -> bool:  # noqa: ARG002
        """False: a task of trio says that it has ended, and not why."""
        return False

    def cancellations(self, task: object) -> int:  # noqa: ARG002
        """None: who catches trio's, and does not hand it on, is told by trio."""
        return 0

    async def wait(self, mailbox: Mailbox, wait: Wait) -> None:
        if mailbox.signal() != wait.seen:
            await self._trio.lowlevel.checkpoint()
            return
        woken = self._trio.Event()
        sleeper = _Sleeper(lambda: self._token.run_sync_soon(woken.set))
        mailbox.add_waiter(sleeper, wait.reply)
        try:
            if mailbox.signal() == wait.seen:
                with self._trio.move_on_after(_seconds(wait)):
                    await woken.wait()
        finally:
            mailbox.remove_waiter(sleeper)

    def shield(self) -> AbstractContextManager[object]:
        return self._trio.CancelScope(shield=True)

    def tasks(self) -> list[tuple[object, str]]:
        """The one that runs: trio has no list."""
        task = self._trio.lowlevel.current_task()
        return [(task, task.name)]


def _seconds(wait: Wait) -> float:
    return min(wait.deadline.remaining_ms() / 1000.0, MAX_WAIT_S)
