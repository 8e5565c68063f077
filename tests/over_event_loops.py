"""`AsyncConsumer` behind the methods of `Consumer`, so that tests of the one try the other (`--facade`).

Each thread of a test has an agent, a task of one event loop, which makes its calls: so tasks stand where threads stood.
A callback goes the other way. The agent that awaits it hands it to its thread, which runs it while it waits for its
call to end, and may call again: then the agent makes that call inside the callback, as the thread would.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

import trio

from kwire import AsyncConsumer, AsyncRebalanceListener, Consumer
from kwire.consumer.listener import checked_listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from types import TracebackType

    from kwire import RebalanceListener, Record

FACADES = ("sync", "asyncio", "trio")


@dataclass(slots=True, eq=False)
class Call:
    """What a thread wants its agent to do; None: the callback that it ran is over."""

    function: Callable[[], object] | None
    result: object = None
    error: BaseException | None = None


@dataclass(slots=True, eq=False)
class Callback:
    """What an agent wants its thread to run."""

    function: Callable[[], object]


class Calls(Protocol):
    """Where an agent gets its calls from."""

    def put(self, call: Call) -> None:
        """From any thread."""

    async def get(self) -> Call: ...

    def interrupt(self) -> None:
        """Cancel the call under way, as a Ctrl-C does. From any thread."""

    async def make(self, call: Call) -> None:
        """Make the call, and note what came of it."""


@dataclass(eq=False)
class Agent:
    """A task that makes one thread's calls."""

    calls: Calls
    answers: SimpleQueue[Call | Callback] = field(default_factory=SimpleQueue)

    async def serve(self) -> None:
        """For ever."""
        _agent.set(self)
        while True:
            await self._make(await self.calls.get())

    async def call_back(self, function: Callable[[], object]) -> None:
        """Have the thread run this, and make the calls that it makes meanwhile."""
        self.answers.put(Callback(function))
        while (call := await self.calls.get()).function is not None:
            await self._make(call)
        if call.error is not None:
            raise call.error

    async def _make(self, call: Call) -> None:
        await self.calls.make(call)
        call.function = None  # the thread goes on before this frame ends, and may count on nobody holding its consumer
        self.answers.put(call)

    def do(self, function: Callable[[], object]) -> object:
        """In the agent's thread: have the agent do this, and run the callbacks that come of it."""
        self.calls.put(Call(function))
        interrupt: BaseException | None = None
        while True:
            try:
                answer = self.answers.get()
            except BaseException as error:  # noqa: BLE001  of a signal handler: the call ends first
                interrupt = error
                self.calls.interrupt()
                continue
            if isinstance(answer, Callback):
                self.calls.put(self._run(answer))
                continue
            if (struck := interrupt or answer.error) is not None:
                raise struck
            return answer.result

    @staticmethod
    def _run(callback: Callback) -> Call:
        ended = Call(None)
        try:
            callback.function()
        except BaseException as error:  # noqa: BLE001  raised where the agent awaits it
            ended.error = error
        return ended


_agent: ContextVar[Agent] = ContextVar("agent")


async def _finished(result: object) -> object:
    return await result if inspect.isawaitable(result) else result


class AsyncioCalls:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._queue: asyncio.Queue[Call] = asyncio.Queue()
        self._depth = 0
        self._is_interrupted = False

    def put(self, call: Call) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, call)

    async def get(self) -> Call:
        return await self._queue.get()

    def interrupt(self) -> None:
        self._loop.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        assert self._task is not None
        if self._depth:
            self._is_interrupted = True
            self._task.cancel()

    async def make(self, call: Call) -> None:
        assert call.function is not None
        assert self._task is not None
        self._depth += 1
        try:
            call.result = await _finished(call.function())
        except asyncio.CancelledError as error:
            if self._is_interrupted:
                self._task.uncancel()
                self._is_interrupted = False
            call.error = error
        except Exception as error:  # noqa: BLE001  raised in the thread
            call.error = error
        finally:
            self._depth -= 1


class TrioCalls:
    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._send, self._receive = trio.open_memory_channel[Call](float("inf"))
        self._scopes: list[trio.CancelScope] = []

    def put(self, call: Call) -> None:
        self._token.run_sync_soon(self._send.send_nowait, call)

    async def get(self) -> Call:
        return await self._receive.receive()

    def interrupt(self) -> None:
        self._token.run_sync_soon(lambda: self._scopes[-1].cancel() if self._scopes else None)

    async def make(self, call: Call) -> None:
        assert call.function is not None
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            try:
                call.result = await _finished(call.function())
            except Exception as error:  # noqa: BLE001  raised in the thread
                call.error = error
            finally:
                self._scopes.pop()
        if scope.cancelled_caught:
            call.error = KeyboardInterrupt()


class EventLoopThread(Protocol):
    """An event loop in a thread of its own, for the whole run."""

    def new_agent(self) -> Agent: ...

    def run(self, function: Callable[[], object]) -> object:
        """Call this on the loop, at once."""


class AsyncioThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []
        threading.Thread(target=self._loop.run_forever, name="asyncio", daemon=True).start()

    def new_agent(self) -> Agent:
        return asyncio.run_coroutine_threadsafe(self._new_agent(), self._loop).result()

    async def _new_agent(self) -> Agent:
        made: asyncio.Future[Agent] = self._loop.create_future()

        async def serve() -> None:
            agent = Agent(AsyncioCalls())
            made.set_result(agent)
            await agent.serve()

        self._tasks.append(asyncio.create_task(serve()))
        return await made


class TrioThread:
    def __init__(self) -> None:
        ready = threading.Event()
        threading.Thread(target=trio.run, args=(self._main, ready), name="trio", daemon=True).start()
        ready.wait()

    async def _main(self, ready: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self._nursery:
            ready.set()
            await trio.sleep_forever()

    def new_agent(self) -> Agent:
        agent: Agent = trio.from_thread.run(self._nursery.start, self._serve, trio_token=self._token)
        return agent

    @staticmethod
    async def _serve(*, task_status: trio.TaskStatus[Agent]) -> None:
        agent = Agent(TrioCalls())
        task_status.started(agent)
        await agent.serve()


@cache
def event_loop_thread(facade: str) -> AsyncioThread | TrioThread:
    """One for all tests of a process."""
    return AsyncioThread() if facade == "asyncio" else TrioThread()


class Listener(AsyncRebalanceListener):
    """Has the thread that polls run the methods of a listener of `Consumer`."""

    def __init__(self, users: RebalanceListener) -> None:
        self.users = users

    async def on_partitions_assigned(self, consumer: object, partitions: object) -> None:
        await self._call("on_partitions_assigned", consumer, partitions)

    async def on_partitions_revoked(self, consumer: object, partitions: object) -> None:
        await self._call("on_partitions_revoked", consumer, partitions)

    async def on_partitions_lost(self, consumer: object, partitions: object) -> None:
        await self._call("on_partitions_lost", consumer, partitions)

    async def _call(self, method: str, consumer: object, partitions: object) -> None:
        agent = _agent.get()
        await agent.call_back(partial(getattr(self.users, method), View(consumer), partitions))


class View:
    """What a callback is given, behind the methods of `Consumer`."""

    def __init__(self, consumer: object) -> None:
        self._consumer = consumer

    def __getattr__(self, name: str) -> Callable[..., object]:
        return partial(_call, getattr(self._consumer, name))


_threads = threading.local()
_facade = ["asyncio"]


def _own_agent() -> Agent:
    agents: dict[str, Agent] = _threads.__dict__.setdefault("agents", {})
    facade = _facade[0]
    if facade not in agents:
        agents[facade] = event_loop_thread(facade).new_agent()
    return agents[facade]


def _call(method: Callable[..., object], *args: object, **kwargs: object) -> object:
    if (callback := kwargs.get("callback")) is not None and callable(callback) and not _is_wrong(callback):

        async def call_back(offsets: object, error: object) -> None:
            await _agent.get().call_back(partial(callback, offsets, error))

        kwargs["callback"] = call_back
    return _own_agent().do(partial(method, *args, **kwargs))


def _is_wrong(callback: Callable[..., object]) -> bool:
    try:
        inspect.signature(callback).bind(1, 2)
    except TypeError:
        return True
    except ValueError:
        return False
    return inspect.iscoroutinefunction(callback)


class OverEventLoop:
    """A `Consumer` that is an `AsyncConsumer`."""

    _anywhere = frozenset(("config", "wakeup", "metrics", "_session", "_guard", "rebalance_listener"))

    def __class_getitem__(cls, _: object) -> type[OverEventLoop]:
        return cls

    def __init__(self, *topics: str, config: Mapping[str, object] | None = None, **settings: object) -> None:
        self._consumer: AsyncConsumer = AsyncConsumer(config={**(config or {}), **settings})
        if topics:
            try:
                self.subscribe(topics)
            except BaseException:
                self.close()
                raise

    def subscribe(self, topics: object, *, listener: RebalanceListener | None = None) -> None:
        listening = None if listener is None else Listener(checked_listener(listener))
        _call(self._consumer.subscribe, topics, listener=listening)

    def __getattr__(self, name: str) -> Callable[..., object]:
        found: Callable[..., object] = getattr(self._consumer, name)
        return found if name in self._anywhere else partial(_call, found)

    def __iter__(self) -> Iterator[Record[bytes, bytes]]:
        records: AsyncIterator[Record[bytes, bytes]] = aiter(self._consumer)
        while True:
            try:
                yield _call(records.__anext__)  # type: ignore[misc]  # it is a record
            except StopAsyncIteration:
                return

    def __enter__(self) -> OverEventLoop:
        _call(self._consumer.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _call(self._consumer.__aexit__, kind, error, trace)

    def __repr__(self) -> str:
        return repr(self._consumer)


def consumer_class(facade: str) -> type[Consumer[bytes, bytes]]:
    """What stands in the place of `Consumer`."""
    if facade == "sync":
        return Consumer
    _facade[0] = facade
    event_loop_thread(facade)
    return OverEventLoop  # type: ignore[return-value]  # it has its methods
