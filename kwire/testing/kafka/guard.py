"""Runs one program and makes sure that it never outlives the process that asked for it.

Started by path as a process of its own, with the command that `guarded` makes: by `node` for brokers, and by others for
their programs. The parent holds the other end of stdin; when the parent goes away, however it dies, the guard reads the
end of the stream, stops the program and removes the directory REMOVE (unless that is empty). So a process that is
killed leaves nothing behind.

Each byte on stdin is an order: see `GuardOrder`. A process without the pipe sends SIGTERM instead (the cluster was left
running on purpose). The guard holds a lock on LOCK as long as it lives, with its own and the program's process id in
the file: a process that can take the lock knows that both are gone, without trusting process ids, which the system uses
again.
Standard library only, nothing of kwire, one thread.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PR_SET_PDEATHSIG = 1  # linux/prctl.h


class GuardOrder(Enum):
    """The orders that the parent may give."""

    TERMINATE = b"T"  # SIGTERM; SIGKILL after the grace period
    KILL = b"K"  # SIGKILL
    PAUSE = b"P"  # SIGSTOP: the program keeps its connections and answers nothing
    RESUME = b"R"  # SIGCONT
    DETACH = b"D"  # go on after the parent has gone


def guarded(command: Sequence[str], *, lock: Path, grace_s: float, remove: Path | None = None) -> list[str]:
    """The command that runs `command` below a guard: `guard.py LOCK GRACE_S REMOVE -- COMMAND...`.

    Args:
        command: the program and its arguments.
        lock: the file that the guard locks and writes the process ids to.
        grace_s: how long the program may take to end after SIGTERM.
        remove: a directory to remove when the parent dies. The program is then killed at once: its data is not needed.
    """
    # Neither the environment's paths nor `site`: the guard starts fast, whatever is installed.
    options = [str(lock), str(grace_s), "" if remove is None else str(remove)]
    return [sys.executable, "-I", "-S", __file__, *options, "--", *command]


class Guard:
    """A program and the orders for it."""

    def __init__(self, command: list[str], *, grace_s: float, is_temporary: bool) -> None:
        self._grace_s = grace_s
        self._is_temporary = is_temporary
        self._kill_at: float | None = None
        self._wake_fd = wake_on_signals()
        self._program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - unsafe with threads, and the guard has none
        )
        self.pid = self._program.pid
        self.is_orphan = False

    def run(self) -> int:
        """Run until the program has ended. Returns its exit code, or 128 + signal."""
        watched = [sys.stdin.fileno(), self._wake_fd]
        while self._program.poll() is None:
            ready, _, _ = select.select(watched, [], [], self._patience_s())
            if self._wake_fd in ready and signal.SIGTERM in os.read(self._wake_fd, 4096):
                self._terminate()
            if sys.stdin.fileno() in ready:
                self._obey(os.read(sys.stdin.fileno(), 1), watched)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._program.kill()
                self._kill_at = None
        code = self._program.returncode
        return code if code >= 0 else 128 - code

    def _obey(self, order: bytes, watched: list[int]) -> None:
        if not order or order == GuardOrder.DETACH.value:
            watched.remove(sys.stdin.fileno())
        if not order:
            self.is_orphan = True
            self._end_orphan()
        elif order == GuardOrder.TERMINATE.value:
            self._terminate()
        elif order == GuardOrder.KILL.value:
            self._program.kill()
        elif order == GuardOrder.PAUSE.value:
            self._program.send_signal(signal.SIGSTOP)
        elif order == GuardOrder.RESUME.value:
            self._program.send_signal(signal.SIGCONT)

    def _end_orphan(self) -> None:
        if self._is_temporary:
            self._program.kill()  # its data is deleted, so a clean shutdown is not needed
        else:
            self._terminate()

    def _terminate(self) -> None:
        self._program.terminate()
        self._program.send_signal(signal.SIGCONT)  # a stopped program would not see the SIGTERM
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace_s

    def _patience_s(self) -> float | None:
        return None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())


def wake_on_signals() -> int:
    """A file descriptor that yields the number of each signal that came: SIGTERM, or SIGCHLD when the program ended."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    signal.set_wakeup_fd(write_fd)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return read_fd


def die_with_parent() -> None:
    """Called between fork and exec: if the guard itself is killed, Linux kills the program. Other systems cannot do
    this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(lock_path: str, grace_s: str, remove: str, command: list[str]) -> int:
    # Unbuffered: a process that finds the lock taken can read the process ids, too.
    with open(lock_path, "wb", buffering=0) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        guard = Guard(command, grace_s=float(grace_s), is_temporary=bool(remove))
        lock.write(f"{os.getpid()} {guard.pid}\n".encode())
        code = guard.run()
        if guard.is_orphan and remove:
            remove_with_parent(Path(remove))
    return code


def remove_with_parent(directory: Path) -> None:
    """Remove what the dead parent would have removed: the node's directory and, in the last guard, the cluster's."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        directory.parent.rmdir()
    except OSError:
        return  # another guard still needs it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[5:]))
