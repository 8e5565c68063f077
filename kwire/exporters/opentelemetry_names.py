"""Names of metrics in OpenTelemetry: the table of names, units and attributes.

Names are those of the semantic conventions for messaging, which are in development and will change; without one there,
they are `kafka.consumer.*`, as in OpenTelemetry's instrumentation of Java's client. Rates and most averages are left
out, and so are sums of other metrics in this table: the backend calculates them.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.metrics.catalogue import CLIENT, NODE, PARTITION, TOPIC, Description
from kwire.metrics.names import CONSUMER_GROUP, COORDINATOR_GROUP, FETCH_GROUP, NODE_GROUP, MetricName

SYSTEM = "messaging.system"
CLIENT_ID = "messaging.client.id"
GROUP = "messaging.consumer.group.name"
TOPIC_NAME = "messaging.destination.name"
PARTITION_ID = "messaging.destination.partition.id"
NODE_ID = "messaging.kafka.node.id"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
OFFSET = "messaging.kafka.offset"
BODY_SIZE = "messaging.message.body.size"
TOMBSTONE = "messaging.kafka.message.tombstone"

ATTRIBUTES = {"client-id": CLIENT_ID, "topic": TOPIC_NAME, "partition": PARTITION_ID, "node-id": NODE_ID}
"""The attribute for each of kwire's tags."""


class Instrument(NamedTuple):
    """An instrument.

    Attributes:
        scale: The factor from kwire's unit to that of the instrument.
    """

    name: str
    unit: str
    scale: float = 1.0

    @property
    def attributes(self) -> dict[str, str]:
        """Further attributes that the conventions require: the operation."""
        return {OPERATION_NAME: "poll"} if self.name.startswith("messaging.") else {}


_MS = 0.001
_ROWS: dict[tuple[str, tuple[str, ...], str], Instrument] = {
    (FETCH_GROUP, TOPIC, "records-consumed-total"): Instrument("messaging.client.consumed.messages", "{message}"),
    (FETCH_GROUP, TOPIC, "bytes-consumed-total"): Instrument("kafka.consumer.bytes_consumed_total", "By"),
    (FETCH_GROUP, PARTITION, "records-lag"): Instrument("kafka.consumer.records_lag", "{message}"),
    (FETCH_GROUP, PARTITION, "records-lead"): Instrument("kafka.consumer.records_lead", "{message}"),
    (FETCH_GROUP, CLIENT, "fetch-total"): Instrument("kafka.consumer.fetch_total", "{request}"),
    (FETCH_GROUP, CLIENT, "fetch-latency-avg"): Instrument("kafka.consumer.fetch_latency_avg", "s", _MS),
    (FETCH_GROUP, CLIENT, "fetch-latency-max"): Instrument("kafka.consumer.fetch_latency_max", "s", _MS),
    (FETCH_GROUP, CLIENT, "fetch-throttle-time-max"): Instrument("kafka.consumer.fetch_throttle_time_max", "s", _MS),
    (FETCH_GROUP, CLIENT, "records-lag-max"): Instrument("kafka.consumer.records_lag_max", "{message}"),
    (COORDINATOR_GROUP, CLIENT, "assigned-partitions"): Instrument("kafka.consumer.assigned_partitions", "{partition}"),
    (COORDINATOR_GROUP, CLIENT, "commit-total"): Instrument("kafka.consumer.commit_total", "{request}"),
    (COORDINATOR_GROUP, CLIENT, "commit-latency-avg"): Instrument("kafka.consumer.commit_latency_avg", "s", _MS),
    (COORDINATOR_GROUP, CLIENT, "commit-latency-max"): Instrument("kafka.consumer.commit_latency_max", "s", _MS),
    (COORDINATOR_GROUP, CLIENT, "heartbeat-total"): Instrument("kafka.consumer.heartbeat_total", "{request}"),
    (COORDINATOR_GROUP, CLIENT, "last-heartbeat-seconds-ago"): Instrument(
        "kafka.consumer.last_heartbeat_seconds_ago", "s"
    ),
    (COORDINATOR_GROUP, CLIENT, "rebalance-total"): Instrument("kafka.consumer.rebalance_total", "{rebalance}"),
    (COORDINATOR_GROUP, CLIENT, "failed-rebalance-total"): Instrument(
        "kafka.consumer.failed_rebalance_total", "{rebalance}"
    ),
    (COORDINATOR_GROUP, CLIENT, "rebalance-latency-total"): Instrument(
        "kafka.consumer.rebalance_latency_total", "s", _MS
    ),
    (COORDINATOR_GROUP, CLIENT, "rebalance-latency-max"): Instrument("kafka.consumer.rebalance_latency_max", "s", _MS),
    (CONSUMER_GROUP, CLIENT, "last-poll-seconds-ago"): Instrument("kafka.consumer.last_poll_seconds_ago", "s"),
    (CONSUMER_GROUP, CLIENT, "time-between-poll-max"): Instrument("kafka.consumer.time_between_poll_max", "s", _MS),
    (CONSUMER_GROUP, CLIENT, "poll-idle-ratio-avg"): Instrument("kafka.consumer.poll_idle_ratio_avg", "1"),
    (CONSUMER_GROUP, CLIENT, "connection-count"): Instrument("kafka.consumer.connection_count", "{connection}"),
    (CONSUMER_GROUP, CLIENT, "connection-creation-total"): Instrument(
        "kafka.consumer.connection_creation_total", "{connection}"
    ),
    (CONSUMER_GROUP, CLIENT, "connection-close-total"): Instrument(
        "kafka.consumer.connection_close_total", "{connection}"
    ),
    (CONSUMER_GROUP, CLIENT, "failed-authentication-total"): Instrument(
        "kafka.consumer.failed_authentication_total", "{connection}"
    ),
    (NODE_GROUP, NODE, "request-total"): Instrument("kafka.consumer.request_total", "{request}"),
    (NODE_GROUP, NODE, "response-total"): Instrument("kafka.consumer.response_total", "{response}"),
    (NODE_GROUP, NODE, "incoming-byte-total"): Instrument("kafka.consumer.incoming_byte_total", "By"),
    (NODE_GROUP, NODE, "outgoing-byte-total"): Instrument("kafka.consumer.outgoing_byte_total", "By"),
    (NODE_GROUP, NODE, "request-latency-avg"): Instrument("kafka.consumer.request_latency_avg", "s", _MS),
    (NODE_GROUP, NODE, "request-latency-max"): Instrument("kafka.consumer.request_latency_max", "s", _MS),
}


def instrument_of(row: Description) -> Instrument | None:
    """The instrument of a metric, if it is exported."""
    return _ROWS.get((row.group, row.tags, row.name))


def instrument_of_metric(metric: MetricName) -> Instrument | None:
    """The instrument of a metric that has a value."""
    return _ROWS.get((metric.group, tuple(word for word, _ in metric.tags[1:]), metric.name))


def name_of(row: Description) -> str:
    """The name of a metric; "" if it is not exported."""
    found = instrument_of(row)
    return "" if found is None else found.name
