"""The JSON for `stats_cb`: kwire's metrics and description under the names of librdkafka's statistics.

Numbers that kwire does not have are left out: wrong ones would not be noticed. Numbers of producers are 0.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from kwire.compat.confluent_kafka.settings import OwnSettings
from kwire.compat.confluent_kafka.stored_offsets import StoredOffsets
from kwire.compat.confluent_kafka.values import OFFSET_INVALID
from kwire.consumer.sync import Consumer
from kwire.description.consumer_description import ConsumerDescription
from kwire.description.values import CauseKind, GroupDescription, PartitionDescription
from kwire.metrics.names import CONSUMER_GROUP, COORDINATOR_GROUP, FETCH_GROUP, NODE_GROUP, MetricName
from kwire.model import Cursor, TopicPartition

Numbers: TypeAlias = Mapping[str, float]
Json: TypeAlias = dict[str, object]

_UNKNOWN = -1
_OF_PRODUCERS = ("msg_cnt", "msg_size", "msg_max", "msg_size_max", "txmsgs", "txmsg_bytes")
_TRAFFIC = {
    "tx": "request-total",
    "tx_bytes": "outgoing-byte-total",
    "rx": "response-total",
    "rx_bytes": "incoming-byte-total",
}
_CONSUMED = {"rxmsgs": "records-consumed-total", "rxmsg_bytes": "bytes-consumed-total"}
_IS_DOWN = (CauseKind.BROKER_DOWN, CauseKind.AUTHENTICATION)


class Statistics:
    """Calls `stats_cb` every `statistics.interval.ms`, from polls.

    Part of a `Session`.
    """

    def __init__(self, own: OwnSettings, consumer: Consumer[bytes, bytes], stored: StoredOffsets) -> None:
        self._tell = own.on_statistics
        self._interval_s = own.statistics_interval_s
        self._consumer, self._stored = consumer, stored
        self._bootstrap = {-1 - i: f"{at.host}:{at.port}" for i, at in enumerate(consumer.config.bootstrap_servers)}
        self._began_s = time.monotonic()
        self._due_s = math.inf if self._tell is None else self._began_s + self._interval_s

    def wait_s(self, now_s: float) -> float:
        """The time until `stats_cb` is due."""
        return max(0.0, self._due_s - now_s)

    def tell_if_due(self, now_s: float) -> None:
        if self._tell is not None and now_s >= self._due_s:
            self._due_s = now_s + self._interval_s
            self._tell(json.dumps(self._collected(now_s)))

    def _collected(self, now_s: float) -> Json:
        found, metrics = self._consumer.describe(), _by_owner(self._consumer.metrics())
        of_consumer = metrics.get((CONSUMER_GROUP,), {})
        return {
            "name": found.client_id,
            "client_id": found.client_id,
            "type": "consumer",
            "ts": int(now_s * 1e6),
            "time": int(time.time()),
            "age": int((now_s - self._began_s) * 1e6),
            "simple_cnt": 0,
            **dict.fromkeys(_OF_PRODUCERS, 0),
            **_renamed({"replyq": "background-event-queue-size", **_TRAFFIC}, of_consumer),
            **_renamed(_CONSUMED, metrics.get((FETCH_GROUP,), {})),
            "brokers": _brokers(found, self._bootstrap, metrics),
            "topics": self._topics(found.partitions),
            **({} if found.group is None else {"cgrp": _group(found.group, metrics.get((COORDINATOR_GROUP,), {}))}),
        }

    def _topics(self, partitions: Iterable[PartitionDescription]) -> Json:
        topics: dict[str, dict[str, Json]] = {}
        for one in partitions:
            if one.cursor == Cursor.MAIN.value:  # librdkafka has no other
                topics.setdefault(one.topic, {})[str(one.partition)] = self._partition(one)
        return {topic: {"topic": topic, "partitions": found} for topic, found in topics.items()}

    def _partition(self, found: PartitionDescription) -> Json:
        stored = self._stored.offset_of(TopicPartition(found.topic, found.partition))
        end = None if found.position is None or found.lag is None else found.position + found.lag
        leader = _node_id(found.leader)
        return {
            "partition": found.partition,
            "broker": leader,
            "leader": leader,
            "desired": True,
            "unknown": any(cause.kind is CauseKind.UNKNOWN_TOPIC for cause in found.causes),
            "fetch_state": "active" if found.fetch_position is not None else "offset-query",
            "next_offset": _offset(found.fetch_position),
            "app_offset": _offset(found.position),
            "stored_offset": _offset(stored),
            "committed_offset": _offset(found.committed),
            "hi_offset": _offset(found.high_watermark),
            "ls_offset": _offset(found.last_stable_offset),
            "consumer_lag": _behind(end, found.committed),  # behind the committed offset, not the position
            "consumer_lag_stored": _behind(end, stored),
        }


def _by_owner(metrics: Mapping[MetricName, float]) -> dict[tuple[str, ...], dict[str, float]]:
    """The metrics by group and values of tags, without the first tag, which is the client."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for metric, value in metrics.items():
        found.setdefault((metric.group, *(value for _, value in metric.tags[1:])), {})[metric.name] = value
    return found


