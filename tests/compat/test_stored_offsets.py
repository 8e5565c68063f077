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
        **{name if callable(value) else name.replace("_", "."): value for name, value in more.items()},
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
    with pytest.raises(module.KafkaException) as raised:
        consumer.store_offsets(offsets=[module.TopicPartition("others", 0, 1)])
    assert raised.value.args[0].code() == module.KafkaError._UNKNOWN_PARTITION
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


# --- of each message that is returned -------------------------------------------------------------------------------


STORES = {"enable_auto_offset_store": True, "auto_commit_interval_ms": 3_600_000}


def read_all(consumer: Any) -> None:  # noqa: ANN401
    found = 0
    while found < 6:
        message = consumer.poll(10)
        assert message is not None
        found += message.error() is None


def wait_for_commits(consumer: Any, cluster: Cluster, wanted: dict[int, int]) -> None:  # noqa: ANN401
    for _ in range(100):
        if committed(cluster) == wanted:
            break
        consumer.poll(0.05)
    assert committed(cluster) == wanted


@BOTH
@pytest.mark.parametrize("let_go", ["unassign", "assign", "close"])
def test_they_are_committed_when_partitions_are_let_go(cluster: Cluster, module: Any, let_go: str) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, **STORES)
    consumer.assign([module.TopicPartition("orders", 0), module.TopicPartition("orders", 1)])
    read_all(consumer)
    if let_go == "assign":
        consumer.assign([module.TopicPartition("orders", 0)])
    else:
        getattr(consumer, let_go)()
    if let_go == "close":
        assert committed(cluster) == {0: 3, 1: 3}
    else:
        wait_for_commits(consumer, cluster, {0: 3, 1: 3})
        consumer.close()


@BOTH
def test_they_are_committed_when_one_partition_is_let_go(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, **STORES)
    consumer.assign([module.TopicPartition("orders", 0), module.TopicPartition("orders", 1)])
    read_all(consumer)
    consumer.incremental_unassign([module.TopicPartition("orders", 0)])
    wait_for_commits(consumer, cluster, {0: 3})
    consumer.close()
    assert committed(cluster) == {0: 3, 1: 3}


@BOTH
@pytest.mark.parametrize("let_go", ["unsubscribe", "unassign", "close"])
def test_they_are_committed_when_the_group_is_left(cluster: Cluster, module: Any, let_go: str) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, **STORES)
    consumer.subscribe(["orders"])
    read_all(consumer)
    getattr(consumer, let_go)()
    if let_go != "close":
        wait_for_commits(consumer, cluster, {0: 3, 1: 3})
        consumer.close()
    assert committed(cluster) == {0: 3, 1: 3}


