"""What the log says of brokers that cannot be reached: a warning when it begins, a line when it is over.

Further failed attempts are logged at DEBUG. A connection that was of use and breaks is no outage yet, as brokers close
idle ones: the next attempt shows whether there is one. A request that times out is an outage, which began with the
broker's last answer. There is none while another connection to the same address is of use: the broker may allow a
client no more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kwire.errors import AuthenticationError, KafkaError
from kwire.logs import part_logger
from kwire.model import Node

if TYPE_CHECKING:
    from kwire.managers.base import TellOperator

log = part_logger("network")

QUIET_MS = 60_000.0
"""Lost connections to one address are logged at INFO once in this time, else at DEBUG."""
MAX_ADDRESSES = 1_000
IN_USE = " (another connection to it is of use: it may allow no more, see the broker's max.connections.per.ip)"


class Dialled(Protocol):
    """What is asked of a connection."""

    node: Node
    is_proven: bool
    has_expired: bool
    dialled_at_ms: float
    answered_at_ms: float


class _Outage(NamedTuple):
    node: Node
    since_ms: float
    kind: type[KafkaError]
    attempts: int


class OutageLog:
    """The outages under way, by address. That of a broker which has moved ends when it is reached at its new address.

    Args:
        tell_operator: Takes the events of their begin and end, beside the log.
    """

    def __init__(self, tell_operator: TellOperator | None = None) -> None:
        self._tell_operator = tell_operator
        self._outages: dict[tuple[str, int], _Outage] = {}
        self._told_ms: dict[tuple[str, int], float] = {}

    def lost(self, connection: Dialled, error: KafkaError, now_ms: float, *, is_in_use: bool = False) -> None:
        """A connection has broken, or was never made.

        Args:
            is_in_use: Whether another one to the same address is of use.
        """
        node, is_refused = connection.node, isinstance(error, AuthenticationError)
        known = self._outages.get(node.address)
        was_of_use = connection.is_proven and not connection.has_expired
        if (was_of_use or is_in_use) and not is_refused:
            self._log_loss(connection, error, now_ms)
        elif known is None or known.kind is not type(error):
            log.log(logging.ERROR if is_refused else logging.WARNING, "%s", error, extra={"broker": _name(node)})
            begin_ms = connection.answered_at_ms if connection.has_expired else now_ms
            since_ms, attempts = (begin_ms, 0) if known is None else (known.since_ms, known.attempts)
            self._outages[node.address] = _Outage(_named(node, known), since_ms, type(error), attempts + 1)
            if known is None:
                self._tell_unreachable(node, error)
        else:
            log.debug("%s", error, extra={"broker": _name(node)})
            self._outages[node.address] = known._replace(node=_named(node, known), attempts=known.attempts + 1)
        self._forget()

    def _log_loss(self, connection: Dialled, error: KafkaError, now_ms: float) -> None:
        """A lost connection that is no outage: at INFO once in a while."""
        address = connection.node.address
        is_quiet = now_ms - self._told_ms.get(address, -QUIET_MS) < QUIET_MS
        if not is_quiet:
            self._told_ms[address] = now_ms
        level, note = logging.DEBUG if is_quiet else logging.INFO, "" if connection.is_proven else IN_USE
        log.log(level, "%s%s", error, note, extra={"broker": _name(connection.node)})

    def _tell_unreachable(self, node: Node, error: KafkaError) -> None:
        if self._tell_operator is not None:
            from kwire.consumer_events import BrokerUnreachable

            self._tell_operator(BrokerUnreachable(broker=_name(node), error=str(error)))

    def over(self, connection: Dialled, now_ms: float) -> None:
        """A connection is of use. One that was made before the outage says nothing: it may be about to break, too."""
        for address, outage in self._outages_of(connection.node):
            if connection.dialled_at_ms >= outage.since_ms:
                del self._outages[address]
                self._tell_over(outage, connection.node, now_ms)

    def _outages_of(self, node: Node) -> list[tuple[tuple[str, int], _Outage]]:
        """Those at its address, and at former addresses of a broker that has moved: nobody dials them again."""
        return [
            (address, outage)
            for address, outage in self._outages.items()
            if address == node.address or outage.node.id == node.id >= 0
        ]

    def _tell_over(self, outage: _Outage, node: Node, now_ms: float) -> None:
        """The event names the address that was told as unreachable, so that it ends that alarm."""
        broker, outage_ms = _name(outage.node), now_ms - outage.since_ms
        if self._tell_operator is not None:
            from kwire.consumer_events import BrokerReachable

            self._tell_operator(BrokerReachable(broker=broker, outage_ms=outage_ms, attempts=outage.attempts))
        log.info(
            "broker %s is of use again, after %.1f s and %d failed attempts",
            node,
            outage_ms / 1000.0,
            outage.attempts,
            extra={"broker": broker, "outage_s": round(outage_ms / 1000.0, 3)},
        )

    def _forget(self) -> None:
        """A cluster may name any number of addresses."""
        for known in (self._outages, self._told_ms):
            if len(known) > MAX_ADDRESSES:
                known.pop(next(iter(known)))


def _named(node: Node, known: _Outage | None) -> Node:
    """With the broker's id, as soon as it is known: while it is dialled as a bootstrap server, nobody knows it."""
    return known.node if known is not None and node.id < 0 else node


def _name(node: Node) -> str:
    """As in events and fields of the log; `str(node)` has its id as well."""
    return f"{node.host}:{node.port}"