def _renamed(names: Mapping[str, str], numbers: Numbers) -> Json:
    """The numbers that exist, under librdkafka's names."""
    return {theirs: int(numbers[ours]) for theirs, ours in names.items() if math.isfinite(numbers.get(ours, math.nan))}


def _brokers(
    found: ConsumerDescription, bootstrap: Mapping[int, str], metrics: Mapping[tuple[str, ...], Numbers]
) -> Json:
    """The brokers that requests were sent to."""
    led: dict[int, dict[str, Json]] = {}
    addresses, nodes = dict(bootstrap), [one.leader for one in found.partitions]
    if found.group is not None:
        nodes.append(found.group.coordinator)
    for one in found.partitions:
        here: Json = {"topic": one.topic, "partition": one.partition}
        led.setdefault(_node_id(one.leader), {})[f"{one.topic}-{one.partition}"] = here
    for node in filter(None, nodes):
        addresses[_node_id(node)] = node.partition(" ")[0]
    down = {cause.address for cause in found.all_causes() if cause.kind in _IS_DOWN}
    brokers: Json = {}
    for owner, numbers in metrics.items():
        if owner[0] == NODE_GROUP:
            number = int(owner[1].removeprefix("node-"))
            address = addresses.get(number, "")
            name = f"{address}/{number if number >= 0 else 'bootstrap'}"
            of_it: Json = {"name": name, "toppars": led.get(number, {})}
            brokers[name] = {**of_it, **_broker(number, address, numbers, is_down=address in down)}
    return brokers


def _broker(number: int, address: str, numbers: Numbers, *, is_down: bool) -> Json:
    traffic = {theirs.replace("_", ""): ours for theirs, ours in _TRAFFIC.items()}
    latency = {"avg": "request-latency-avg", "max": "request-latency-max"}
    in_us = {name: numbers.get(name, math.nan) * 1000.0 for name in latency.values()}
    return {
        "nodeid": max(_UNKNOWN, number),
        "nodename": address,
        "source": "learned" if number >= 0 else "configured",
        "state": "DOWN" if is_down else "UP",
        **_renamed(traffic, numbers),
        "rtt": _renamed(latency, in_us),
    }


def _group(found: GroupDescription, numbers: Numbers) -> Json:
    joined = "init" if found.generation is None else "steady"
    age_s = numbers.get("last-rebalance-seconds-ago", -1.0)
    return {
        "state": "up" if found.is_coordinator_connected else "query-coord",
        "join_state": joined if found.rebalancing_s is None else "wait-join",
        "rebalance_age": int(max(0.0, age_s) * 1000.0),
        **_renamed({"rebalance_cnt": "rebalance-total", "assignment_size": "assigned-partitions"}, numbers),
    }


def _node_id(text: str | None) -> int:
    """The node id at the end of a broker in a description: "host:port (id 1)"."""
    return _UNKNOWN if text is None else int(text.partition(" (id ")[2].rstrip(")"))


def _behind(end: int | None, offset: int | None) -> int:
    return _UNKNOWN if end is None or offset is None else max(0, end - offset)


def _offset(found: int | None) -> int:
    return OFFSET_INVALID if found is None else found
