"""What each metric is called, what it is of, and what it means: for exporters and the documentation.

A test compares it with what consumers answer. What ends in `-total` only grows; everything else goes up and down.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.metrics.names import (
    APP_INFO_GROUP,
    CATCH_UP_GROUP,
    CONSUMER_GROUP,
    COORDINATOR_GROUP,
    FETCH_GROUP,
    NODE_GROUP,
    MetricName,
)

CLIENT, TOPIC, PARTITION, NODE = (), ("topic",), ("topic", "partition"), ("node-id",)
_LAG = "Records between the position and the end of the log"
_LEAD = "Records between the beginning of the log and the position"


class Description(NamedTuple):
    """One row: a group, what it is of beside the client, a name, and what the number means."""

    group: str
    tags: tuple[str, ...]
    name: str
    text: str

    @property
    def is_counter(self) -> bool:
        """Whether it only grows, from 0."""
        return self.name.endswith("-total")


def _meter(name: str, what: str) -> Iterator[tuple[str, str]]:
    yield f"{name}-rate", f"{what} a second"
    yield f"{name}-total", f"{what}, all"


def _avg_max(name: str, what: str) -> Iterator[tuple[str, str]]:
    yield f"{name}-avg", f"{what}: average"
    yield f"{name}-max", f"{what}: greatest"


def _consumed(where: str) -> Iterator[tuple[str, str]]:
    yield from _avg_max("fetch-size", f"Bytes of records in the answer to a fetch{where}")
    yield "records-per-request-avg", f"Records in the answer to a fetch{where}: average"
    yield from _meter("bytes-consumed", f"Bytes of records collected{where}, inflated, without batch headers")
    yield from _meter("records-consumed", f"Records collected{where}")


def _fetches() -> Iterator[tuple[str, str]]:
    yield from _consumed("")
    yield from _avg_max("fetch-latency", "Milliseconds until a fetch is answered")
    yield from _meter("fetch", "Fetches answered")
    yield from _avg_max("fetch-throttle-time", "Milliseconds that a quota makes this client wait after a fetch")
    yield "records-lag-max", f"{_LAG}: the greatest of any assigned partition"
    yield "records-lead-min", f"{_LEAD}: the fewest of any assigned partition"


def _partition() -> Iterator[tuple[str, str]]:
    yield "records-lag", f"{_LAG}, when the newest one was collected"
    yield from _avg_max("records-lag", "The same")
    yield "records-lead", _LEAD
    yield "records-lead-avg", "The same: average"
    yield "records-lead-min", "The same: least"
    yield "preferred-read-replica", "The follower that is read from (KIP-392); -1: the leader"


def _coordinator() -> Iterator[tuple[str, str]]:
    yield "assigned-partitions", "Partitions assigned"
    yield from _avg_max("commit-latency", "Milliseconds until a commit is answered")
    yield from _meter("commit", "Commits answered")
    for name in ("join", "sync"):
        yield from _avg_max(f"{name}-time", f"Milliseconds a {name} takes; of classic groups alone, as all of these")
        yield from _meter(name, f"{name.capitalize()}s that were accepted")
    yield "heartbeat-response-time-max", "Milliseconds until a heartbeat is answered: greatest"
    yield from _meter("heartbeat", "Heartbeats answered")
    yield "last-heartbeat-seconds-ago", "Seconds since a heartbeat was sent; -1: never"
    yield from _avg_max("rebalance-latency", "Milliseconds a rebalance takes this member")
    yield "rebalance-latency-total", "Milliseconds of all rebalances together"
    yield "rebalance-total", "Rebalances, all"
    yield "rebalance-rate-per-hour", "Rebalances an hour: those of the recent window, and none in the hour before it"
    yield "failed-rebalance-total", "Attempts that failed; the first join of a new classic member does (KIP-394)"
    yield "failed-rebalance-rate-per-hour", "Attempts that failed, an hour: counted in the same way"
    yield "last-rebalance-seconds-ago", "Seconds since the last rebalance ended; -1: never"
    for kind in ("assigned", "revoked", "lost"):
        yield from _avg_max(f"partition-{kind}-latency", f"Milliseconds the listener takes over partitions {kind}")


def _traffic() -> Iterator[tuple[str, str]]:
    yield from _meter("request", "Requests sent")
    yield from _avg_max("request-size", "Bytes of a request")
    yield from _meter("outgoing-byte", "Bytes sent")
    yield from _meter("response", "Answers received")
    yield from _meter("incoming-byte", "Bytes received")


def _consumer() -> Iterator[tuple[str, str]]:
    yield "last-poll-seconds-ago", "Seconds since the last poll began; -1: never"
    yield from _avg_max("time-between-poll", "Milliseconds from one poll to the next")
    yield (
        "poll-idle-ratio-avg",
        "The share of time that passes inside of poll; near 0, handling records takes all of it",
    )
    yield "commit-sync-time-ns-total", "Nanoseconds spent in commit_sync"
    yield "committed-time-ns-total", "Nanoseconds spent in committed"
    yield "application-event-queue-size", "Events that wait for the network thread"
    yield from _avg_max(
        "application-event-queue-processing-time", "Milliseconds the network thread takes over all that waited"
    )
    yield "background-event-queue-size", "Events that wait for the application's next poll"
    yield "unsent-requests-queue-size", "Requests that wait for a connection"
    yield from _avg_max("unsent-requests-queue-time", "Milliseconds until a request goes out")
    yield from _avg_max(
        "time-between-network-thread-poll", "Milliseconds from one turn of the network thread to the next"
    )
    yield "connection-count", "Connections that are open"
    yield from _meter("connection-creation", "Connections made")
    yield from _meter("connection-close", "Connections closed")
    yield from _meter("successful-authentication", "Connections whose TLS or login was accepted")
    yield "successful-authentication-no-reauth-total", "The same, as Java's clients have it"
    yield from _meter("failed-authentication", "Connections whose TLS or login was refused")
    yield from _meter("successful-reauthentication", "Logins renewed (KIP-368)")
    yield from _meter("failed-reauthentication", "Logins that could not be renewed")
    yield from _avg_max("reauthentication-latency", "Milliseconds renewing a login takes")
    yield from _traffic()
    yield from _meter("network-io", "Requests sent and answers received")


def _node() -> Iterator[tuple[str, str]]:
    yield from _traffic()
    yield from _avg_max("request-latency", "Milliseconds until a request is answered")


def _catch_up() -> Iterator[tuple[str, str]]:
    yield "catch-up-start-offset", "The first offset that is to be caught up with"
    yield "catch-up-end-offset", "The offset after the last of them"
    yield "catch-up-done-total", "Offsets returned, all"
    yield "catch-up-left", "Offsets to be returned yet"
    yield "catch-up-rate", "Offsets returned a second"
    yield "catch-up-seconds-left", "How many seconds that will take; not a number while nothing moves"


def _app_info() -> Iterator[tuple[str, str]]:
    yield "start-time-ms", "When the consumer was made, in milliseconds since the epoch"


_GROUPS = (
    (FETCH_GROUP, CLIENT, _fetches()),
    (FETCH_GROUP, TOPIC, _consumed(" of the topic")),
    (FETCH_GROUP, PARTITION, _partition()),
    (COORDINATOR_GROUP, CLIENT, _coordinator()),
    (CONSUMER_GROUP, CLIENT, _consumer()),
    (NODE_GROUP, NODE, _node()),
    (CATCH_UP_GROUP, PARTITION, _catch_up()),
    (APP_INFO_GROUP, CLIENT, _app_info()),
    (APP_INFO_GROUP, ("version",), iter((("version", "Always 1; the version is a tag"),))),
)

CATALOGUE = tuple(Description(group, tags, name, text) for group, tags, rows in _GROUPS for name, text in rows)


def description_of(metric: MetricName) -> Description:
    """The row of a metric."""
    return _BY_KEY[metric.group, tuple(word for word, _ in metric.tags[1:]), metric.name]


_BY_KEY = {(each.group, each.tags, each.name): each for each in CATALOGUE}
