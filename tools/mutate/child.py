"""A child process in which one mutant lives: what it says at its end, and the limits that end it."""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

KILLED, SURVIVED, TIMEOUT, BROKEN = "killed", "survived", "timeout", "broken"
MAX_BYTES = 6 * 2**30
SPARE_S = 2.0


class Verdict(NamedTuple):
    """What came of a mutant.

    Args:
        outcome: BROKEN is one that cannot even be imported: anybody would see that mistake, so it does not count.
        test: which one failed; for a survivor, why nothing could.
    """

    outcome: str
    test: str = ""

    @property
    def is_found(self) -> bool:
        """A mutant that does not end would not be missed either."""
        return self.outcome != SURVIVED


def run_child(judged: Callable[[], str], *, waiting_s: float) -> Verdict:
    """Fork and run this there.

    Args:
        judged: answers the test that failed, or SURVIVED, or BROKEN.
        waiting_s: seconds after which a child that is waiting is killed; its limit of CPU time does not end it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _live(judged, reading, writing)
    os.close(writing)
    said = _said(reading, time.monotonic() + waiting_s)
    os.close(reading)
    if said is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if said is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF):
        return Verdict(TIMEOUT)
    if said in (SURVIVED, BROKEN):
        return Verdict(said)
    return Verdict(KILLED, said or f"the process ended: {status}")


def watch_test(usual_s: float) -> None:
    """Limit the processor time of what comes next; nobody handles the signal, so it ends the process."""
    signal.setitimer(signal.ITIMER_PROF, SPARE_S + 10 * usual_s)


def _live(judged: Callable[[], str], reading: int, writing: int) -> None:
    try:
        os.close(reading)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        said = judged()
    except BaseException as error:  # noqa: BLE001  what breaks the child, breaks the tests
        said = f"raised: {error!r}"
    try:
        os.write(writing, said.encode(errors="replace")[:2000])
    finally:
        os._exit(0)


def _said(reading: int, deadline_s: float) -> str | None:
    """What it wrote until it ended; None if it did not end."""
    said = b""
    while (left := deadline_s - time.monotonic()) > 0:
        ready, _, _ = select.select([reading], [], [], left)
        if ready:
            part = os.read(reading, 4096)
            if not part:
                return said.decode()
            said += part
    return None
