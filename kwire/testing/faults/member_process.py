"""One member's process, below a guard, and the thread that reads its lines.

`members.py` starts it and is told of each line. The guard (`kwire.testing.kafka.guard`) makes sure that no member
outlives the program that started it; orders go to it by its standard input.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from kwire.testing.faults.lines import Datum
from kwire.testing.faults.process_state import is_stopped
from kwire.testing.faults.telling import Teller
from kwire.testing.kafka.guard import GuardOrder, guarded
from kwire.testing.kafka.jars import ClusterError
from kwire.testing.kafka.node import running_processes

# Then the guard kills what was asked to close. Java's client gives itself 30 s, and its last commit comes before that.
CLOSE_GRACE_S = 60.0
STOPS_WITHIN_S = 5.0
STOP_INTERVAL_S = 0.002
STDERR_TOLD = 600


class MemberProcess:
    """A process that has been started. Made by `Members`; every method may be called by any thread.

    Args:
        directory: its own: where its output is kept, and the guard's lock.
        told: called after each line that is not a single record, and at the end, by the reader's thread.
    """

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, teller: Teller, told: Callable[[], None]
    ) -> None:
        self.name = name
        self.teller = teller
        self.was_killed = self.was_asked_to_close = self.may_end = self.is_frozen = False
        self.has_ended = False
        self._directory = directory
        self._told = told
        self._ordering = threading.Lock()  # or an order might go to whatever has the closed pipe's number
        with self.stderr.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal goes to the one who decides, not to the members.
            self._process = subprocess.Popen(
                guarded(command, lock=directory / "lock", grace_s=CLOSE_GRACE_S),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name=f"reader of {name}", daemon=True)
        self._reader.start()

    @property
    def stderr(self) -> Path:
        return self._directory / "stderr.log"

    @property
    def pid(self) -> int | None:
        """Of the member itself, not of its guard; None when it has ended."""
        found = running_processes(self._directory)
        return None if found is None else found.broker

    def order(self, order: GuardOrder) -> None:
        """A guard that is gone has nothing left to do."""
        assert self._process.stdin is not None
        with self._ordering, suppress(BrokenPipeError):
            if not self._process.stdin.closed:
                os.write(self._process.stdin.fileno(), order.value)

    def freeze(self) -> None:
        """Returns when it stands still.

        Raises:
            ClusterError: it does not.
        """
        pid = self.pid
        self.order(GuardOrder.PAUSE)
        deadline_s = time.monotonic() + STOPS_WITHIN_S
        while pid is not None and is_stopped(pid) is False:
            if time.monotonic() > deadline_s:
                raise ClusterError(f"{self.name} does not stop")
            time.sleep(STOP_INTERVAL_S)
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        self.order(GuardOrder.RESUME)

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
                if not isinstance(self.teller.take(line.decode(errors="replace")), Datum):
                    self._told()
        self._process.wait()
        with self._ordering:
            self._process.stdin.close()
        self.has_ended = True
        self._told()
