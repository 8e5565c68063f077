"""Small things that programs of kafka-python rely on."""

from __future__ import annotations

import threading
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from kwire import Header
from kwire.compat import kafka_python as adapter
from kwire.compat.kafka_python import errors
from kwire.testing import Cluster, NewRecord

if TYPE_CHECKING:
    from tests.compat.kafka_python_consumers import BOTH, open_consumer
else:
    from kafka_python_consumers import BOTH, open_consumer

with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
    import kafka

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@BOTH
@pytest.mark.parametrize("group", [UUID(int=7), 5], ids=["uuid", "number"])
def test_texts_may_be_given_as_numbers_and_uuids(cluster: Cluster, module: ModuleType, group: object) -> None:
    consumer = open_consumer(module, cluster, "orders", group_id=group, client_id=5)
    assert len(list(consumer)) == 6
    consumer.close()
    if module is adapter:  # kafka-python writes these to brokers as they are
        assert sum(at.offset for at in cluster.committed(str(group)).values()) == 6


@BOTH
@pytest.mark.parametrize(("commits", "committed"), [(0, 0), (1, 6)])
def test_auto_commit_may_be_a_number(cluster: Cluster, module: ModuleType, commits: int, committed: int) -> None:
    consumer = open_consumer(module, cluster, "orders", group_id="billing", enable_auto_commit=commits)
    assert len(list(consumer)) == 6
    consumer.close()
    assert sum(at.offset for at in cluster.committed("billing").values()) == committed


@pytest.mark.parametrize("group", [None, "billing"])
def test_a_pattern_as_a_topic_is_answered_with_the_argument_for_patterns(cluster: Cluster, group: str | None) -> None:
    """The advice was kwire's own, subscribe(re.compile(...)), which this consumer refuses."""
    with pytest.raises(errors.IllegalArgumentError, match=r"subscribe\(pattern='\^orders\.\*'\)"):
        open_consumer(adapter, cluster, "orders*", group_id=group)
    consumer = open_consumer(adapter, cluster, group_id=group)
    for topics in (["bills", "orders*"], iter(["bills", "orders*"])):
        with pytest.raises(errors.IllegalArgumentError, match=r"subscribe\(pattern='\^orders\.\*'\)"):
            consumer.subscribe(topics)


@BOTH
def test_headers_are_plain_tuples(cluster: Cluster, module: ModuleType) -> None:
    cluster.produce("orders", NewRecord(b"6", None, (Header("trace", b"7"), Header("größe", None))), partition=0)
    consumer = open_consumer(module, cluster)
    tp = module.TopicPartition("orders", 0)
    consumer.assign([tp])
    consumer.seek(tp, 3)
    record = next(consumer)
    assert repr(record.headers) == "[('trace', b'7'), ('größe', None)]"
    assert record.serialized_header_size == 13
    consumer.close()


@BOTH
def test_a_poll_that_does_not_move_on_returns_as_many_as_it_may(cluster: Cluster, module: ModuleType) -> None:
    cluster.create_topic("single", partitions=1)
    cluster.produce("single", *(b"%d" % number for number in range(6)))
    consumer = open_consumer(module, cluster, "single")
    found: dict[Any, list[Any]] = {}
    while not found:
        found = consumer.poll(500, max_records=4, update_offsets=False)
    assert [record.offset for records in found.values() for record in records] == [0, 1, 2, 3]
    consumer.close()


@BOTH
def test_a_closed_consumer_has_nothing_assigned(cluster: Cluster, module: ModuleType) -> None:
    consumer = open_consumer(module, cluster, "orders", group_id="billing")
    assert len(list(consumer)) == 6
    consumer.close()
    assert (consumer.assignment(), consumer.paused(), consumer.subscription()) == (set(), set(), {"orders"})


@BOTH
def test_a_closed_consumer_that_has_read_without_a_group_has_nothing_assigned(
    cluster: Cluster, module: ModuleType
) -> None:
    consumer = open_consumer(module, cluster, "orders")
    assert len(list(consumer)) == 6
    consumer.close()
    assert consumer.subscription() == {"orders"}
    if module is adapter:
        assert consumer.assignment() == set()


def test_whatever_kafka_python_has_a_default_for_can_be_looked_up(cluster: Cluster) -> None:
    with open_consumer(adapter, cluster) as consumer:
        assert not kafka.KafkaConsumer.DEFAULT_CONFIG.keys() - consumer.config.keys()
        assert consumer.config["client_id"].startswith("consumer-kwire-")
        assert consumer.config["bootstrap_timeout_ms"] == 30_000


def test_another_thread_may_look_topics_up_while_one_polls(cluster: Cluster) -> None:
    """It is the loop that failed, if the other thread was in a call when the next poll came."""
    consumer = open_consumer(adapter, cluster, "orders", group_id="billing")
    found: list[tuple[set[str], set[int], bool]] = []

    def look_up() -> None:
        found.extend(
            (consumer.topics(), consumer.partitions_for_topic("orders"), consumer.bootstrap_connected())
            for _ in range(100)
        )

    thread = threading.Thread(target=look_up)
    thread.start()
    polled = 0
    while thread.is_alive() or polled < 6:
        polled += sum(map(len, consumer.poll(1).values()))
    assert found == [({"orders"}, {0, 1}, True)] * 100
    assert polled == 6
    consumer.close()
    with pytest.raises(errors.IllegalStateError, match="closed"):
        consumer.topics()


def test_a_look_up_leaves_a_wakeup_to_the_thread_that_polls(cluster: Cluster) -> None:
    consumer = open_consumer(adapter, cluster, "orders")
    consumer._kwire_consumer.wakeup()
    assert consumer.topics() == {"orders"}
    with pytest.raises(errors.KafkaError, match="wakeup"):
        consumer.poll(10_000)
    consumer.close()
