"""How long a thread that computes keeps the interpreter while the network thread takes in a large answer over TLS.

Each record of TLS, of 16 KiB at most, is decrypted without the interpreter's lock, and after each the network thread
has to wait until it gets the lock back. A thread that computes gives it away after a switch interval, 5 ms by default:
so an answer would come in at 3 MB/s. While one is under way the interval is shorter. Where no thread computes, nothing
changes: nobody waits.
"""

from __future__ import annotations

import sys
import threading

SHORT_INTERVAL_S = 0.0005


class SwitchInterval:
    """The interpreter's switch interval, shortened while any connection of the process wants it to be.

    The interval belongs to the process, and each consumer has a network thread of its own. So it is counted how many
    want it short, and the last one puts back what the first one found, unless other code has set it meanwhile.
    """

    def __init__(self, short_s: float = SHORT_INTERVAL_S) -> None:
        self._short_s = short_s
        self._lock = threading.Lock()
        self._wanted = 0
        self._before_s = 0.0

    def shorten(self) -> None:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._short_s, self._before_s))

    def restore(self) -> None:
        """Once for each `shorten`."""
        with self._lock:
            self._wanted -= 1
            if self._wanted == 0 and sys.getswitchinterval() <= self._short_s:
                sys.setswitchinterval(self._before_s)


SWITCH_INTERVAL = SwitchInterval()
