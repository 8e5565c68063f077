"""Which broker coordinates a group or a transactional id, and since when.

A stable hash gives each name its first coordinator. When that broker is down, the next one that runs takes over, and
remains the coordinator when the first comes back: requests that were sent to it meanwhile must be refused. Kafka hashes
names over the partitions of `__consumer_offsets`, whose leaders move in the same way. What coordinators know is kept by
the whole cluster, so nothing is lost when they move; `load_ms` shows the moment in which Kafka's read their log.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING
from zlib import crc32

from kwire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kwire.testing.cluster.broker import Broker


NOBODY = -1


class KeyType(IntEnum):
    """What a coordinator is for (FindCoordinator's `key_type`)."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Coordinators:
    """The coordinators of all groups and transactional ids.

    Args:
        brokers: The cluster's brokers by id, in order.
        load_ms: How long a coordinator that took over says COORDINATOR_LOAD_IN_PROGRESS.
    """

    def __init__(self, brokers: dict[int, Broker], load_ms: int) -> None:
        self._brokers = brokers
        self._load_ms = load_ms
        self._pinned: dict[tuple[KeyType, str], int] = {}
        self._known: dict[tuple[KeyType, str], int] = {}
        self._loaded_at_ms: dict[tuple[KeyType, str], float] = {}

    def of(self, key_type: KeyType, name: str, now_ms: float) -> Broker | None:
        """The coordinator of this name; None while no broker runs."""
        key = (key_type, name)
        holder = self._brokers.get(self._known.get(key, NOBODY))
        return holder if holder is not None and holder.is_active else self._take_over(key, now_ms)

    def _take_over(self, key: tuple[KeyType, str], now_ms: float) -> Broker | None:
        found = next((broker for broker in self._from_home(key) if broker.is_active), None)
        node_id = found.node_id if found is not None else NOBODY
        if self._known.setdefault(key, node_id) != node_id:
            self._known[key] = node_id
            self._loaded_at_ms[key] = now_ms + self._load_ms
        return found

    def pass_on(self, now_ms: float) -> None:
        """A broker is gone: others take over its names now, not when a client asks."""
        for key_type, name in tuple(self._known):
            self.of(key_type, name, now_ms)

    def error(self, key_type: KeyType, name: str, broker: Broker, now_ms: float) -> ErrorCode:
        """The error that `broker` answers to requests for this group or transactional id; NONE if it coordinates it."""
        if self.of(key_type, name, now_ms) is not broker:
            return ErrorCode.NOT_COORDINATOR
        if now_ms < self._loaded_at_ms.get((key_type, name), now_ms):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE

    def move(self, key_type: KeyType, name: str, node_id: int | None, now_ms: float) -> Broker | None:
        """Make another broker the coordinator: this one, or by default the next one that runs."""
        before = self.of(key_type, name, now_ms)
        others = [broker for broker in self._from_home((key_type, name)) if broker.is_active and broker is not before]
        if node_id is None and others:
            node_id = others[0].node_id
        if node_id is not None:
            self._pinned[key_type, name] = node_id
        return self._take_over((key_type, name), now_ms)

    def _from_home(self, key: tuple[KeyType, str]) -> list[Broker]:
        """All brokers in a ring that begins with the one that the hash gives."""
        ids = list(self._brokers)
        home = self._pinned.get(key)
        start = ids.index(home) if home is not None else crc32(key[1].encode()) % len(ids)
        return [self._brokers[node_id] for node_id in ids[start:] + ids[:start]]
