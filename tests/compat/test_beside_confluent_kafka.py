"""The same small programs with confluent-kafka and with kwire's adapter: what comes is the same."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from kwire.compat import confluent_kafka as adapter
from kwire.testing import Cluster

pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize("module", [confluent_kafka, adapter], ids=["confluent-kafka", "kwire"])


def settings(cluster: Cluster, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def read(consumer: Any, count: int) -> list[Any]:  # noqa: ANN401  of either module
    found: list[Any] = []
    for _ in range(200):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        if len(found) == count:
            break
    return found


@BOTH
def test_messages_and_their_methods(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["orders"])
    messages = read(consumer, 6)
    assert sorted(message.value() for message in messages) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    of_0 = [message for message in messages if message.partition() == 0]
    assert [(m.topic(), m.offset(), m.key(), m.headers(), len(m)) for m in of_0] == [
        ("orders", offset, None, None, 1) for offset in range(3)
    ]
    assert {m.timestamp()[0] for m in messages} == {1}
    assert consumer.poll(0.1) is None
    consumer.close()
    with pytest.raises(RuntimeError):
        consumer.poll(0.1)


@BOTH
def test_commits_cover_what_was_returned(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    tp = module.TopicPartition("orders", 0)
    consumer.assign([tp])
    read(consumer, 2)
    assert [(p.partition, p.offset) for p in consumer.commit(asynchronous=False)] == [(0, 2)]
    assert [p.offset for p in consumer.committed([tp])] == [2]
    assert [p.offset for p in consumer.position([tp])] == [2]
    (third,) = read(consumer, 1)
    consumer.commit(third, asynchronous=False)
    assert [p.offset for p in consumer.committed([tp, module.TopicPartition("orders", 1)])] == [3, -1001]
    consumer.close()


@BOTH
def test_the_end_of_a_partition_is_an_event(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_partition_eof=True))
    consumer.assign([module.TopicPartition("orders", 1, 1)])
    seen: list[object] = []
    for _ in range(200):
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == module.KafkaError._PARTITION_EOF
            assert message.error().name() == "_PARTITION_EOF"
            seen.append((message.partition(), message.offset()))
            break
        seen.append(message.value())
    assert seen == [b"3", b"5", (1, 3)]
    consumer.close()


@BOTH
def test_where_to_begin_is_said_in_the_callback(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[object] = []

    def on_assign(consumer: Any, partitions: list[Any]) -> None:  # noqa: ANN401
        told.append(("assigned", sorted((p.topic, p.partition, p.offset) for p in partitions)))
        for partition in partitions:
            partition.offset = 2
        consumer.assign(partitions)

    def on_revoke(_: object, partitions: list[Any]) -> None:
        told.append(("revoked", sorted((p.topic, p.partition) for p in partitions)))

    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["^ord.*"], on_assign=on_assign, on_revoke=on_revoke)
    assert sorted(message.value() for message in read(consumer, 2)) == [b"4", b"5"]
    consumer.close()
    assert told == [
        ("assigned", [("orders", 0, -1001), ("orders", 1, -1001)]),
        ("revoked", [("orders", 0), ("orders", 1)]),
    ]


@BOTH
def test_looking_up(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    tp = module.TopicPartition("orders", 1)
    assert consumer.get_watermark_offsets(tp, timeout=5) == (0, 3)
    assert [p.offset for p in consumer.offsets_for_times([module.TopicPartition("orders", 1, 4_000_000_000_000)])] == [
        -1
    ]
    topic = consumer.list_topics("orders", timeout=5).topics["orders"]
    assert (topic.topic, sorted(topic.partitions), topic.error) == ("orders", [0, 1], None)
    assert consumer.assignment() == []
    consumer.close()


@BOTH
def test_several_at_once_and_seeking_and_pausing(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    tp = module.TopicPartition("orders", 0, module.OFFSET_BEGINNING)
    consumer.assign([tp])
    assert [m.value() for m in consumer.consume(3, timeout=10)] == [b"0", b"2", b"4"]
    consumer.seek(module.TopicPartition("orders", 0, 1))
    assert [m.value() for m in consumer.consume(2, timeout=10)] == [b"2", b"4"]
    consumer.pause([tp])
    cluster.produce("orders", b"6", partition=0)
    assert consumer.consume(1, timeout=0.3) == []
    consumer.resume([tp])
    assert [m.value() for m in consumer.consume(1, timeout=10)] == [b"6"]
    consumer.close()


@BOTH
def test_offsets_are_stored_by_hand(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_auto_commit=True, enable_auto_offset_store=False))
    consumer.subscribe(["orders"])
    messages = read(consumer, 6)
    consumer.store_offsets(message=next(m for m in messages if m.partition() == 0 and m.offset() == 1))
    consumer.close()
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 2}


def test_callbacks_that_kwire_cannot_call_are_warned_of(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    committed: list[object] = []
    given = settings(cluster, enable_auto_commit=True)
    consumer = adapter.Consumer(given, error_cb=print, on_commit=lambda error, partitions: committed.append(error))
    consumer.subscribe(["orders"])
    read(consumer, 6)
    consumer.commit()
    consumer.close()
    assert committed == [None]
    (line,) = [message for message in caplog.messages if "never called" in message]
    assert "error_cb" in line
    assert "on_commit" not in line


def test_an_error_takes_the_place_of_a_message(cluster: Cluster) -> None:
    cluster.deny(topic="orders")
    consumer = adapter.Consumer(settings(cluster))
    consumer.subscribe(["orders"])
    message = consumer.poll(10)
    assert message is not None
    error = message.error()
    assert error is not None
    assert (error.code(), message.value()) == (adapter.KafkaError.TOPIC_AUTHORIZATION_FAILED, None)
    consumer.close()


def test_bad_settings_are_a_kafka_exception() -> None:
    with pytest.raises(adapter.KafkaException):
        adapter.Consumer({"bootstrap.servers": "b:1", "group.idd": "x"})
