"""Brokers that stand still: after `broker.session.timeout.ms` they are fenced, as if they had died (KIP-631).

The controller, whichever broker is there to notice, does that; while all stand still, nobody's time runs out. Pure:
`state` says when somebody is paused or goes on, and its clockwork asks what is due.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kwire.testing.cluster.broker import Broker


class BrokerSessions:
    """Who has been silent since when.

    Args:
        brokers: The cluster's brokers by id.
        timeout_ms: How long one may be silent.
        fence: What happens to one that was silent for longer.
    """

    def __init__(self, brokers: Mapping[int, Broker], timeout_ms: float, fence: Callable[[Broker], None]) -> None:
        self._brokers = brokers
        self._timeout_ms = timeout_ms
        self._fence = fence
        self._silent_since_ms: dict[Broker, float] = {}

    def paused(self, broker: Broker, now_ms: float) -> None:
        """It stands still from now on, if it did not before."""
        self._silent_since_ms.setdefault(broker, now_ms)

    def over(self, broker: Broker, now_ms: float) -> None:
        """It goes on, or is dead; to be told before that is so."""
        if not self._has_controller():  # the next one gives everybody a session's time
            self._silent_since_ms = dict.fromkeys(self._silent_since_ms, now_ms)
        self._silent_since_ms.pop(broker, None)

    def expire(self, now_ms: float) -> float:
        """Fence those whose session is over; when to ask again."""
        if not self._has_controller():
            return math.inf
        due = [broker for broker, since_ms in self._silent_since_ms.items() if since_ms + self._timeout_ms <= now_ms]
        for broker in due:
            del self._silent_since_ms[broker]
            self._fence(broker)
        return min(self._silent_since_ms.values(), default=math.inf) + self._timeout_ms

    def _has_controller(self) -> bool:
        return any(broker.is_up and not broker.is_paused for broker in self._brokers.values())
