"""Where snippets run: a Kafka in the process with records in it, and what pages take for given, such as `bill`."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import confluent_kafka
import prometheus_client
import pytest
from confluent_kafka import Producer

import kwire
from kwire import AsyncConsumer, Consumer, Record, Records, TopicPartition
from kwire.processing import Processor
from kwire.testing import Cluster, NewRecord

if TYPE_CHECKING:
    from tests.docs.snippets import Snippet, free_names
else:
    from snippets import Snippet, free_names

PAGE_ADDRESS = "localhost:9092"
TOPICS = {"orders": 3, "positions": 3, "prices": 1, "orders-dead": 1, "bills": 1}
RECORDS = 12
PATIENCE_S = 20.0
OF_THIS_CLUSTER = (Consumer, AsyncConsumer, Records, Producer)  # later snippets have another one
SHORT_POLL_S = 0.2
GROUP = {"group_id": "billing", "auto_offset_reset": "earliest", "enable_auto_commit": False}


class EnoughError(BaseException):
    """A loop without an end has had all records. No `Exception`: snippets and workers must not catch it."""


class World:
    """One snippet's cluster, and what it finds there.

    Attributes:
        handled: How many records its handlers have had.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.handled = 0
        self._is_told = threading.Condition()
        self._opened: list[Consumer[bytes, bytes]] = []
        for number in range(RECORDS):
            record = NewRecord(key=f"user-{number % 4}".encode(), value=b"order %d" % number)
            for topic in ("orders", "positions"):
                cluster.produce(topic, record, partition=number % 3)
        cluster.produce("prices", NewRecord(key=b"tea", value=b'{"item": "tea", "cents": 250}'))

    # --- what pages take for given --------------------------------------------------------------------------------

    def given(self, wanted: set[str]) -> dict[str, object]:
        """Those of the names that there are."""
        makers = self._makers()
        return {name: makers[name]() for name in wanted & makers.keys()}

    @classmethod
    def names(cls) -> set[str]:
        return set(cls._makers(object.__new__(cls)))

    def _makers(self) -> Mapping[str, Callable[[], object]]:
        taken = dict.fromkeys(("bill", "process", "store", "show", "handle_many"), lambda: self.take)
        awaited = dict.fromkeys(("bill_async", "post"), lambda: self.take_async)
        return {
            **taken,
            **awaited,
            "Consumer": lambda: Consumer,
            "AsyncConsumer": lambda: AsyncConsumer,
            "Cursor": lambda: kwire.Cursor,
            "cluster": lambda: self.cluster,
            "consumer": self.open_consumer,
            "in_work": lambda: lambda: frozenset({TopicPartition("orders", 0)}),
            "kafka_cluster": lambda: self.cluster,
            "kwire": lambda: kwire,
            "os": lambda: os,
            "producer": self.open_producer,
            "records": lambda: self.open_consumer().poll(PATIENCE_S),
            "serve": lambda: self.serve,
            "settings": lambda: {"bootstrap_servers": self.cluster.bootstrap_servers, "auto_offset_reset": "earliest"},
            "wait_for_the_end": lambda: self.wait_for_all,
        }

    def take(self, what: object = None, /, **settings: str) -> int:
        """Any handler: of a record, of a list, of a poll; or a whole program, of which a test says what it reads."""
        if settings:
            with Consumer[bytes, bytes]({**GROUP, **settings}, "orders") as consumer:
                records = consumer.poll(PATIENCE_S)
                consumer.commit_sync()
            return len(records)
        with self._is_told:
            self.handled += 1 if isinstance(what, Record | bytes | None) else len(list(what))  # type: ignore[call-overload]
            self._is_told.notify_all()
        return 0

    async def take_async(self, what: object = None) -> None:
        self.take(what)
        await asyncio.sleep(0)

    def wait_for_all(self) -> None:
        with self._is_told:
            assert self._is_told.wait_for(lambda: self.handled >= RECORDS, PATIENCE_S), f"only {self.handled} came"

    async def serve(self) -> None:
        await asyncio.to_thread(self.wait_for_all)

    def open_consumer(self) -> Consumer[bytes, bytes]:
        opened: Consumer[bytes, bytes] = Consumer(
            {"bootstrap_servers": self.cluster.bootstrap_servers, **GROUP}, "orders"
        )
        self._opened.append(opened)
        return opened

    def open_producer(self) -> object:
        return Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})

    def close(self) -> None:
        for consumer in self._opened:
            consumer.close()


# --- running --------------------------------------------------------------------------------------------------------


