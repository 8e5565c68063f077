"""When members' heartbeats reached the broker, for `scripts/bench rebalance`.

The broker runs `rebalance_tap.java`, which reports each heartbeat. So all libraries are observed alike, and none is
asked to do anything for it.
"""

from __future__ import annotations

import socket
import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.rebalance.java import compile_java

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

HEARTBEATS = frozenset({12, 68})  # Heartbeat, ConsumerGroupHeartbeat
COMMITS = frozenset({8})
REMEMBERED = 1_000  # requests of a client: those of more than a minute, at ten heartbeats a second
DATAGRAM_BYTES = 2_048


class Heard(NamedTuple):
    """A request, at the moment the broker took it up."""

    at_ns: int
    api_key: int
    group: str
    client: str

    @classmethod
    def parse(cls, datagram: bytes) -> Heard:
        at_ns, api_key, group, client = datagram.decode().split(" ")
        return cls(int(at_ns), int(api_key), group, client)


class Tap:
    """A context manager. Its methods may be called from several threads.

    The broker to be tapped needs `settings`, and the directory that `compile_to` was called with in its class path.
    """

    def __init__(self) -> None:
        self._requests: defaultdict[tuple[str, str], deque[Heard]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self._changed = threading.Condition()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Tap:
        self._socket.bind(("127.0.0.1", 0))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    @staticmethod
    def compile_to(classes: Path) -> None:
        compile_java("rebalance_tap.java", classes)

    @property
    def settings(self) -> dict[str, str]:
        """The broker's."""
        port = self._socket.getsockname()[1]
        return {"authorizer.class.name": "RebalanceTap", "bench.tap.port": str(port)}

    def hear(self, request: Heard) -> None:
        with self._changed:
            self._requests[request.group, request.client].append(request)
            self._changed.notify_all()

    def last_ns(self, group: str, client: str, kinds: frozenset[int], *, before_ns: int | None = None) -> int | None:
        """When the client last sent such a request; None if it never did."""
        with self._changed:
            for request in reversed(self._requests[group, client]):
                if request.api_key in kinds and (before_ns is None or request.at_ns < before_ns):
                    return request.at_ns
        return None

    def heartbeats_ns(self, group: str, clients: Sequence[str], *, before_ns: int | None = None) -> list[int] | None:
        """The last one of each; None unless there is one of each."""
        found = [self.last_ns(group, client, HEARTBEATS, before_ns=before_ns) for client in clients]
        known = [at_ns for at_ns in found if at_ns is not None]
        return known if len(known) == len(found) else None

    def wait_until(self, find: Callable[[], int | None], timeout_s: float) -> int | None:
        """What `find` finds, asked now and after every request; None when the time is over."""
        found: list[int] = []

        def look() -> bool:
            answer = find()
            found.extend([] if answer is None else [answer])
            return bool(found)

        with self._changed:
            self._changed.wait_for(look, timeout_s)
        return found[0] if found else None

    def _listen(self) -> None:
        while datagram := self._socket.recv(DATAGRAM_BYTES):
            self.hear(Heard.parse(datagram))
