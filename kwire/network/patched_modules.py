"""Which library has put green threads in the place of the modules that a network thread is made of.

`gevent.monkey.patch_all()` and `eventlet.monkey_patch()` change `threading`, `socket` and `select` for the process.
What runs then is no thread, and trio finds no `select.epoll`. So a consumer is refused, before anything of it starts.
"""

from __future__ import annotations

import sys

# What trio and the network thread use, by the names that each library asks for. Importing trio starts a subprocess.
_GEVENT_NAMES = ("threading", "_thread", "socket", "select", "ssl", "subprocess")
# Every name there is: whichever of them it patches, eventlet replaces `threading.RLock` as well.
_EVENTLET_NAMES = ("thread", "socket", "select", "os", "time", "subprocess", "psycopg", "MySQLdb", "builtins")


def patched_by() -> str | None:
    """What has patched modules that a network thread needs, and which; None if they are Python's own."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and (names := [each for each in _GEVENT_NAMES if gevent.is_module_patched(each)]):
        return f"gevent.monkey has patched {', '.join(names)}"
    if eventlet is not None and (names := [each for each in _EVENTLET_NAMES if eventlet.is_monkey_patched(each)]):
        return f"eventlet.monkey_patch() has patched {', '.join(names)}"
    return None
