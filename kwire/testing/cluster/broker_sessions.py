"""Broker sessions: a broker that is paused for `broker.session.timeout.ms` is fenced, as if it had died (KIP-631).

The controller fences it, and any broker that runs stands for the controller: while all are paused, no session ends.
Pure: `state` says when somebody is paused or goes on, and its clockwork asks what is due.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kwire.testing.cluster.broker import Broker


class BrokerSessions:
    """Which brokers are paused, and since when.

    Args:
        brokers: The cluster's brokers by id.
        timeout_ms: How long a broker may be paused.
        fence: Called with a broker that was paused for longer.
    """

    def __init__(self, brokers: Mapping[int, Broker], timeout_ms: float, fence: Callable[[Broker], None]) -> None:
        self._brokers = brokers
        self._timeout_ms = timeout_ms
        self._fence = fence
        self._silent_since_ms: dict[Broker, float] = {}

    def paused(self, broker: Broker, now_ms: float) -> None:
        """Begin the session timeout of a broker that is paused, unless it has begun."""
        self._silent_since_ms.setdefault(broker, now_ms)

    def over(self, broker: Broker, now_ms: float) -> None:
        """End the session timeout of a broker that is about to be resumed or killed."""
        if not self._has_controller():  # the next active broker gives every other one a whole session timeout
            self._silent_since_ms = dict.fromkeys(self._silent_since_ms, now_ms)
        self._silent_since_ms.pop(broker, None)

    def expire(self, now_ms: float) -> float:
        """Fence the brokers whose session is over. Returns when to call this again."""
        if not self._has_controller():
            return math.inf
        due = [broker for broker, since_ms in self._silent_since_ms.items() if since_ms + self._timeout_ms <= now_ms]
        for broker in due:
            del self._silent_since_ms[broker]
            self._fence(broker)
        return min(self._silent_since_ms.values(), default=math.inf) + self._timeout_ms

    def _has_controller(self) -> bool:
        return any(broker.is_up and not broker.is_paused for broker in self._brokers.values())
