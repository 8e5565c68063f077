"""`store_offsets` of confluent-kafka: what is stored is committed, whatever happens in between."""

from __future__ import annotations

import math
from typing import Any

import confluent_kafka
import pytest

from kwire.compat import confluent_kafka as adapter
from kwire.compat.confluent_kafka.stored_offsets import StoredOffsets
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.testing import Cluster

BOTH = pytest.mark.parametrize("module", [confluent_kafka, adapter], ids=["confluent-kafka", "kwire"])
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
ONE, TWO = OffsetAndMetadata(1), OffsetAndMetadata(2)


def consumer_of(cluster: Cluster, module: Any, **more: object) -> Any:  # noqa: ANN401
    given = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False,
        "auto.commit.interval.ms": 100,
        "partition.assignment.strategy": "range",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return module.Consumer(given)


def store_all(consumer: Any) -> None:  # noqa: ANN401
    consumer.subscribe(["orders"])
    found = 0
    while found < 6:
        message = consumer.poll(10)
        assert message is not None
        if message.error() is None:
            consumer.store_offsets(message)
            found += 1


def committed(cluster: Cluster) -> dict[int, int]:
    return {tp.partition: at.offset for tp, at in cluster.committed("billing").items()}


@BOTH
def test_they_are_committed_while_no_message_comes(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module)
    store_all(consumer)
    for _ in range(100):
        if committed(cluster) == {0: 3, 1: 3}:
            break
        consumer.poll(0.1)
    assert committed(cluster) == {0: 3, 1: 3}
    consumer.close()


@BOTH
def test_they_are_committed_before_partitions_go_to_another_member(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    first = consumer_of(cluster, module, auto_commit_interval_ms=3_600_000)
    store_all(first)
    second = consumer_of(cluster, module)
    second.subscribe(["orders"])
    for _ in range(200):
        first.poll(0.05)
        assert second.poll(0.05) is None, "read again"
        if second.assignment():
            break
    assert len(second.assignment()) == 1
    assert second.poll(0.2) is None, "read again"
    second.close()
    first.close()


@BOTH
def test_a_commit_that_fails_leaves_them_for_the_next(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, enable_auto_commit=False)
    store_all(consumer)
    cluster.deny(group="billing", operation="READ")
    with pytest.raises(module.KafkaException) as raised:
        consumer.commit(asynchronous=False)
    assert raised.value.args[0].code() == module.KafkaError.GROUP_AUTHORIZATION_FAILED
    cluster.allow(group="billing", operation="READ")
    assert sorted(at.offset for at in consumer.commit(asynchronous=False)) == [3, 3]
    with pytest.raises(module.KafkaException) as raised:
        consumer.commit(asynchronous=False)
    assert raised.value.args[0].code() == module.KafkaError._NO_OFFSET
    consumer.close()
    assert committed(cluster) == {0: 3, 1: 3}


@BOTH
def test_what_is_not_assigned_is_not_stored(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, enable_auto_commit=False)
    consumer.assign([module.TopicPartition("orders", 0)])
    assert consumer.poll(10) is not None
    with pytest.raises(module.KafkaException) as raised:
        consumer.store_offsets(offsets=[module.TopicPartition("orders", 1, 1)])
    assert raised.value.args[0].code() == module.KafkaError._STATE
    consumer.store_offsets(offsets=[module.TopicPartition("orders", 0, 2), module.TopicPartition("orders", 1, 1)])
    assert [(at.partition, at.offset) for at in consumer.commit(asynchronous=False)] == [(0, 2)]
    consumer.close()


@BOTH
def test_nothing_is_stored_by_hand_where_every_message_is(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, enable_auto_offset_store=True)
    consumer.assign([module.TopicPartition("orders", 0)])
    with pytest.raises(module.KafkaException) as raised:
        consumer.store_offsets(offsets=[module.TopicPartition("orders", 0, 1)])
    assert raised.value.args[0].code() == module.KafkaError._INVALID_ARG
    consumer.close()


def test_the_newest_of_each_partition_is_left_until_it_is_committed() -> None:
    stored = StoredOffsets(math.inf)
    stored.store({A: ONE, B: ONE})
    stored.store({A: TWO})
    assert stored.left() == {A: TWO, B: ONE}
    stored.committed({A: ONE, B: ONE})
    assert stored.left() == {A: TWO}
    stored.forget([A])
    assert stored.left() == {}
    assert (stored.due(0.0), stored.wait_s(0.0)) == ({}, math.inf)


def test_they_are_due_once_in_an_interval() -> None:
    stored = StoredOffsets(5.0)
    assert stored.wait_s(1.0) == math.inf
    stored.store({A: ONE})
    assert stored.due(1.0) == {A: ONE}
    assert (stored.due(2.0), stored.wait_s(2.0)) == ({}, 4.0)
    assert stored.due(6.0) == {A: ONE}, "the commit has not been answered"
    stored.committed({A: ONE})
    assert stored.wait_s(20.0) == math.inf
