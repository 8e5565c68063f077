"""The process of one member: orders to it, and its output.

`members.py` starts it, and is called for each line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kwire.testing.faults.lines import Datum
from kwire.testing.faults.process_state import is_stopped
from kwire.testing.faults.telling import Teller
from kwire.testing.kafka.guard import GuardOrder
from kwire.testing.kafka.guarded_process import GuardedProcess
from kwire.testing.kafka.jars import ClusterError

# After this time the guard kills a member that was asked to close. Java's client takes up to 30 s, and commits before.
CLOSE_GRACE_S = 60.0
STOPS_WITHIN_S = 5.0
STOP_INTERVAL_S = 0.002


class MemberProcess(GuardedProcess):
    """The process of a member. Made by `Members`; every method may be called by any thread.

    Args:
        directory: a directory of its own for its output and the guard's lock.
        told: called after each line that is not a single record, and at the end, by the reader's thread.
    """

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, teller: Teller, told: Callable[[], None]
    ) -> None:
        self.teller = teller
        self.was_killed = self.was_asked_to_close = self.may_end = self.is_frozen = False

        def take(line: bytes) -> None:
            if not isinstance(teller.take(line.decode(errors="replace")), Datum):
                told()

        super().__init__(name, command, directory, grace_s=CLOSE_GRACE_S, on_line=take, on_end=told)

    def freeze(self) -> None:
        """Stop the process (SIGSTOP). Returns when it has stopped.

        Raises:
            ClusterError: it does not stop.
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
