"""A message for slow connections: a command that waits for a broker prints after a while what it tries to reach.

The message is printed once, on stderr, and not after an answer has come.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

SAID_AFTER_S = 2.0


@contextmanager
def said_when_slow(servers: Collection[object], what: str = "no broker has answered yet") -> Iterator[None]:
    """A context in which the message is printed if the block takes long."""
    timer = threading.Timer(SAID_AFTER_S, _say, [what, ", ".join(map(str, servers))])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be printing just now, and its stream may be closed next


def _say(what: str, servers: str) -> None:
    print(f"kwire: {what}; still trying {servers} ('kwire doctor' says what is wrong)", file=sys.stderr, flush=True)
