"""`close(timeout)` takes no longer than that, whatever its callbacks ask for while nobody answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from kwire import Consumer, OffsetAndMetadata, TopicPartition
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
