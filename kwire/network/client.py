"""The network client: which connection a request goes out on, when a broker is dialled, and when a request has failed.

Called by the loop, once a turn. A request waits here until its broker's connection is ready; its time runs from the
moment it was handed over, so a broker that is never reached times out like one that never answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from kwire.clock import NEVER_MS, Backoff
from kwire.config import ConsumerConfig, MetadataRecoveryStrategy
from kwire.errors import (
    AuthenticationError,
    BootstrapError,
    DisconnectError,
    KafkaError,
    KafkaTimeoutError,
    RebootstrapRequiredError,
)
from kwire.logs import part_logger
from kwire.managers.unsent import AnyUnsentRequest, Channel, Destination
from kwire.metrics import ConsumerMetrics
from kwire.model import Node
from kwire.network.api_versions_fallback import ApiVersionsFallback
from kwire.network.connection import Completed, Connection
from kwire.network.connection_failures import Address, BrokerConnectionFailure, ConnectionFailures, ConnectionKey
from kwire.network.handshake import ApiVersionsQuery
from kwire.network.outages import MAX_ADDRESSES, OutageLog
from kwire.network.security import Security
from kwire.network.transport import Transport
from kwire.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from kwire.managers.base import TellOperator

log = part_logger("network")

Nodes = Callable[[], Mapping[int, Node]]

# A broker that can answer at all has done so by then, TLS and login included, as a rule.
SILENT_MS = 1_000.0
# A broker that has answered within this time counts as reachable. By default it answers a fetch that finds nothing
# after 0.5 s, and a heartbeat every 3 s.
IN_USE_MS = 10_000.0


@dataclass(slots=True)
class _Waiting:
    request: AnyUnsentRequest
    expires_at_ms: float
    since_ms: float


class NetworkClient:
    """Sends requests over connections that it opens, closes and picks.

    Args:
        nodes: the brokers that metadata knows now.
        cluster_id: the id of the cluster, once metadata says it.
        wake: makes the loop take another turn.
        tell_operator: takes the events of outages.

    Attributes:
        on_answers: told by connections that have read answers, see there; set before the first one is dialled.
        on_rebootstrap_required: told when an address has led to another broker or cluster (KIP-1242); may hang up.
        connection_failures: why connections were lost or never made, of the brokers that have not been of use since.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        transport: Transport,
        nodes: Nodes,
        wake: Callable[[], None],
        *,
        security: Security,
        cluster_id: Callable[[], str | None],
        client_id: str,
        metrics: ConsumerMetrics,
        reconnect_backoff: Backoff,
        setup_backoff: Backoff,
        login_backoff: Backoff,
        tell_operator: TellOperator | None = None,
    ) -> None:
        self._config = config
        self._may_rebootstrap = config.metadata_recovery_strategy is MetadataRecoveryStrategy.REBOOTSTRAP
        self._transport = transport
        self._security = security
        self._nodes = nodes
        self._nodes_before: Mapping[int, Node] = {}
        self._wake = wake
        self.on_answers = wake
        self.on_rebootstrap_required: Callable[[float], None] = lambda now_ms: None
        self._cluster_id = cluster_id
        self._fallback = ApiVersionsFallback()
        self._outages = OutageLog(tell_operator)
        self._client_id = client_id
        self._metrics = metrics
        self._reconnect_backoff = reconnect_backoff
        self._setup_backoff = setup_backoff
        self._login_backoff = login_backoff
        # Bootstrap servers have negative ids, as in Java: who they are is known once they have answered.
        self._bootstrap = [Node(-1 - i, at.host, at.port) for i, at in enumerate(config.bootstrap_servers)]
        self._connections: dict[ConnectionKey, Connection] = {}
        self._failures = ConnectionFailures()
        self._unlisted: list[Connection] = []  # to brokers that metadata does not list any more
        # These two save an iteration over all connections when none has changed, and none can have expired or been idle
        # for too long. The time is a lower bound: answers only postpone it, and each request that is sent updates it.
        self._connections_changed = False
        self._give_up_at_ms = NEVER_MS
        self._waiting: list[_Waiting] = []
        self._is_ending = False
        self._completed: deque[Completed] = deque()
        self._nursery: trio.Nursery | None = None
        self._known_addresses: dict[Address, None] = {}  # of brokers that were of use, the last one last
        self.bootstrap_error: KafkaError | None = None
        self.connection_failures = ""

    def attach(self, nursery: trio.Nursery) -> None:
        """Where connections live."""
        self._nursery = nursery
        nursery.start_soon(self._security.run)

    # --- one turn -------------------------------------------------------------------------------------------

    def send(self, requests: Iterable[AnyUnsentRequest], now_ms: float) -> None:
        """Take over requests; their handlers run in a later turn."""
        for request in requests:
            timeout_ms = self._config.request_timeout_ms if request.timeout_ms is None else request.timeout_ms
            self._waiting.append(_Waiting(request, now_ms + timeout_ms, now_ms))

    def poll(self, now_ms: float) -> float:
        """Put what can go on its connections, dial what must be dialled; when to come back."""
        self._leave_old_addresses()
        if self._unlisted:
            self._leave_unlisted()
        if self._connections_changed:
            self._reap(now_ms)
        if now_ms >= self._give_up_at_ms:
            self._give_up(now_ms)
        wake_at_ms = self._send_waiting(now_ms) if self._waiting else NEVER_MS
        self._metrics.turns.unsent_requests = len(self._waiting)
        return min(wake_at_ms, self._give_up_at_ms)

    def _send_waiting(self, now_ms: float) -> float:
        """Put what can go on its connections; when to try again what cannot."""
        self._expire(now_ms)
        waiting, self._waiting = self._waiting, []
        wake_at_ms = NEVER_MS
        held: set[Connection] = set()
        for item in waiting:
            connection, ready_at_ms = self._connection_for(item.request.destination, now_ms)
            if connection is not None and (connection in held or not self._has_room(connection, item.request)):
                held.add(connection)  # nothing overtakes what waits here
                ready_at_ms = NEVER_MS  # the next answer wakes us
            elif connection is not None and connection.may_send(now_ms):
                connection.send(item.request, item.expires_at_ms, now_ms)
                self._metrics.turns.request_waited(now_ms - item.since_ms, now_ms)
                self._give_up_at_ms = min(self._give_up_at_ms, item.expires_at_ms, self._idle_at_ms(now_ms))
                continue
            self._waiting.append(item)
            wake_at_ms = min(wake_at_ms, item.expires_at_ms, ready_at_ms)
        return wake_at_ms

    def _has_room(self, connection: Connection, request: AnyUnsentRequest) -> bool:
        return self._is_ending or connection.has_room_for(request)

    def complete(self, now_ms: float) -> int:
        """Run the handlers of everything that was answered or has failed; how many there were."""
        count = len(self._completed)
        for _ in range(count):
            self._completed.popleft()(now_ms)
        return count

    def close_connections(self) -> None:
        """Start from the bootstrap servers again (KIP-1102): close the connections, so the next request goes to
        wherever a bootstrap server's name leads now. As in Java, the coordinator's stays: it still serves the group."""
        for key, connection in self._connections.items():
            if key.channel is not Channel.COORDINATOR:
                connection.close()

    def send_last(self) -> None:
        """The consumer ends: what is sent from now on is the last. So nothing is held back any more: there will be no
        later commit that a late one could undo."""
        self._is_ending = True

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close(DisconnectError("the consumer was closed"), is_last=True)

    def forget(self, now_ms: float) -> None:
        """Count the connections as closed, and drop them and the handlers that nobody will call. Called after `close`,
        when the tasks of all connections have ended."""
        for connection in self._connections.values():
            connection.count(self._metrics.connections, now_ms)
        self._connections.clear()
        self._completed.clear()

    # --- for `describe()`, and for errors -------------------------------------------------------------------

    @property
    def ever_connected(self) -> bool:
        """Whether any broker was ever of use."""
        return bool(self._known_addresses)

    def is_connected(self, node: Node, channel: Channel) -> bool:
        """Whether requests can go out to it."""
        connection = self._connections.get(ConnectionKey(node.id, channel))
        return connection is not None and connection.is_ready and not _moved(connection.node, node)

    def broker_failures(self, now_ms: float) -> list[BrokerConnectionFailure]:
        """The addresses where nobody is of use at the moment, or whose first answers do not come."""
        found = self._failures.by_address(self._addresses_in_use(now_ms))
        for each in self._silent(now_ms):
            found.setdefault(each.node.address, each)
        return list(found.values())

    def throttled_until_ms(self, now_ms: float) -> dict[Address, float]:
        """Until when brokers hold this client back, by address; of those that do."""
        found: dict[Address, float] = {}
        for each in self._connections.values():
            if each.throttled_until_ms > now_ms:
                address = each.node.address
                found[address] = max(each.throttled_until_ms, found.get(address, now_ms))
        return found

    def _silent(self, now_ms: float) -> Iterator[BrokerConnectionFailure]:
        """Connections whose first answer is late, as failures."""
        for each in self._connections.values():
            if not (each.is_ready or each.is_closed) and now_ms >= each.dialled_at_ms + SILENT_MS:
                error = DisconnectError(f"no {each.waits_for} yet")
                yield BrokerConnectionFailure(each.node, error, each.dialled_at_ms, now_ms)

    def _addresses_in_use(self, now_ms: float) -> set[Address]:
        """The addresses of brokers that have answered lately. An idle connection proves nothing."""
        return {
            each.node.address
            for each in self._connections.values()
            if each.is_proven and each.is_ready and now_ms - each.answered_at_ms < IN_USE_MS
        }

    # --- connections ----------------------------------------------------------------------------------------

    def _connection_for(self, destination: Destination, now_ms: float) -> tuple[Connection | None, float]:
        """The connection, dialled if need be; or None. And when to look again, if it cannot be used now."""
        if destination.node is None:
            return self._any_connection(now_ms)
        return self._connection_to(destination.node, destination.channel, now_ms)

    def _connection_to(self, node: Node, channel: Channel, now_ms: float) -> tuple[Connection | None, float]:
        key = ConnectionKey(node.id, channel)
        connection = self._connections.get(key)
        if connection is not None and _moved(connection.node, node):
            connection.close(DisconnectError(f"broker {connection.node} has moved to {node.host}:{node.port}"))
            connection.count(self._metrics.connections, now_ms)
            connection = None
        if connection is not None:
            return connection, connection.usable_at_ms
        if now_ms < (not_before_ms := self._failures.not_before_ms(node, channel)):
            return None, not_before_ms
        return self._dial(key, node, now_ms), NEVER_MS

    def _leave_old_addresses(self) -> None:
        """Close connections to brokers that have moved: they may never answer at the old address, and a request in
        flight would have to expire before it is sent to the new one. A broker that metadata no longer lists is closed
        once nothing is in flight; else brokers with other ids each time would make more connections than the system
        allows."""
        nodes = self._nodes()
        if nodes is self._nodes_before:
            return
        self._nodes_before, self._unlisted = nodes, []
        for key, connection in self._connections.items():
            if key.channel is Channel.COORDINATOR:
                continue  # where that is, its look-up says, which may know better
            now = nodes.get(key.node_id)
            if now is None:
                if nodes and key.node_id >= 0:
                    self._unlisted.append(connection)
            elif _moved(connection.node, now):
                log.info("broker %s has moved to %s:%d", connection.node, now.host, now.port)
                connection.close()

    def _leave_unlisted(self) -> None:
        """Close those on which nothing is in flight. A fetch may wait for records for a while."""
        for connection in self._unlisted:
            if connection.is_ready and not connection.in_flight:
                connection.close()
        self._unlisted = [connection for connection in self._unlisted if not connection.is_closed]

    def _any_connection(self, now_ms: float) -> tuple[Connection | None, float]:
        """A connection for a request that any broker can answer: the ready one with the fewest requests in flight. If
        none is ready, and none is being made, a broker is dialled; also if all others are throttled. The next broker is
        dialled as well when the last one has said nothing for a while: its address may be a load balancer without a
        broker behind it."""
        candidates = self._candidates()
        known = [self._connections.get(ConnectionKey(node.id, Channel.CONTROL)) for node in candidates]
        live = [connection for connection in known if connection is not None]
        if ready := [connection for connection in live if connection.may_send(now_ms)]:
            return min(ready, key=lambda connection: connection.in_flight), NEVER_MS
        soonest_ms = min((connection.usable_at_ms for connection in live), default=NEVER_MS)
        being_made = [connection for connection in live if connection.usable_at_ms == NEVER_MS]
        if being_made and now_ms < (next_dial_ms := _next_dial_ms(being_made)):
            return None, min(soonest_ms, next_dial_ms)  # and they wake us
        # Least recently failed first, so that a dead broker does not hide a live one.
        others = (node for node, connection in zip(candidates, known, strict=True) if connection is None)
        for node in sorted(others, key=self._failures.not_before_ms):
            connection, ready_at_ms = self._connection_to(node, Channel.CONTROL, now_ms)
            soonest_ms = min(soonest_ms, ready_at_ms)
            if connection is not None:
                return connection, min(soonest_ms, _next_dial_ms([*being_made, connection]))
        return None, soonest_ms

    def _candidates(self) -> list[Node]:
        """Brokers that a request for any broker may go to: those of metadata; the bootstrap servers, while it names
        none; both, while none of metadata's can be reached."""
        known = list(self._nodes().values())
        if not known:
            return self._bootstrap
        # KIP-899. Java forgets the known ones at this point; here, the first broker that comes back is used.
        if self._may_rebootstrap and self._failures.have_all(known):
            return known + self._bootstrap
        return known

    def _dial(self, key: ConnectionKey, node: Node, now_ms: float) -> Connection:
        assert self._nursery is not None
        connection = Connection(
            node,
            self._client_id,
            self._transport,
            security=self._security,
            longest_wait_ms=self._longest_wait_ms(key.channel),
            api_versions_query=ApiVersionsQuery(self._fallback.version_for(node, now_ms), self._expected_cluster_id()),
            metrics=self._metrics.requests,
            completed=self._completed,
            wake=self._on_change,
            on_answers=self.on_answers,
            is_known=node.address in self._known_addresses,
            now_ms=now_ms,
        )
        self._connections[key] = connection
        setup_timeout_ms = self._setup_backoff.delay_ms(self._failures.count(node, key.channel) + 1)
        self._nursery.start_soon(connection.run, setup_timeout_ms, self._config.request_timeout_ms)
        return connection

    def _longest_wait_ms(self, channel: Channel) -> float:
        """How long a broker may take to answer on purpose: joins wait for other members, and fetches for records."""
        if channel is Channel.COORDINATOR:
            return float(self._config.max_poll_interval_ms)
        return 0.0 if channel is Channel.CONTROL else float(self._config.fetch_max_wait_ms)

    def _expected_cluster_id(self) -> str | None:
        """The id that brokers are to check. None, as in Java, if this client may not start from its bootstrap servers
        again: it could do nothing about the answer."""
        return self._cluster_id() if self._may_rebootstrap and self._config.metadata_cluster_check_enable else None

    # --- what goes wrong ------------------------------------------------------------------------------------

    def _on_change(self) -> None:
        self._connections_changed = True
        self._wake()

    def _reap(self, now_ms: float) -> None:
        """Forget closed connections; what waited for a broker that cannot be reached fails with the reason."""
        self._connections_changed = False
        for key, connection in list(self._connections.items()):
            connection.count(self._metrics.connections, now_ms)
            if connection.is_ready:
                self._on_ready(key, connection, now_ms)
            elif connection.is_closed:
                del self._connections[key]
                self._on_closed(key, connection, now_ms)
        self.connection_failures = self._failures.all_reasons()
        self._update_give_up_at()

    def _on_ready(self, key: ConnectionKey, connection: Connection, now_ms: float) -> None:
        offered = connection.versions.offered.get(ApiVersionsRequest.api_key)
        newest = connection.api_versions_query.version if offered is None else offered.max_version
        self._fallback.answered(connection.node, connection.api_versions_query.version, newest, now_ms)
        if connection.is_proven:
            self._failures.proven(key, connection.node, connection.proven_at_ms)
            self._outages.over(connection, now_ms)
            self._note_known(connection.node.address)
            self.bootstrap_error = None

    def _note_known(self, address: Address) -> None:
        self._known_addresses.pop(address, None)
        self._known_addresses[address] = None
        if len(self._known_addresses) > MAX_ADDRESSES:
            del self._known_addresses[next(iter(self._known_addresses))]

    def _on_closed(self, key: ConnectionKey, connection: Connection, now_ms: float) -> None:
        error = connection.error
        if error is None:
            return
        is_in_use = connection.node.address in self._addresses_in_use(now_ms)
        self._outages.lost(connection, error, now_ms, is_in_use=is_in_use)
        if connection.closed_on_api_versions:
            self._fallback.closed_by(connection.node, connection.api_versions_query.version)
        wait_ms = self._backoff_for(error).delay_ms(self._failures.count(connection.node, key.channel) + 1)
        self._failures.failed(key, connection.node, error, wait_ms, now_ms)
        self._failures.forget(self._nodes().keys(), now_ms)
        self._fail_waiting(lambda destination: _is_for(destination, key), error)
        candidates = self._candidates()
        if self._failures.have_all(candidates):
            self._fail_unreachable(candidates)
        if isinstance(error, RebootstrapRequiredError):
            self.on_rebootstrap_required(now_ms)
            self._wake()

    def _backoff_for(self, error: KafkaError) -> Backoff:
        """Logins are not repeated as often as connections: servers lock users out for that."""
        return self._login_backoff if isinstance(error, AuthenticationError) else self._reconnect_backoff

    def _fail_unreachable(self, candidates: Sequence[Node]) -> None:
        """Fail all requests for any broker, as none can be reached. Their callers have deadlines of their own."""
        error = self._failures.refusal(candidates, knows_brokers=bool(self._nodes()))
        if error is None:
            error = BootstrapError(f"no broker can be reached: {self._failures.reasons(candidates)}")
        if error.retriable and not self.ever_connected:
            self.bootstrap_error = error
        self._fail_waiting(lambda destination: destination.node is None, error)

    def _reasons(self, destination: Destination) -> str:
        """What is known of why there is no connection for a request."""
        nodes = self._candidates() if destination.node is None else [destination.node]
        return self._failures.reasons(nodes, destination.channel)

    def _fail_waiting(self, concerned: Callable[[Destination], bool], error: KafkaError) -> None:
        kept: list[_Waiting] = []
        for item in self._waiting:
            if concerned(item.request.destination):
                self._fail(item.request, error)
            else:
                kept.append(item)
        self._waiting = kept

    def _fail(self, request: AnyUnsentRequest, error: KafkaError) -> None:
        self._completed.append(lambda now_ms: request.on_failure(error, now_ms))
        self._wake()

    def _expire(self, now_ms: float) -> None:
        """Requests that waited too long to be sent fail."""
        overdue = [item for item in self._waiting if item.expires_at_ms <= now_ms]
        if overdue:
            self._waiting = [item for item in self._waiting if item.expires_at_ms > now_ms]
        for item in overdue:
            what, node = type(item.request.request).__name__, item.request.destination.node
            why = f" ({reasons})" if (reasons := self._reasons(item.request.destination)) else ""
            error = KafkaTimeoutError(f"{what} could not be sent to {node or 'any broker'} in time{why}")
            self._fail(item.request, error)

    def _give_up_ms(self, connection: Connection) -> float:
        """When a connection has to be closed, if nothing happens on it before."""
        if connection.in_flight:
            return connection.expires_at_ms
        return self._idle_at_ms(connection.used_at_ms) if connection.is_ready else NEVER_MS

    def _idle_at_ms(self, used_at_ms: float) -> float:
        max_idle_ms = self._config.connections_max_idle_ms
        return used_at_ms + max_idle_ms if max_idle_ms > 0 else NEVER_MS

    def _update_give_up_at(self) -> None:
        self._give_up_at_ms = min(map(self._give_up_ms, self._connections.values()), default=NEVER_MS)

    def _give_up(self, now_ms: float) -> None:
        """Close connections whose answer is overdue, and those that nobody has used for `connections_max_idle_ms`. Both
        are dialled again when somebody needs them."""
        for connection in self._connections.values():
            if self._give_up_ms(connection) > now_ms or (connection.in_flight and connection.goes_on(now_ms)):
                continue
            if connection.in_flight:
                connection.expire()
            else:
                connection.close()
        self._update_give_up_at()


def _moved(dialled: Node, now: Node) -> bool:
    return dialled.address != now.address


def _is_for(destination: Destination, key: ConnectionKey) -> bool:
    return destination.node is not None and destination.node.id == key.node_id and destination.channel is key.channel


def _next_dial_ms(being_made: Sequence[Connection]) -> float:
    """When the next broker is dialled beside these, of which none can be used yet. The pause doubles with each, so that
    a hundred slow brokers are not all dialled."""
    if any(connection.is_ready for connection in being_made):  # logs in again
        return NEVER_MS
    return max(connection.dialled_at_ms for connection in being_made) + SILENT_MS * 2.0 ** min(len(being_made) - 1, 10)
