"""Where positions are behind what nobody may see: the application is told, so that what it commits is the log's end."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from kwire import AsyncConsumer, Consumer, OffsetAndMetadata, TopicPartition
from kwire.clock import Deadline
from kwire.processing import Processor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.config import Settings
    from kwire.testing import Cluster

pytestmark = pytest.mark.slow

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
WAIT_S = 15.0
ABORTED, MARKER = 3, 1
ENDS = {A: ABORTED + MARKER, B: ABORTED + MARKER}


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Cluster:
    """Both partitions have a transaction that was aborted, and nothing else."""
    kafka_cluster.create_topic("orders", partitions=2)
    made = confluent_kafka.Producer(
        {"bootstrap.servers": kafka_cluster.bootstrap_servers, "transactional.id": "orders", "log_level": 0}
    )
    made.init_transactions(WAIT_S)
    made.begin_transaction()
    for tp in (A, B):
        for _ in range(ABORTED):
            made.produce(tp.topic, b"never", partition=tp.partition)
    made.flush(WAIT_S)
    made.abort_transaction(WAIT_S)
    return kafka_cluster


def settings(cluster: Cluster) -> Settings:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "billing",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
    }


def consumer_of(cluster: Cluster) -> Consumer[bytes, bytes]:
    return Consumer("orders", **settings(cluster))


def offsets(positions: Mapping[TopicPartition, OffsetAndMetadata | None]) -> dict[TopicPartition, int | None]:
    return {tp: None if at is None else at.offset for tp, at in positions.items()}


def test_a_poll_that_returns_no_record_tells_where_it_goes_on(cluster: Cluster) -> None:
    with consumer_of(cluster) as consumer:
        found = until_both(consumer, {})
        assert consumer.poll(0).next_offsets() == {}, "each is told once"
        consumer.commit_sync(found)
        assert offsets(consumer.committed([A, B])) == ENDS


def test_records_of_one_partition_come_with_the_position_of_another(cluster: Cluster) -> None:
    cluster.produce("orders", b"seen", partition=B.partition)
    with consumer_of(cluster) as consumer:
        records = consumer.poll(WAIT_S)
        assert [record.value for record in records] == [b"seen"]
        found = until_both(consumer, records.next_offsets())
        assert offsets(found) == {**ENDS, B: ABORTED + MARKER + 1}


def test_a_poll_on_an_event_loop_tells_as_well(cluster: Cluster) -> None:
    async def ends() -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        async with AsyncConsumer("orders", **settings(cluster)) as consumer:
            while len(found) < 2:
                found |= offsets((await consumer.poll(1.0)).next_offsets())
        return found

    assert asyncio.run(asyncio.wait_for(ends(), WAIT_S)) == ENDS


@pytest.mark.parametrize("is_new", [True, False], ids=["a new group", "a group with a commit"])
def test_a_processor_commits_the_end_of_a_log_that_ends_in_aborted_records(cluster: Cluster, is_new: bool) -> None:
    with consumer_of(cluster) as consumer, consumer_of(cluster) as watching:
        watching.unsubscribe()
        watching.assign([A, B])
        if not is_new:
            watching.commit_sync(dict.fromkeys([A, B], OffsetAndMetadata(1)))
        deadline = Deadline.after(WAIT_S * 1000.0)
        with Processor(consumer, lambda record: None):
            while offsets(watching.committed([A, B])) != ENDS and not deadline.expired:
                time.sleep(0.05)
        assert offsets(watching.committed([A, B])) == ENDS


def until_both(
    consumer: Consumer[bytes, bytes], found: Mapping[TopicPartition, OffsetAndMetadata]
) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Poll until it is told of both partitions, or for too long."""
    deadline = Deadline.after(WAIT_S * 1000.0)
    while len(found) < 2 and not deadline.expired:
        found = {**found, **consumer.poll(1.0).next_offsets()}
    return found