class _Local(ast.NodeTransformer):
    """The snippet, but at this cluster, and from the first record on where it does not say."""

    def __init__(self, address: str) -> None:
        self._address = address

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            return ast.copy_location(ast.Constant(node.value.replace(PAGE_ADDRESS, self._address)), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if getattr(node.func, "id", "") in ("Consumer", "AsyncConsumer"):
            said = {keyword.arg for keyword in node.keywords}
            has_more = bool({None, "config"} & said) or any(not isinstance(one, ast.Constant) for one in node.args)
            defaults = {"bootstrap_servers": self._address, "auto_offset_reset": "earliest"}
            for name, value in defaults.items():
                if name not in said and not has_more:
                    node.keywords.append(ast.keyword(name, ast.Constant(value)))
        return ast.fix_missing_locations(node)


def run(snippet: Snippet, before: Mapping[str, object]) -> dict[str, object]:
    """Run it to its end, or until a loop without one has had all records.

    Args:
        snippet: What to run.
        before: Names that earlier snippets of its page have made.

    Returns:
        The names that it has made.
    """
    with Cluster(topics=TOPICS) as cluster, contextlib.closing(World(cluster)) as world, _restored(world):
        names: dict[str, object] = {"__name__": "snippet", **before}
        given = world.given(free_names(snippet.code) - before.keys())
        if "await bill(" in snippet.code or "run_async" in snippet.code:
            given["bill"] = world.take_async
        names |= given
        tree = _Local(cluster.bootstrap_servers).visit(ast.parse(snippet.code))
        code = compile(tree, str(snippet), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        with _ended(world, snippet.code), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(EnoughError):
            _call(eval(code, names))
            _call_what_it_defines(names, snippet.code, world)
        for consumer in [value for value in names.values() if isinstance(value, Consumer)]:
            consumer.close()  # pages show how one is made, and tell of more
    return {
        name: value for name, value in names.items() if name not in given and not isinstance(value, OF_THIS_CLUSTER)
    }


def _call(awaitable: object) -> None:
    if inspect.isawaitable(awaitable):
        asyncio.run(_awaited(awaitable))


async def _awaited(awaitable: Awaitable[object]) -> None:
    await awaitable


def _call_what_it_defines(names: Mapping[str, object], code: str, world: World) -> None:
    """A test is called as pytest would, and a main that nobody calls until all records are handled."""
    for name, value in names.items():
        if name.startswith("test_") and callable(value):
            value(_fresh(world))
    if "async def main" in code and "run(main" not in code:
        asyncio.run(_until_all(names["main"](), world))  # type: ignore[operator]


def _fresh(world: World) -> Cluster:
    """A cluster as the fixture has it: without topics."""
    world.cluster.delete_topic("orders")
    return world.cluster


async def _until_all(main: Awaitable[object], world: World) -> None:
    task = asyncio.ensure_future(_awaited(main))
    await asyncio.to_thread(world.wait_for_all)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@contextlib.contextmanager
def _ended(world: World, code: str) -> Iterator[None]:
    """Loops without an end have one, and a snippet that waits for SIGTERM gets it."""
    if "SIGTERM" in code:
        with _terminated(world):
            yield
    elif ").run()" in code:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Processor, "run", _run_until_all(world))
            yield
    elif ".run_async())" in code:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Processor, "run_async", _run_async_until_all(world))
            yield
    elif "wakeup" not in code and _is_endless(code):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Consumer, "_poll", _poll_with_an_end)
            patch.setattr(AsyncConsumer, "_poll", _async_poll_with_an_end)
            yield
    else:
        yield


def _is_endless(code: str) -> bool:
    loops = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.While | ast.For | ast.AsyncFor))
    return any(
        (isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant))
        or (not isinstance(loop, ast.While) and isinstance(loop.iter, ast.Name) and loop.iter.id == "consumer")
        for loop in loops
    )


_RUN, _RUN_ASYNC = Processor.run, Processor.run_async


def _run_until_all(world: World) -> Callable[[Processor[bytes, bytes]], None]:
    def run_until_all(self: Processor[bytes, bytes]) -> None:
        with _stopped_after_all(self, world):
            _RUN(self)

    return run_until_all


def _run_async_until_all(world: World) -> Callable[[Processor[bytes, bytes]], Awaitable[None]]:
    async def run_until_all(self: Processor[bytes, bytes]) -> None:
        with _stopped_after_all(self, world):
            await _RUN_ASYNC(self)

    return run_until_all


@contextlib.contextmanager
def _stopped_after_all(processor: Processor[bytes, bytes], world: World) -> Iterator[None]:
    def stop() -> None:
        world.wait_for_all()
        processor.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    yield
    stopper.join()


_POLL, _ASYNC_POLL = Consumer._poll, AsyncConsumer._poll


def _poll_with_an_end(
    self: Consumer[bytes, bytes], _timeout: object, max_records: int | None = None, *, to_loop: bool = False
) -> Records[bytes, bytes]:
    give_up_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_s:
        if records := _POLL(self, SHORT_POLL_S, max_records, to_loop=to_loop):
            return records
        if self.assignment() and all(self.current_lag(tp) == 0 for tp in self.assignment()):
            raise EnoughError
    raise AssertionError("nothing came")


async def _async_poll_with_an_end(
    self: AsyncConsumer[bytes, bytes], _timeout: object, max_records: int | None = None, *, to_loop: bool = False
) -> Records[bytes, bytes]:
    give_up_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_s:
        if records := await _ASYNC_POLL(self, SHORT_POLL_S, max_records, to_loop=to_loop):
            return records
        lags = [await self.current_lag(tp) for tp in self.assignment()]
        if lags and not any(lag != 0 for lag in lags):
            raise EnoughError
    raise AssertionError("nothing came")


@contextlib.contextmanager
def _terminated(world: World) -> Iterator[None]:
    """SIGTERM comes when all records are handled. A snippet that does not handle it fails."""
    is_over = threading.Event()

    def fail(*_: object) -> None:
        raise AssertionError("nobody handles SIGTERM")

    def terminate() -> None:
        world.wait_for_all()
        if not is_over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, fail)
    sender = threading.Thread(target=terminate)
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join()
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _restored(world: World) -> Iterator[None]:
    """Logging, Prometheus and the environment are as they were afterwards; no port is opened."""
    log, registry = logging.getLogger("kwire"), prometheus_client.REGISTRY
    handlers, level, collectors = list(log.handlers), log.level, set(registry._collector_to_names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prometheus_client, "start_http_server", lambda _port: None)
        patch.setattr(confluent_kafka, "Producer", lambda settings: Producer({**settings, "log_level": 0}))
        patch.setattr(kwire, "load_properties", lambda _path: {"bootstrap_servers": world.cluster.bootstrap_servers})
        try:
            yield
        finally:
            log.handlers[:] = handlers
            log.setLevel(level)
            for collector in set(registry._collector_to_names) - collectors:
                registry.unregister(collector)
