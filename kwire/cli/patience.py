"""A command that waits for a broker says after a while what it tries to reach: silence looks like a hanging command.

It is said once, on stderr, and not after an answer has come.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

SAID_AFTER_S = 2.0


@contextmanager
def said_when_slow(servers: Collection[object], what: str = "no broker has answered yet") -> Iterator[None]:
    """While the block waits for these servers."""
    timer = threading.Timer(SAID_AFTER_S, _say, [what, ", ".join(map(str, servers))])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be saying it just now, and what it says it on may be closed next


def _say(what: str, servers: str) -> None:
    print(f"kwire: {what}; still trying {servers} ('kwire doctor' says what is wrong)", file=sys.stderr, flush=True)
