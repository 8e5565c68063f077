"""A program below a guard, and the thread that reads its lines.

The guard (`guard.py`) makes sure that the program does not outlive the one that started it; orders go to it by its
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
        directory: its own: where its output is kept, and the guard's lock.
        grace_s: how long it may take to end when it was asked to; then it is killed.
        on_line: called with each whole line, by the reader's thread.
        on_end: called by that thread when the process and its guard have ended.
        cwd: where the program is to run; None for where this one does.
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
            # A session of its own: Ctrl-C in the terminal goes to the one who decides, not to the members.
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
        """What it says on its standard error."""
        return self._directory / "stderr.log"

    @property
    def pid(self) -> int | None:
        """Of the program itself, not of its guard; None when it has ended."""
        found = running_processes(self._directory)
        return None if found is None else found.broker

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.returncode if self.has_ended else None

    def order(self, order: GuardOrder) -> None:
        """A guard that is gone has nothing left to do."""
        assert self._process.stdin is not None
        with self._ordering, suppress(BrokenPipeError):
            if not self._process.stdin.closed:
                os.write(self._process.stdin.fileno(), order.value)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until it has ended and all that it said is told; whether it has."""
        self._reader.join(timeout_s)
        return not self._reader.is_alive()

    def last_words(self) -> str:
        """The end of what it said on its standard error."""
        return self.stderr.read_text(errors="replace").strip()[-STDERR_TOLD:]

    def _read(self) -> None:
        """Thread: every line, until both the process and its guard have ended."""
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        with self._process.stdout as lines, (self._directory / "stdout.log").open("wb") as copy:
            for line in lines:
                copy.write(line)
                if not line.endswith(b"\n"):  # it was killed in the middle of a word
                    break
                self._on_line(line)
        self._process.wait()
        with self._ordering:
            self._process.stdin.close()
        self.has_ended = True
        self._on_end()
