"""A loop whose body takes long over one record: what it has passed is committed, and is no lag."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from threading import Semaphore

import pytest

from kwire import AsyncConsumer, Consumer, Record, TopicPartition
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing import Cluster

A = TopicPartition("orders", 0)
RECORDS = 20
IN_HAND = 12
COMMITS = 100  # ten a second


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(RECORDS)))
    return kafka_cluster


@pytest.fixture
def commits(cluster: Cluster) -> Semaphore:
    """Released with each commit."""
    found = Semaphore(0)
    cluster.control.on(OffsetCommitRequest).observe(lambda *_: found.release())
    return found


def settings(cluster: Cluster) -> dict[str, object]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "billing",
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 10,
    }


def committed(cluster: Cluster) -> int | None:
    found = cluster.committed("billing").get(A)
    return None if found is None else found.offset


def wait_until_committed(cluster: Cluster, commits: Semaphore, offset: int) -> None:
    for _ in range(COMMITS):
        assert commits.acquire(timeout=10.0)
        if committed(cluster) == offset:
            return
    pytest.fail(f"{committed(cluster)} is committed after {COMMITS} commits, and not {offset}")


def test_auto_commit_covers_what_a_loop_has_passed(cluster: Cluster, commits: Semaphore) -> None:
    with Consumer(settings(cluster), "orders") as consumer:
        for record in consumer:
            if record.offset == IN_HAND:
                wait_until_committed(cluster, commits, IN_HAND)
                assert consumer.describe().partitions[0].lag == RECORDS - IN_HAND
                break
        for _ in range(3):  # the third is sent when the second is answered
            assert commits.acquire(timeout=10.0)
        assert committed(cluster) == IN_HAND, "the one that it was left at may not be processed"
    assert committed(cluster) == IN_HAND + 1


def test_a_seek_within_a_body_is_not_undone_by_what_the_loop_had_passed(cluster: Cluster, commits: Semaphore) -> None:
    with Consumer(settings(cluster), "orders") as consumer:
        for record in consumer:
            if record.offset == IN_HAND:
                wait_until_committed(cluster, commits, IN_HAND)
                consumer.seek(A, 3)
                wait_until_committed(cluster, commits, 3)
                break


def test_on_an_event_loop_records_count_with_the_next_poll_alone(cluster: Cluster, commits: Semaphore) -> None:
    """Two tasks share the iterator of a loop, and each is at a record of its own."""

    async def run() -> None:
        async with AsyncConsumer(settings(cluster), "orders") as consumer:
            records = aiter(consumer)
            for offset in range(2):
                assert (await asyncio.create_task(_next(records))).offset == offset
            for _ in range(5):
                assert await asyncio.to_thread(commits.acquire, timeout=10.0)
            assert committed(cluster) == 0

    asyncio.run(run())


async def _next(records: AsyncIterator[Record[bytes, bytes]]) -> Record[bytes, bytes]:
    return await anext(records)
