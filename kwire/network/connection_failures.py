"""The failed connections to brokers: why there is none, when the broker may be dialled again, and whether the failure
is over.

A failure is over once a connection to the broker was of use. A bootstrap server is not dialled again to find that out:
its failure is over once any broker was of use.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kwire.errors import AuthenticationError, KafkaError
from kwire.managers.unsent import Channel
from kwire.model import Node
from kwire.network.tls_errors import is_about_the_name

FORGOTTEN_AFTER_MS = 60_000.0
"""A failure of a broker that metadata does not know is forgotten this long after it may be dialled again."""

SHOWN_FAILURES = 20

Address = tuple[str, int]


class ConnectionKey(NamedTuple):
    node_id: int
    channel: Channel


@dataclass(frozen=True, slots=True)
class ConnectionFailure:
    """What dialling a broker at its address came to, and when it may be dialled there again.

    Attributes:
        count: Attempts in a row that have failed.
        since_ms: When the first of them did.
    """

    node: Node
    error: KafkaError
    count: int
    not_before_ms: float
    since_ms: float
    at_ms: float


class BrokerConnectionFailure(NamedTuple):
    """A broker that there is no connection to, for `Consumer.describe()`.

    Attributes:
        since_ms: When the first of the failed attempts in a row failed.
        next_try_ms: The broker is not dialled before this time, and after it only if a request needs it.
    """

    node: Node
    error: KafkaError
    since_ms: float
    next_try_ms: float


class ConnectionFailures:
    """The last failure of each connection that could not be made, or was lost."""

    def __init__(self) -> None:
        self._failures: dict[ConnectionKey, ConnectionFailure] = {}
        self._proven_at_ms = -math.inf  # when a connection was last found to be of use

    def __len__(self) -> int:
        return len(self._failures)

    def proven(self, key: ConnectionKey, node: Node, at_ms: float) -> None:
        """A connection is of use. What failed at a former address of the broker is over as well."""
        self._failures.pop(key, None)
        for other, failure in list(self._failures.items()):
            if other.node_id == node.id >= 0 and failure.node.address != node.address:
                del self._failures[other]
        self._proven_at_ms = max(self._proven_at_ms, at_ms)

    def failed(self, key: ConnectionKey, node: Node, error: KafkaError, wait_ms: float, now_ms: float) -> None:
        """An attempt has failed, or a connection was lost; the next attempt waits for `wait_ms`."""
        before = self.of(node, key.channel)
        count, since_ms = (1, now_ms) if before is None else (before.count + 1, before.since_ms)
        self._failures[key] = ConnectionFailure(node, error, count, now_ms + wait_ms, since_ms, now_ms)

    def forget(self, known: Collection[int], now_ms: float) -> None:
        """Drop old failures of brokers that metadata does not know any more. It may name other brokers each time: they
        would pile up without end."""
        for key, failure in list(self._failures.items()):
            is_known = key.node_id < 0 or key.node_id in known
            if not is_known and now_ms >= failure.not_before_ms + FORGOTTEN_AFTER_MS:
                del self._failures[key]

    # --- of one broker --------------------------------------------------------------------------------------

    def of(self, node: Node, channel: Channel = Channel.CONTROL) -> ConnectionFailure | None:
        """The last failure of the broker at this address; one at a former address does not count."""
        failure = self._failures.get(ConnectionKey(node.id, channel))
        return None if failure is None or failure.node.address != node.address else failure

    def count(self, node: Node, channel: Channel) -> int:
        """How many attempts in a row have failed."""
        return 0 if (failure := self.of(node, channel)) is None else failure.count

    def not_before_ms(self, node: Node, channel: Channel = Channel.CONTROL) -> float:
        """When it may be dialled."""
        return 0.0 if (failure := self.of(node, channel)) is None else failure.not_before_ms

    # --- of several -----------------------------------------------------------------------------------------

    def have_all(self, nodes: Iterable[Node]) -> bool:
        """Whether none of them could be reached."""
        return all(self.of(node) is not None for node in nodes)

    def reasons(self, nodes: Iterable[Node], channel: Channel = Channel.CONTROL) -> str:
        """Why there is no connection to them."""
        failures = (self.of(node, channel) for node in nodes)
        return "; ".join(dict.fromkeys(str(failure.error) for failure in failures if failure is not None))

    def all_reasons(self) -> str:
        """The last ones of all."""
        errors = list(dict.fromkeys(str(failure.error) for failure in self._failures.values()))
        return "; ".join(errors[-SHOWN_FAILURES:])

    def refusal(self, candidates: Iterable[Node], *, knows_brokers: bool) -> KafkaError | None:
        """Why a broker and we do not accept each other: that says more than that others cannot be reached.

        A refusal is over once a broker has accepted a later connection. While brokers are known, a bootstrap server
        whose certificate has another name does not count: it may be one of them.
        """
        for failure in map(self.of, candidates):
            if failure is None or not self._is_refusal(failure):
                continue
            if not (knows_brokers and failure.node.id < 0 and is_about_the_name(failure.error)):
                return failure.error
        return None

    def by_address(self, in_use: Collection[Address]) -> dict[Address, BrokerConnectionFailure]:
        """The addresses that have no usable connection now, each with the failures of all its connections in one."""
        found: dict[Address, BrokerConnectionFailure] = {}
        for failure in self._failures.values():
            if self._is_over(failure, in_use):
                continue
            address = failure.node.address
            other = found.get(address)
            since_ms = failure.since_ms if other is None else min(failure.since_ms, other.since_ms)
            if other is None or failure.not_before_ms >= other.next_try_ms:
                node = failure.node if other is None or failure.node.id >= 0 else other.node
                found[address] = BrokerConnectionFailure(node, failure.error, since_ms, failure.not_before_ms)
            else:
                found[address] = other._replace(since_ms=since_ms)
        return found

    def _is_over(self, failure: ConnectionFailure, in_use: Collection[Address]) -> bool:
        if self._is_refusal(failure):
            return False
        return failure.node.address in in_use or (failure.node.id < 0 and failure.at_ms <= self._proven_at_ms)

    def _is_refusal(self, failure: ConnectionFailure) -> bool:
        """Whether a broker and we do not accept each other, and no connection was accepted since."""
        return isinstance(failure.error, AuthenticationError) and failure.at_ms > self._proven_at_ms
