"""A program below a guard, and the thread that reads its lines.

The guard (`guard.py`) makes sure that the program does not outlive the process that started it; it takes orders on its
standard input. Made for members of a group: `testing.faults.member_process`, and the soak's.
"""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from kwire.testing.kafka.guard import GuardOrder, guarded
from kwire.testing.kafka.node import running_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

STDERR_TOLD = 600


class GuardedProcess:
    """A process that has been started. Every method may be called by any thread.

    Args:
        directory: a directory of its own for its output and the guard's lock.
        grace_s: how long it may take to end when it was asked to; then it is killed.
        on_line: called with each whole line, by the reader's thread.
        on_end: called by that thread when the process and its guard have ended.
        cwd: the working directory of the program; None for that of this process.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        directory: Path,
        *,
        grace_s: float,
        on_line: Callable[[bytes], None],
        on_end: Callable[[], None] = lambda: None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.has_ended = False
        self._directory = directory
        self._on_line, self._on_end = on_line, on_end
        self._ordering = threading.Lock()  # or an order might go to whatever has the closed pipe's number
        with self.stderr.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal reaches only this process, which decides about members.
            self._process = subprocess.Popen(
                guarded(command, lock=directory / "lock", grace_s=grace_s),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=cwd,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name=f"reader of {name}", daemon=True)
        self._reader.start()

    @property
    def stderr(self) -> Path:
        """The file with its standard error."""
        return self._directory / "stderr.log"

    @property
    def pid(self) -> int | None:
        """The process id of the program itself, not of its guard; None if it has ended."""
        found = running_processes(self._directory)
        return None if found is None else found.broker

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.returncode if self.has_ended else None

    def order(self, order: GuardOrder) -> None:
        """Give an order. A guard that has ended ignores it."""
        assert self._process.stdin is not None
        with self._ordering, suppress(BrokenPipeError):
            if not self._process.stdin.closed:
                os.write(self._process.stdin.fileno(), order.value)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the process has ended and `on_line` was called for all its lines. Returns whether that came in
        time."""
        self._reader.join(timeout_s)
        return not self._reader.is_alive()

    def last_words(self) -> str:
        """The end of its standard error."""
        return self.stderr.read_text(errors="replace").strip()[-STDERR_TOLD:]

    def _read(self) -> None:
        """Thread: read every line, until both the process and its guard have ended."""
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        with self._process.stdout as lines, (self._directory / "stdout.log").open("wb") as copy:
            for line in lines:
                copy.write(line)
                if not line.endswith(b"\n"):  # it was killed in the middle of a line
                    break
                self._on_line(line)
        self._process.wait()
        with self._ordering:
            self._process.stdin.close()
        self.has_ended = True
        self._on_end()
