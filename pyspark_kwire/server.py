"""Forks the processes of streams for `pyspark_kwire.python`, all imports done: `server LISTENER SPARK`.

One for each Spark session that has streams. It ends with Spark's JVM, or when there was no stream for a while. It is a
loop without threads: they would not be there in a fork.
"""

from __future__ import annotations

import gc
import marshal
import os
import runpy
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import NamedTuple, TypeAlias

from pyspark_kwire.python import EXIT_CODE, OF_STREAMS, SIZE, TAKEN, is_own

# What a stream imports, some of it late: what it begins with, kwire, and the network for its first question.
IMPORTED = (
    OF_STREAMS[1],
    "importlib.metadata",  # by `importlib.invalidate_caches`
    "kwire.spark.source",
    "kwire.spark.fresh_first.stream",
    "kwire.network.run",
)
IDLE_S = 30 * 60
# A client sends what it wants at once.
_REQUEST_TIMEOUT_S = 10


class Request(NamedTuple):
    """What a client asks for: the process that it stands for."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    streams: list[int]


class Fork(NamedTuple):
    """A forked process, and the connection to the client that stands for it."""

    process: int  # a pidfd
    client: socket.socket


_Event: TypeAlias = Callable[[], Request | None]


class Server:
    """Forks while Spark lives.

    Args:
        listener: where `pyspark_kwire.python` connects to.
        spark: a pidfd of the process whose end is this one's.
    """

    def __init__(self, listener: socket.socket, spark: int) -> None:
        self._listener = listener
        self._spark = spark
        self._forks: set[Fork] = set()
        self._selector = selectors.PollSelector()

    def serve(self) -> Request | None:
        """Serve until Spark ends. Returns None then; in a fork, the request that the fork has to carry out."""
        self._watch(self._listener, self._accept)
        self._selector.register(self._spark, selectors.EVENT_READ)
        while events := self._selector.select(None if self._forks else IDLE_S):
            for key, _ in events:
                if key.data is None:
                    return None
                event: _Event = key.data
                if (request := event()) is not None:
                    return request
        return None

    def _watch(self, file: int | socket.socket, event: _Event) -> None:
        self._selector.register(file, selectors.EVENT_READ, event)

    def _accept(self) -> Request | None:
        """A fork, for a client that connects. Its return value is that of the loop there."""
        client, _ = self._listener.accept()
        try:
            request = _received(client)
        except (OSError, ValueError, EOFError):
            client.close()
            return None
        pid = os.fork()
        if pid == 0:
            client.close()
            self._forget_all()
            return request
        for stream in request.streams:
            os.close(stream)
        fork = Fork(os.pidfd_open(pid), client)
        self._forks.add(fork)
        with suppress(OSError):  # a client that has gone is noticed by the selector
            client.sendall(TAKEN)
        self._watch(fork.client, partial(self._end, fork))
        self._watch(fork.process, partial(self._ended, fork))
        return None

    def _end(self, fork: Fork) -> None:
        """The client was ended, so its fork is."""
        if fork in self._forks:
            self._selector.unregister(fork.client)
            signal.pidfd_send_signal(fork.process, signal.SIGTERM)

    def _ended(self, fork: Fork) -> None:
        self._forks.remove(fork)
        end = os.waitid(os.P_PIDFD, fork.process, os.WEXITED)
        if end is not None:
            code = end.si_status if end.si_code == os.CLD_EXITED else 128 + end.si_status
            with suppress(OSError):
                fork.client.sendall(EXIT_CODE.pack(code))
        for file in fork:
            with suppress(KeyError):
                self._selector.unregister(file)
        os.close(fork.process)
        fork.client.close()

    def _forget_all(self) -> None:
        """In a fork: close what belongs to the server."""
        self._selector.close()
        self._listener.close()
        os.close(self._spark)
        for fork in self._forks:
            os.close(fork.process)
            fork.client.close()


def _received(client: socket.socket) -> Request:
    """Raises: OSError, ValueError, EOFError: a stranger, or one that was ended."""
    client.settimeout(_REQUEST_TIMEOUT_S)
    if not is_own(client):
        raise PermissionError("a process of somebody else")
    size, streams, _, _ = socket.recv_fds(client, SIZE.size, 3)
    try:
        if len(size) < SIZE.size:
            raise EOFError("it was ended before it said anything")
        with client.makefile("rb") as sent:
            arguments, environment, folder = marshal.loads(sent.read(SIZE.unpack(size)[0]))
    except BaseException:
        for stream in streams:  # Spark waits for their end
            os.close(stream)
        raise
    return Request(arguments, environment, folder, streams)


def become(request: Request) -> None:
    """Be a Python with these arguments, `-m` and a module."""
    for stream, file in enumerate(request.streams):
        os.dup2(file, stream)
        os.close(file)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    _, module, *rest = request.arguments
    sys.argv = [module, *rest]
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Import, then serve."""
    listener, spark = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    try:
        process = os.pidfd_open(spark)
    except ProcessLookupError:
        return
    for module in IMPORTED:
        with suppress(ImportError):  # the task that needs it says so, where it is heard
            import_module(module)
    gc.freeze()
    request = Server(listener, process).serve()
    if request is not None:
        become(request)


if __name__ == "__main__":
    main()
