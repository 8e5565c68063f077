"""`close(timeout)` takes no longer than that, whatever its callbacks ask for while nobody answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf

import pytest

from kwire import AsyncConsumer, Consumer, OffsetAndMetadata, TopicPartition
from kwire.consumer.listener import RebalanceConsumer
from kwire.errors import CommitFailedError, IllegalStateError, KafkaError, KafkaTimeoutError
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing import Cluster

CLOSE_S = 0.3
# Those who answer take milliseconds. Before, each of these took `default_api_timeout_ms`, 60 s.
TOO_LONG_S = 10.0


@pytest.fixture
def consumer(kafka_cluster: Cluster) -> Consumer[bytes, bytes]:
    kafka_cluster.create_topic("t", partitions=1)
    kafka_cluster.produce("t", b"1")
    return Consumer(
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


@contextmanager
def in_time() -> Iterator[None]:
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < TOO_LONG_S


@pytest.mark.slow
def test_what_a_listener_commits_while_commits_are_not_answered_is_given_up_in_time(
    kafka_cluster: Cluster, consumer: Consumer[bytes, bytes]
) -> None:
    consumer.subscribe(["t"], on_revoked=lambda inner, partitions: inner.commit_sync())
    while not consumer.poll(10.0):
        pass
    kafka_cluster.control.on(OffsetCommitRequest).drop()
    with in_time(), pytest.raises(KafkaTimeoutError, match="commit_sync took too long"):
        consumer.close(CLOSE_S)


def test_what_a_listener_commits_when_it_has_taken_all_the_time_is_committed(
    kafka_cluster: Cluster, consumer: Consumer[bytes, bytes]
) -> None:
    """A broker that is there answers at once: the listener goes on behind its commit, and close() raises nothing."""
    behind: list[bool] = []

    def commit(inner: RebalanceConsumer, _partitions: object) -> None:
        inner.commit_sync()
        behind.append(True)

    consumer.subscribe(["t"], on_revoked=commit)
    while not consumer.poll(10.0):
        pass
    consumer.close(0)
    assert behind
    assert kafka_cluster.committed("g")[TopicPartition("t", 0)].offset == 1


REQUEST_TIMEOUT_MS = 500
AN_HOUR_S = 3600.0


def open_settings(cluster: Cluster) -> dict[str, object]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "fetch_max_wait_ms": 100,
        "reconnect_backoff_max_ms": 100,
    }


@pytest.fixture
def with_a_record(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("t", partitions=1)
    kafka_cluster.produce("t", b"1")
    return kafka_cluster


@pytest.mark.slow
@pytest.mark.parametrize("is_silent", [False, True], ids=["gone", "silent"])
@pytest.mark.parametrize("timeout", [AN_HOUR_S, inf])
def test_brokers_that_do_not_answer_are_waited_for_no_longer_than_for_a_request(
    with_a_record: Cluster, is_silent: bool, timeout: float
) -> None:
    """As in Java, where `request_timeout_ms` bounds a close. The last commit waited for four fifths of the timeout: a
    program that was to wait for its callbacks as long as it takes did not end in an outage."""
    consumer = Consumer("t", config=open_settings(with_a_record))
    while not consumer.poll(10.0):
        pass
    if is_silent:
        with_a_record.control.on(OffsetCommitRequest).drop()
    else:
        with_a_record.kill_broker(0)
    with in_time():
        consumer.close(timeout)


@pytest.mark.slow
def test_nor_are_they_for_a_commit_that_nobody_waits_for(with_a_record: Cluster) -> None:
    """It waits for a coordinator, `default_api_timeout_ms` in an open consumer."""
    consumer = Consumer("t", config={**open_settings(with_a_record), "enable_auto_commit": False})
    while not consumer.poll(10.0):
        pass
    with_a_record.kill_broker(0)
    failed: list[KafkaError | None] = []
    consumer.commit_async(callback=lambda _offsets, error: failed.append(error))
    while not failed:
        consumer.poll(0.1)
    consumer.commit_async()
    with in_time():
        consumer.close(AN_HOUR_S)


@pytest.mark.slow
def test_an_async_consumer_waits_no_longer_either(with_a_record: Cluster) -> None:
    async def main() -> None:
        consumer = AsyncConsumer("t", config=open_settings(with_a_record))
        while not await consumer.poll(10.0):
            pass
        with_a_record.kill_broker(0)
        with in_time():
            await consumer.close(AN_HOUR_S)

    asyncio.run(main())


@pytest.mark.slow
def test_a_listener_may_take_longer_than_a_request(with_a_record: Cluster) -> None:
    """What it commits is still sent, and the group is left."""
    consumer = Consumer(config={**open_settings(with_a_record), "enable_auto_commit": False})
    until_s = time.monotonic() + REQUEST_TIMEOUT_MS / 1000.0
    errors: list[KafkaError | None] = []

    def drain(_inner: RebalanceConsumer, _partitions: object) -> None:
        while time.monotonic() < until_s:
            time.sleep(0.01)
        consumer.commit_async(callback=lambda _offsets, error: errors.append(error))

    consumer.subscribe(["t"], on_revoked=drain)
    while not consumer.poll(10.0):
        pass
    until_s = time.monotonic() + REQUEST_TIMEOUT_MS / 1000.0
    consumer.close(AN_HOUR_S)
    assert errors == [None]
    assert with_a_record.committed("g")[TopicPartition("t", 0)].offset == 1


@pytest.mark.slow
def test_a_callback_of_a_commit_that_falls_back_to_commit_sync_is_told_that_it_is_too_late(
    kafka_cluster: Cluster, consumer: Consumer[bytes, bytes]
) -> None:
    """It waited for a network thread that had ended."""
    told: list[type[KafkaError]] = []

    def commit_again(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        if error is not None:
            told.append(type(error))
            consumer.commit_sync()

    consumer.subscribe(["t"])
    while not consumer.poll(10.0):
        pass
    kafka_cluster.control.on(OffsetCommitRequest).drop()
    consumer.commit_async(callback=commit_again)
    with in_time(), pytest.raises(IllegalStateError, match="this consumer is closed"):
        consumer.close(CLOSE_S)
    assert told == [CommitFailedError]
