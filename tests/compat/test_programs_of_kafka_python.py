"""Programs of the kinds that kafka-python's documentation shows, run with it and with the adapter."""

from __future__ import annotations

import json
import threading
import warnings
from typing import Any

import pytest

from kwire.compat import kafka_python as adapter
from kwire.testing import Cluster, NewRecord

with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
    import kafka

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
BOTH = pytest.mark.parametrize("library", [kafka, adapter], ids=["kafka-python", "kwire"])


@BOTH
def test_the_first_program_of_its_readme(cluster: Cluster, library: Any) -> None:  # noqa: ANN401
    consumer = library.KafkaConsumer(
        "orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=1_000
    )
    found = [message.value for message in consumer]
    consumer.close()
    assert sorted(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]


@BOTH
def test_a_group_whose_offsets_are_committed_by_themselves(cluster: Cluster, library: Any) -> None:  # noqa: ANN401
    for expected in (6, 0):
        consumer = library.KafkaConsumer(
            "orders",
            group_id="my-group",
            bootstrap_servers=[cluster.bootstrap_servers],
            auto_offset_reset="earliest",
            consumer_timeout_ms=1_000,
        )
        assert len([f"{m.topic}:{m.partition}:{m.offset}: key={m.key} value={m.value}" for m in consumer]) == expected
        consumer.close()


@BOTH
def test_json_keys_and_headers(cluster: Cluster, library: Any) -> None:  # noqa: ANN401
    from kwire import Header

    cluster.create_topic("documents")
    cluster.produce("documents", NewRecord(b'{"id": 1}', b"a key", (Header("trace", b"7"),)))
    consumer = library.KafkaConsumer(
        "documents",
        bootstrap_servers=cluster.bootstrap_servers,
        key_deserializer=bytes.decode,
        value_deserializer=lambda data: json.loads(data.decode("ascii")),
        auto_offset_reset="earliest",
    )
    message = next(consumer)
    consumer.close()
    assert (message.key, message.value, message.headers) == ("a key", {"id": 1}, [("trace", b"7")])


@BOTH
def test_one_partition_by_hand_up_to_its_end(cluster: Cluster, library: Any) -> None:  # noqa: ANN401
    consumer = library.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    partition = library.TopicPartition("orders", 1)
    consumer.assign([partition])
    consumer.seek_to_end(partition)
    end = consumer.position(partition)
    consumer.seek_to_beginning(partition)
    found = []
    for message in consumer:
        found.append(message.value)
        if consumer.position(partition) >= end:
            break
    consumer.close()
    assert found == [b"1", b"3", b"5"]


@BOTH
def test_polls_with_commits_by_hand(cluster: Cluster, library: Any) -> None:  # noqa: ANN401
    consumer = library.KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="by-hand",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    done = 0
    while done < 6:
        for partition, messages in consumer.poll(timeout_ms=500, max_records=2).items():
            done += len(messages)
            offset = library.OffsetAndMetadata(messages[-1].offset + 1, "", -1)
            consumer.commit({partition: offset})
    consumer.close(autocommit=False)
    assert {tp.partition: at.offset for tp, at in cluster.committed("by-hand").items()} == {0: 3, 1: 3}


@BOTH
def test_a_thread_that_reads_until_it_is_told_to_stop(cluster: Cluster, library: Any) -> None:  # noqa: ANN401
    found: list[bytes] = []
    has_all, stop = threading.Event(), threading.Event()

    def work() -> None:
        consumer = library.KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=100
        )
        consumer.subscribe(["orders"])
        while not stop.is_set():
            for message in consumer:
                found.append(message.value)
                if len(found) == 6:
                    has_all.set()
                if stop.is_set():
                    break
        consumer.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert has_all.wait(30)
    stop.set()
    thread.join(30)
    assert sorted(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
