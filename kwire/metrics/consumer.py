"""`ConsumerMetrics`: all that one consumer counts, and the snapshot that `Consumer.metrics()` returns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from kwire.metrics.connections import ConnectionMetrics
from kwire.metrics.consumed import ConsumedMetrics
from kwire.metrics.coordinator import CoordinatorMetrics
from kwire.metrics.names import (
    APP_INFO_GROUP,
    CONSUMER_GROUP,
    COORDINATOR_GROUP,
    FETCH_GROUP,
    NODE_GROUP,
    MetricName,
    Tags,
    Values,
)
from kwire.metrics.requests import RequestMetrics
from kwire.metrics.threads import PollMetrics, TurnMetrics
from kwire.metrics.window import WindowSetting
from kwire.model import CatchUpProgress, TopicPartition
from kwire.version import __version__


class Gauges(NamedTuple):
    """What is not counted, but looked up when somebody asks.

    Attributes:
        application_events, background_events: How many wait in the two queues.
    """

    assigned: Collection[TopicPartition] = ()
    application_events: int = 0
    background_events: int = 0


class ConsumerMetrics:
    """One for each consumer. Each part is written by one thread; any may read.

    Args:
        started_ms: When it was made, on the clock on the wall.
        is_classic: Whether its group is a classic one.

    Attributes:
        started_ms: As given.
        catch_up: How far parallel rebalance is, of late; the network thread's.
    """

    def __init__(self, setting: WindowSetting | None = None, *, started_ms: int = 0, is_classic: bool = True) -> None:
        setting = setting or WindowSetting()
        self.catch_up: Sequence[CatchUpProgress] = ()
        self.started_ms = started_ms
        self.consumed = ConsumedMetrics(setting)
        self.polls = PollMetrics(setting)
        self.coordinator = CoordinatorMetrics(setting, is_classic=is_classic)
        self.requests = RequestMetrics(setting, self.coordinator)
        self.connections = ConnectionMetrics(setting)
        self.turns = TurnMetrics(setting)

    def snapshot(self, client_id: str, gauges: Gauges, now_ms: float) -> dict[MetricName, float]:
        """All numbers of this moment."""
        return {
            MetricName(name=name, group=group, tags=(("client-id", client_id), *tags)): float(value)
            for group, tags, values in self._groups(gauges, now_ms)
            for name, value in values
        }

    def _groups(self, gauges: Gauges, now_ms: float) -> Iterator[tuple[str, Tags, Values]]:
        yield APP_INFO_GROUP, (), (("start-time-ms", self.started_ms),)
        yield APP_INFO_GROUP, (("version", __version__),), (("version", 1),)
        yield FETCH_GROUP, (), self.consumed.values(gauges.assigned, now_ms)
        yield FETCH_GROUP, (), self.requests.fetches.values(now_ms)
        for topic in self.consumed.topics:
            yield FETCH_GROUP, (("topic", topic),), self.consumed.topic_values(topic, now_ms)
        for tp in gauges.assigned:
            tags = (("topic", tp.topic), ("partition", str(tp.partition)))
            yield FETCH_GROUP, tags, self.consumed.partition_values(tp, now_ms)
        yield COORDINATOR_GROUP, (), (("assigned-partitions", len(gauges.assigned)),)
        yield COORDINATOR_GROUP, (), self.coordinator.values(now_ms)
        yield CONSUMER_GROUP, (), _queue_sizes(gauges)
        for part in (self.polls, self.turns, self.connections):
            yield CONSUMER_GROUP, (), part.values(now_ms)
        yield CONSUMER_GROUP, (), self.requests.traffic.client_values(now_ms)
        for node_id, node in list(self.requests.nodes.items()):
            yield NODE_GROUP, (("node-id", f"node-{node_id}"),), node.node_values(now_ms)


def _queue_sizes(gauges: Gauges) -> Values:
    yield "application-event-queue-size", gauges.application_events
    yield "background-event-queue-size", gauges.background_events
