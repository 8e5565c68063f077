"""The Python that Spark starts its processes with: `PYSPARK_PYTHON=kwire-spark-python`. Each of them loads this first.

It takes Spark's archives off the path, because the installed PySpark is compiled, and they are not. Spark starts a
process for each stream as well. A server (`pyspark_kwire.server`) that has imported everything forks such a process,
and this one then stands for the fork: when either of the two ends, so does the other. The first stream of a session
starts the server.
"""

from __future__ import annotations

import marshal
import os
import socket
import struct
import sys
import zlib

TYPE_CHECKING = False  # the module `typing` takes longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

# What Spark starts for each streaming query, and nobody else.
OF_STREAMS = ["-m", "pyspark.sql.streaming.python_streaming_source_runner"]
# How Spark tells each process whom to call back. Processes that differ in nothing else have the same server.
_CALL_BACK = "PYTHON_WORKER_FACTORY_"
# Attempts to reach the server. Another process may be starting it at the moment; if it never starts, this process does
# its work itself.
_STARTS = 10
SIZE = struct.Struct("!I")
TAKEN = b"+"
EXIT_CODE = struct.Struct("!i")
_CREDENTIALS = struct.Struct("3i")


def main() -> NoReturn:
    """What the command does: be a Python with these arguments."""
    arguments, environment = sys.argv[1:], without_archives(os.environ)
    if arguments == OF_STREAMS and sys.platform == "linux":
        code = run_forked(arguments, environment)
        if code is not None:
            sys.exit(code)
    os.execve(sys.executable, [sys.executable, *arguments], environment)


def without_archives(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without Spark's archives.

    Nothing in PySpark's is compiled. Spark's own jar, on the path too, has no Python in it, and a table of 6,000
    entries that every process reads: 40 ms, measured.
    """
    path = environment.get("PYTHONPATH", "").split(os.pathsep)
    return {**environment, "PYTHONPATH": os.pathsep.join(place for place in path if not _is_archive(place))}


def _is_archive(place: str) -> bool:
    folder, name = os.path.split(place)
    if name.endswith(".jar"):
        return name.startswith("spark-core_")
    return folder.endswith("/python/lib") and name.startswith("py") and name.endswith(".zip")


def run_forked(arguments: list[str], environment: dict[str, str]) -> int | None:
    """Run as a fork of the server, until it ends.

    Returns:
        The exit code. None if there is no server, or none that is to be trusted.
    """
    server = _connection(environment)
    if server is None:
        return None
    with server:
        if not is_own(server):
            return None
        request = marshal.dumps((arguments, environment, os.getcwd()))
        try:
            socket.send_fds(server, [SIZE.pack(len(request))], [0, 1, 2])
            server.sendall(request)
            is_taken = server.recv(len(TAKEN)) == TAKEN
        except OSError:
            is_taken = False
        if not is_taken:
            return None
        answer = server.recv(EXIT_CODE.size)
    # The server is gone, and Spark with it.
    return int(EXIT_CODE.unpack(answer)[0]) if answer else 1


def is_own(peer: socket.socket) -> bool:
    """Whether a process of this user is at the other end, on this system (another's container has no id here)."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(pid and user == os.geteuid())


def _connection(environment: dict[str, str]) -> socket.socket | None:
    """A connection to the server of Spark's JVM, which has started this process; starts the server if there is none."""
    spark = os.getppid()
    address = _address(spark, environment)
    for _ in range(_STARTS):
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(address)
        except ConnectionRefusedError:
            server.close()
            _start_server(address, spark, environment)
        else:
            return server
    return None


def _address(spark: int, environment: dict[str, str]) -> bytes:
    """A name without a file (that is the zero byte): it goes away with the server."""
    same = sorted((name, value) for name, value in environment.items() if not name.startswith(_CALL_BACK))
    check = zlib.crc32(repr((sys.executable, same)).encode())
    return f"\0kwire-spark-python-{os.geteuid()}-{spark}-{check:08x}".encode()


def _start_server(address: bytes, spark: int, environment: dict[str, str]) -> None:
    """The JVM that gets the address starts it; it listens from now on, and answers when it has imported everything."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(address)
        except OSError:
            return
        listener.listen()
        listener.set_inheritable(True)
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        command = [sys.executable, "-m", "pyspark_kwire.server", str(listener.fileno()), str(spark)]
        os.posix_spawn(sys.executable, command, environment, file_actions=quiet, setsid=True)


if __name__ == "__main__":
    main()
