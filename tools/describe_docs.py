"""`python -m tools.describe_docs`: writes what `describe()` answers in three set-ups into docs/describe.md.

Addresses, ids and times differ each time, so they are written in one way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from kwire import Consumer, TopicPartition
from kwire.clock import Deadline
from kwire.description.consumer_description import ConsumerDescription
from kwire.description.values import CauseKind
from kwire.errors import NoOffsetForPartitionError
from kwire.testing import Cluster

PAGE = Path(__file__).parents[1] / "docs" / "describe.md"
MARK = "<!-- written by python -m tools.describe_docs, do not edit -->\n"
END = "<!-- up to here -->\n"
PATIENCE_MS = 30_000.0
QUICK = {"reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 10, "retry_backoff_ms": 5, "retry_backoff_max_ms": 10}


def page() -> str:
    """The page with its examples as they have to be."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
    _, _, tail = rest.partition(END)
    return head + MARK + "".join(_examples()) + "\n" + END + tail


def _examples() -> Iterator[str]:
    for title, make in (
        ("A broker is down, and it was the one that led the partition", _broker_down),
        ("Another member has not given back what it has", _waits_for_another),
        ('Nothing is committed, and `auto_offset_reset` is "none"', _no_offset),
    ):
        yield f"\n### {title}\n\n```text\n{_same_each_time(str(make()))}\n```\n"


def _open(cluster: Cluster, **settings: object) -> Consumer[bytes, bytes]:
    defaults: dict[str, object] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "billing",
        "client_id": "desk",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 20,
    }
    return Consumer(config=defaults | QUICK | settings)


def _polled_until(
    consumer: Consumer[bytes, bytes], is_so: Callable[[ConsumerDescription], bool]
) -> ConsumerDescription:
    deadline = Deadline.after(PATIENCE_MS)
    while not is_so(found := consumer.describe()):
        if deadline.expired:
            raise TimeoutError(f"it never came to this:\n{found}")
        consumer.poll(0.01)
    return found


def _is_at_end(description: ConsumerDescription) -> bool:
    return bool(description.partitions) and all(each.lag == 0 for each in description.partitions)


def _broker_down() -> ConsumerDescription:
    with Cluster(brokers=2) as cluster, _open(cluster) as consumer:
        cluster.create_topic("orders", replication=1)
        cluster.move_coordinator("billing", 0)
        cluster.move_leader("orders", 0, 1)
        consumer.subscribe(["orders"])
        _polled_until(consumer, _is_at_end)
        cluster.kill_broker(1)

        def is_down(description: ConsumerDescription) -> bool:
            (partition,) = description.partitions
            kinds = [each.kind for each in (*description.causes, *partition.causes)]
            tries = [each.next_try_in_s is not None for each in (*description.causes, *partition.causes)]
            return kinds == [CauseKind.BROKER_DOWN, CauseKind.NO_LEADER] and tries == [False, True]

        return _polled_until(consumer, is_down)


def _waits_for_another() -> ConsumerDescription:
    with Cluster(brokers=1, topics={"orders": 1}) as cluster, _open(cluster, client_id="other") as other:
        other.subscribe(["orders"])
        _polled_until(other, _is_at_end)
        with _open(cluster) as consumer:
            consumer.subscribe(["orders"])
            return _polled_until(consumer, _waits_in_join)


def _waits_in_join(description: ConsumerDescription) -> bool:
    """The first join of a member is answered at once, with an id for the next one."""
    group = description.group
    return group is not None and group.state == "PREPARE_REBALANCE" and bool(group.member_id)


def _no_offset() -> ConsumerDescription:
    with Cluster(brokers=1, topics={"orders": 1}) as cluster, _open(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        deadline = Deadline.after(PATIENCE_MS)
        while not deadline.expired:
            try:
                consumer.poll(0.01)
            except NoOffsetForPartitionError:
                break
        return consumer.describe()


def _same_each_time(text: str) -> str:
    text = re.sub(r"it closed the connection|Connection re\w+( by peer)?", "Connection refused", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "kafka.example.net:9092", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "5f1c", text)
    text = re.sub(r"tried again (now|in [\d.]+ s)", "tried again in 0.1 s", text)
    text = re.sub(r"answered (never|[\d.]+ s ago)", "answered 0.2 s ago", text)
    text = re.sub(r"(for|rebalancing for) [\d.]+ s", r"\1 0.3 s", text)
    return re.sub(r"last poll [\d.]+ s ago", "last poll 0.0 s ago", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
