"""Calls of an application that is at a record: none of them says that the record is processed.

A seek of another partition, a commit of given offsets, or a look at the progress made all of the last poll count: the
next auto-commit covered it, and a block that then failed, or a process that was killed, lost those records.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Semaphore
from typing import TypeAlias

import pytest

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.events import ApplicationEvent, RecordsDelivered
from kwire.mailbox import Mailbox
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing import Cluster

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
RECORDS = 20
IN_HAND = 4

BytesConsumer: TypeAlias = Consumer[bytes, bytes]
Call: TypeAlias = Callable[[BytesConsumer], object]

CALLS: dict[str, Call] = {
    "seek": lambda consumer: consumer.seek(B, 0),
    "seek_to_end": lambda consumer: consumer.seek_to_end([B]),
    "pause": lambda consumer: consumer.pause([B]),
    "commit_sync": lambda consumer: consumer.commit_sync({B: OffsetAndMetadata(0)}),
    "commit_async": lambda consumer: consumer.commit_async({B: OffsetAndMetadata(0)}),
    "catch_up_progress": lambda consumer: consumer.catch_up_progress(),
    "commit_sync of a part": lambda consumer: consumer.commit_sync({A: OffsetAndMetadata(2)}),
    "commit_async of a part": lambda consumer: consumer.commit_async({A: OffsetAndMetadata(2)}),
}
# What these have committed themselves stays so.
COMMITTED = {"commit_sync of a part": 2, "commit_async of a part": 2}

each_call = pytest.mark.parametrize("name", CALLS)


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders", partitions=2)
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(RECORDS)), partition=0)
    return kafka_cluster


def open_consumer(cluster: Cluster, *, auto_commit_interval_ms: int = 60_000) -> BytesConsumer:
    return Consumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=auto_commit_interval_ms,
    )


def poll_all(consumer: BytesConsumer) -> None:
    assert len(consumer.poll(10.0)) == RECORDS


def committed(cluster: Cluster) -> int:
    return cluster.committed("billing")[A].offset


@each_call
def test_a_block_that_fails_commits_nothing_of_the_last_poll(cluster: Cluster, name: str) -> None:
    def process() -> None:
        with open_consumer(cluster) as consumer:
            poll_all(consumer)
            CALLS[name](consumer)
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        process()
    assert committed(cluster) == COMMITTED.get(name, 0)


@each_call
def test_a_block_that_fails_in_a_loop_commits_up_to_the_record_it_failed_over(cluster: Cluster, name: str) -> None:
    def process() -> None:
        with open_consumer(cluster) as consumer:
            for record in consumer:
                if record.offset == IN_HAND:
                    CALLS[name](consumer)
                    raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        process()
    assert committed(cluster) == IN_HAND


@each_call
def test_the_timer_commits_nothing_that_is_in_work(cluster: Cluster, name: str) -> None:
    commits = Semaphore(0)
    with open_consumer(cluster, auto_commit_interval_ms=10) as consumer:
        poll_all(consumer)
        CALLS[name](consumer)
        cluster.control.on(OffsetCommitRequest).observe(lambda *_: commits.release())
        for _ in range(3):  # the third is sent when the second is answered
            assert commits.acquire(timeout=10.0)
        assert committed(cluster) == COMMITTED.get(name, 0)
    assert committed(cluster) == RECORDS


def test_a_commit_without_offsets_stands_though_the_block_fails_over_the_record_it_covers(cluster: Cluster) -> None:
    def process() -> None:
        with open_consumer(cluster) as consumer:
            for record in consumer:
                if record.offset == IN_HAND:
                    consumer.commit_sync()
                    raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        process()
    assert committed(cluster) == IN_HAND + 1


@pytest.mark.parametrize("target", [0, 3, 12], ids=lambda target: f"to {target}")
def test_after_a_seek_of_the_partition_itself_the_position_is_what_is_committed(cluster: Cluster, target: int) -> None:
    """As in Java, whether the record sought is buffered or not."""
    with open_consumer(cluster) as consumer:
        poll_all(consumer)
        consumer.seek(A, target)
        assert consumer.position(A) == target
    assert committed(cluster) == target


def test_a_close_in_a_loop_ends_it_behind_the_record_that_it_is_at(cluster: Cluster) -> None:
    """The rest of the poll came, though the group had gone on without this member."""
    consumer, seen = open_consumer(cluster), []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == IN_HAND:
            consumer.close()
    assert seen == [*range(IN_HAND + 1)]
    assert committed(cluster) == IN_HAND + 1


@pytest.mark.parametrize("commit", [Consumer.commit_sync, Consumer.commit_async], ids=["commit_sync", "commit_async"])
def test_a_commit_in_a_loop_does_not_say_that_all_of_the_poll_is_out_of_hand(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, commit: Callable[[BytesConsumer], object]
) -> None:
    """The network thread decided about a truncated log by how far the application was then, though it had more in hand:
    with auto_offset_reset="none" nobody heard of the records that it read behind that."""
    noted: list[tuple[int, bool]] = []
    post = Mailbox.note

    def note(mailbox: Mailbox, event: ApplicationEvent) -> None:
        if isinstance(event, RecordsDelivered):
            noted.extend((position.offset, event.came_back) for _, _, position in event.delivered)
        post(mailbox, event)

    monkeypatch.setattr(Mailbox, "note", note)
    with open_consumer(cluster) as consumer:
        for record in consumer:
            if record.offset == IN_HAND:
                commit(consumer)
                assert noted == [(IN_HAND + 1, False)]
            if record.offset == RECORDS - 1:
                break
        commit(consumer)
        assert not consumer.poll(0)
    assert noted[-1] == (RECORDS, True)
