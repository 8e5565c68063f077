"""A simulated client process: it hosts a consumer's network loop as a task, and can be frozen and killed.

`Processes.host()` is put into the place of threads (`kwire.consumer.host`). A consumer belongs to the process whose
name is its `client_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import trio

from kwire.assignors.base import Assignor
from kwire.clock import Deadline
from kwire.config import ConsumerConfig
from kwire.consumer.host import Host
from kwire.errors import InternalError
from kwire.fetching.buffer import FetchBuffer
from kwire.mailbox import Mailbox
from kwire.network.loop import NetworkLoop, Waker
from kwire.network.run import make_loop
from kwire.network.transport import Transport
from kwire.testing.simulation.blocking import GreenletWaiter, in_application, run_blocking, wait_for
from kwire.testing.simulation.threads import GreenletQueue, GreenletThread


class Process:
    """A simulated process: its threads, its network loops, and its death.

    Args:
        on_death: called with the exception that has ended a network loop, which must never happen.
    """

    transport: Transport
    nursery: trio.Nursery

    def __init__(self, name: str, on_death: Callable[[Process, BaseException], None]) -> None:
        self.name = name
        self.on_death = on_death
        self.loops: list[NetworkLoop] = []
        self.is_killed = False
        self.has_ended = False
        self._tasks: set[trio.lowlevel.Task] = set()
        self._scope = trio.CancelScope()
        self._uncancelled: set[trio.CancelScope] = set()
        self._thawed: trio.Event | None = None
        self.settings: Mapping[str, object] = {}
        """The settings of security of its consumers."""
        self.on_waited: Callable[[], None] = _nothing
        """Called by the main thread when it goes on after a wait; what it raises comes out of that wait."""

    async def run(self, main: Callable[[], None]) -> None:
        """Run the application, which is blocking code, and whatever it starts, until it ends or is killed."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                self.nursery = nursery
                with self.running_here():
                    await run_blocking(main, self._before_main_goes_on)
                nursery.cancel_scope.cancel()
        self.has_ended = True

    @contextmanager
    def running_here(self) -> Iterator[None]:
        """Around what drives blocking code of this process: what that starts belongs to it."""
        task = trio.lowlevel.current_task()
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.remove(task)

    def is_running(self, task: trio.lowlevel.Task) -> bool:
        """Whether the task drives blocking code of this process."""
        return task in self._tasks

    @property
    def is_frozen(self) -> bool:
        return self._thawed is not None

    def freeze(self) -> None:
        """Stop the process, as SIGSTOP does; other processes go on."""
        self._thawed = self._thawed or trio.Event()

    def thaw(self) -> None:
        if self._thawed is not None:
            self._thawed.set()
            self._thawed = None

    async def while_frozen(self) -> None:
        """Called wherever a task of this process goes on after a wait."""
        while self._thawed is not None:
            await self._thawed.wait()

    async def until_thawed(self) -> None:
        """As `while_frozen`, of a task that others of its process may cancel: they are frozen, too."""
        if self._thawed is not None:
            with self.uncancelled():
                await self.while_frozen()

    @contextmanager
    def uncancelled(self) -> Iterator[None]:
        """What is awaited in it is cancelled by nobody of this process, only by its end."""
        scope = trio.CancelScope(shield=not self.is_killed)
        self._uncancelled.add(scope)
        try:
            with scope:
                yield
        finally:
            self._uncancelled.remove(scope)

    async def _before_main_goes_on(self) -> None:
        await self.while_frozen()
        self.on_waited()

    def impatient(self) -> list[str]:
        """The managers that broke the wait rule."""
        return [name for loop in self.loops for name in loop.impatient]

    def kill(self) -> None:
        """Kill the process, as SIGKILL does. The network closes its connections."""
        self.is_killed = True
        self._scope.cancel()
        for scope in self._uncancelled:
            scope.shield = False


def _nothing() -> None:
    """Nobody wants to know."""


class _FreezingWaker(Waker):
    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    async def sleep(self, duration_ms: float) -> None:
        await super().sleep(duration_ms)
        await self._process.while_frozen()


class TaskSide:
    """`network.thread.NetworkSide` as a task of a process."""

    def __init__(
        self,
        process: Process,
        config: ConsumerConfig,
        assignors: Sequence[Assignor],
        mailbox: Mailbox,
        buffer: FetchBuffer,
    ) -> None:
        self._process = process
        self._mailbox = mailbox
        self._ended = trio.Event()
        self._posted = trio.Event()
        self._scope = trio.CancelScope()
        mailbox.attach(self._note_post)
        waker = _FreezingWaker(process)
        self._loop = make_loop(
            config, assignors, mailbox, buffer, waker, client_id=process.name, transport=process.transport
        )

    def start(self) -> None:
        self._process.loops.append(self._loop)
        self._process.nursery.start_soon(self._main)
        self._process.nursery.start_soon(self._take_events)

    def join(self, deadline: Deadline) -> bool:
        if in_application():  # tasks have nobody to hold up, and have waited before
            wait_for(lambda: self._wait_for_end(deadline.remaining_ms() / 1000.0))
        return self._ended.is_set()

    def _note_post(self) -> None:
        self._posted.set()

    async def _take_events(self) -> None:
        """What trio's task for calls of other threads does."""
        with self._scope:
            while True:
                await self._posted.wait()
                self._posted = trio.Event()
                await self._process.while_frozen()
                self._loop.turn_now()

    async def _wait_for_end(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._ended.wait()

    async def _main(self) -> None:
        try:
            await self._loop.run()
        except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
            failure = InternalError(f"the network loop has died: {error!r}")
            failure.__cause__ = error
            self._mailbox.fail(failure)
            self._process.on_death(self._process, error)
        finally:
            self._mailbox.attach(None)
            self._scope.cancel()
            self._ended.set()
            self._mailbox.notify()


class Processes:
    """The client processes of a world, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Process] = {}

    def add(self, process: Process) -> None:
        self._by_name[process.name] = process

    def host(self) -> Host:
        """To be current while consumers are made."""
        return Host(self._new_network_side, GreenletWaiter, GreenletQueue, self._start_thread)

    def _start_thread(self, main: Callable[[], None], _name: str) -> GreenletThread:
        """In the process whose code is running."""
        task = trio.lowlevel.current_task()
        process = next(process for process in self._by_name.values() if process.is_running(task))
        return GreenletThread(process, main)

    def _new_network_side(
        self,
        config: ConsumerConfig,
        assignors: Sequence[Assignor],
        mailbox: Mailbox,
        buffer: FetchBuffer,
        *,
        client_id: str,
    ) -> TaskSide:
        return TaskSide(self._by_name[client_id], config, assignors, mailbox, buffer)