@BOTH
def test_they_are_committed_though_on_revoke_raises(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """And forgotten: afterwards they are another member's to commit."""

    def on_revoke(consumer: object, partitions: object) -> None:
        raise LookupError("of the callback")

    consumer = consumer_of(cluster, module, **STORES)
    consumer.subscribe(["orders"], on_revoke=on_revoke)
    read_all(consumer)
    with pytest.raises(LookupError):
        consumer.close()
    assert committed(cluster) == {0: 3, 1: 3}


@BOTH
def test_without_an_interval_they_are_committed_in_the_end(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, enable_auto_offset_store=True, auto_commit_interval_ms=0)
    consumer.subscribe(["orders"])
    read_all(consumer)
    assert consumer.poll(0.3) is None
    assert committed(cluster) == {}
    consumer.close()
    assert committed(cluster) == {0: 3, 1: 3}


@BOTH
def test_unsubscribe_leaves_what_was_assigned_by_hand(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, enable_auto_commit=False)
    consumer.assign([module.TopicPartition("orders", 0, 2)])
    consumer.unsubscribe()
    assert [one.partition for one in consumer.assignment()] == [0]
    assert consumer.poll(10).offset() == 2
    consumer.close()


@BOTH
def test_a_subscription_takes_the_place_of_what_was_assigned_by_hand(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, enable_auto_commit=False)
    consumer.assign([module.TopicPartition("orders", 0, 3)])
    assert consumer.poll(0.3) is None
    consumer.subscribe(["orders"])
    read_all(consumer)
    consumer.close()


@BOTH
def test_a_seek_changes_nothing_of_what_a_commit_covers(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, enable_auto_offset_store=True, enable_auto_commit=False)
    consumer.assign([module.TopicPartition("orders", 0, 0)])
    assert len(consumer.consume(3, 10)) == 3
    consumer.seek(module.TopicPartition("orders", 0, 1))
    assert [(at.partition, at.offset) for at in consumer.commit(asynchronous=False)] == [(0, 3)]
    with pytest.raises(module.KafkaException) as raised:
        consumer.commit(asynchronous=False)
    assert raised.value.args[0].code() == module.KafkaError._NO_OFFSET
    consumer.close()
    assert committed(cluster) == {0: 3}


@BOTH
def test_a_commit_covers_what_is_new(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = consumer_of(cluster, module, enable_auto_offset_store=True, enable_auto_commit=False)
    consumer.assign([module.TopicPartition("orders", 0), module.TopicPartition("orders", 1)])
    read_all(consumer)
    assert [(at.partition, at.offset) for at in consumer.commit(asynchronous=False)] == [(0, 3), (1, 3)]
    cluster.produce("orders", b"6", partition=0)
    message = consumer.poll(10)
    assert [(at.partition, at.offset) for at in consumer.commit(asynchronous=False)] == [(0, 4), (1, -1001)]
    consumer.commit(message, asynchronous=False)
    with pytest.raises(module.KafkaException):
        consumer.commit(asynchronous=False)
    consumer.close()


@BOTH
def test_on_commit_is_told_of_commits_in_the_background(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    # The peer tells of a partition without a position as well, at -1001, when the interval ends between the two.
    told: dict[int, int] = {}
    refusals: list[object] = []

    def on_commit(error: Any, partitions: list[Any]) -> None:  # noqa: ANN401
        if error:
            refusals.append(error.code())
        else:
            told.update({one.partition: one.offset for one in partitions if one.offset >= 0})

    consumer = consumer_of(cluster, module, enable_auto_offset_store=True, on_commit=on_commit)
    consumer.subscribe(["orders"])
    read_all(consumer)
    for _ in range(100):
        if told == {0: 3, 1: 3}:
            break
        consumer.poll(0.05)
    assert told == {0: 3, 1: 3}
    cluster.deny(group="billing", operation="READ")
    cluster.produce("orders", b"6", partition=0)
    for _ in range(100):
        if refusals:
            break
        consumer.poll(0.05)
    assert set(refusals) == {module.KafkaError.GROUP_AUTHORIZATION_FAILED}
    consumer.close()


@pytest.mark.parametrize("name", ["enable.auto.commit", "auto.commit.enable"])
def test_auto_commit_is_turned_off_by_either_name(cluster: Cluster, name: str) -> None:
    given = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = adapter.Consumer({**given, name: "false"})
    consumer.subscribe(["orders"])
    read_all(consumer)
    consumer.close()
    assert committed(cluster) == {}
    with pytest.raises(adapter.KafkaException):
        adapter.Consumer({**given, name: "perhaps"})


# --- the object -----------------------------------------------------------------------------------------------------


def test_the_newest_of_each_partition_is_left_until_it_is_committed() -> None:
    stored = StoredOffsets(math.inf, 0.0)
    stored.store({A: ONE, B: ONE})
    stored.store({A: TWO})
    assert stored.left() == {A: TWO, B: ONE}
    stored.committed({A: ONE, B: ONE})
    assert stored.left() == {A: TWO}
    stored.forget([A])
    assert stored.left() == {}
    assert (stored.due(0.0), stored.wait_s(0.0)) == ({}, math.inf)


def test_they_are_due_once_in_an_interval() -> None:
    stored = StoredOffsets(5.0, 1.0)
    assert stored.wait_s(1.0) == math.inf
    stored.store({A: ONE})
    assert (stored.due(2.0), stored.wait_s(2.0)) == ({}, 4.0)
    assert stored.due(6.0) == {A: ONE}
    assert (stored.due(7.0), stored.wait_s(7.0)) == ({}, 4.0)
    assert stored.due(11.0) == {A: ONE}, "the commit has not been answered"
    stored.committed({A: ONE})
    assert stored.wait_s(20.0) == math.inf
