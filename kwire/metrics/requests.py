"""What goes over the network: Java's `Selector`, and the parts of its managers that count requests of one API.

Counted by the network thread, once for each request and once for each answer.
"""

from __future__ import annotations

from kwire.metrics.coordinator import CoordinatorMetrics
from kwire.metrics.names import Values
from kwire.metrics.window import Measured, Window, WindowSetting

_SIGNS_OF_LIFE = (0, 27)  # none; REBALANCE_IN_PROGRESS, which only members are told
FETCH, OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT = 1, 8, 11, 12, 14, 68
"""API keys."""


class TrafficMetrics:
    """Requests and answers of one broker, or of all."""

    __slots__ = ("answers", "latency", "requests")

    def __init__(self, setting: WindowSetting) -> None:
        self.requests = Window(setting)
        self.answers = Window(setting)
        self.latency = Window(setting)

    def node_values(self, now_ms: float) -> Values:
        """The metrics of one broker."""
        yield from _traffic(self.requests.measure(now_ms), self.answers.measure(now_ms))
        yield from self.latency.measure(now_ms).avg_max("request-latency")

    def client_values(self, now_ms: float) -> Values:
        """The metrics of all brokers together, without the latency, which Java has for each broker alone."""
        sent, received = self.requests.measure(now_ms), self.answers.measure(now_ms)
        yield from _traffic(sent, received)
        yield "network-io-rate", sent.count_per_s + received.count_per_s
        yield "network-io-total", sent.ever + received.ever


def _traffic(sent: Measured, received: Measured) -> Values:
    yield from sent.meter("request")
    yield from sent.avg_max("request-size")
    yield from sent.total_meter("outgoing-byte")
    yield from received.meter("response")
    yield from received.total_meter("incoming-byte")


class FetchRequestMetrics:
    """Fetch requests, of all cursors."""

    def __init__(self, setting: WindowSetting) -> None:
        self.latency = Window(setting)
        self.throttle = Window(setting)

    def values(self, now_ms: float) -> Values:
        latency = self.latency.measure(now_ms)
        yield from latency.avg_max("fetch-latency")
        yield from latency.meter("fetch")
        yield from self.throttle.measure(now_ms).avg_max("fetch-throttle-time")


class RequestMetrics:
    """Counts requests and answers: of each broker, of all, and by what some of them ask."""

    def __init__(self, setting: WindowSetting, coordinator: CoordinatorMetrics) -> None:
        self._setting = setting
        self._coordinator = coordinator
        self.traffic = TrafficMetrics(setting)
        self.fetches = FetchRequestMetrics(setting)
        self.nodes: dict[int, TrafficMetrics] = {}

    def node(self, node_id: int) -> TrafficMetrics:
        """What is counted of a broker, whichever of its connections it comes over."""
        found = self.nodes.get(node_id)
        if found is None:
            found = self.nodes[node_id] = TrafficMetrics(self._setting)
        return found

    def sent(self, node: TrafficMetrics, api_key: int, size_bytes: int, now_ms: float) -> None:
        """A request goes out."""
        node.requests.record(size_bytes, now_ms)
        self.traffic.requests.record(size_bytes, now_ms)
        if api_key in (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT):
            self._coordinator.heartbeat_sent(now_ms)
        elif api_key == JOIN_GROUP:
            self._coordinator.rebalances.started(now_ms)

    def answered(
        self,
        node: TrafficMetrics,
        api_key: int,
        size_bytes: int,
        latency_ms: float,
        now_ms: float,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        """A request was answered, whatever the answer says."""
        node.answers.record(size_bytes, now_ms)
        node.latency.record(latency_ms, now_ms)
        self.traffic.answers.record(size_bytes, now_ms)
        if api_key == FETCH:
            self.fetches.latency.record(latency_ms, now_ms)
            self.fetches.throttle.record(throttle_time_ms, now_ms)
        elif api_key == OFFSET_COMMIT:
            self._coordinator.commits.record(latency_ms, now_ms)
        elif api_key in (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT):
            self._coordinator.heartbeats.record(latency_ms, now_ms)
            if error_code in _SIGNS_OF_LIFE:
                self._coordinator.heartbeat_answered_ms = now_ms
        elif api_key in (JOIN_GROUP, SYNC_GROUP):
            self._joined(api_key, latency_ms, now_ms, is_accepted=not error_code)

    def unanswered(self, api_key: int, now_ms: float) -> None:
        """A request went out, and its answer will never come."""
        if api_key in (JOIN_GROUP, SYNC_GROUP):
            self._coordinator.rebalances.failed(now_ms)

    def _joined(self, api_key: int, latency_ms: float, now_ms: float, *, is_accepted: bool) -> None:
        """As Java counts: only joins and syncs that are accepted. The first join of a member, which is told its id and
        sent back (KIP-394), is a failed rebalance."""
        coordinator = self._coordinator
        if not is_accepted:
            coordinator.rebalances.failed(now_ms)
        elif api_key == JOIN_GROUP:
            coordinator.heartbeat_answered_ms = now_ms
            coordinator.joins.record(latency_ms, now_ms)
        else:
            coordinator.heartbeat_answered_ms = now_ms
            coordinator.syncs.record(latency_ms, now_ms)
            coordinator.rebalances.ended(now_ms)
