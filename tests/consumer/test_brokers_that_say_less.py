"""Brokers that are no Apache Kafka, and old ones: lists in no order, no topic ids, no leader epochs, missing APIs.

The cluster in the process says what such brokers say: its answers are edited on their way out.
"""

from __future__ import annotations

import struct
import time
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, TopicPartition
from kwire.model import ZERO_UUID
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse
from kwire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.protocol.schema import Message, Request
    from kwire.testing.cluster.request_context import RequestContext
    from tests.record_batches import ABORT, COMMIT, batch, marker, transactional
else:
    from record_batches import ABORT, COMMIT, batch, marker, transactional

TOPIC, GROUP, DEADLINE_S = "orders", "billing", 20.0
TP = TopicPartition(TOPIC, 0)
LEADER_EPOCH_AT, LENGTH_AT = 12, 8  # in a batch's header
VALUES = [b"%d" % number for number in range(9)]

BytesConsumer = Consumer[bytes, bytes]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.consumer.heartbeat.interval.ms": 50}
    with Cluster(2, topics={TOPIC: 1}, settings=settings) as cluster:
        cluster.produce(TOPIC, *VALUES)
        yield cluster


@pytest.fixture
def make_consumer(cluster: Cluster) -> Callable[..., BytesConsumer]:
    def make(**settings: object) -> BytesConsumer:
        given: dict[str, object] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": 50,
            **settings,
        }
        made: BytesConsumer = Consumer(config=given)
        return made

    return make


def values_of(consumer: BytesConsumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline_s:
        found += [record.value for record in consumer.poll(0.2)]
    return found


# --- lists of aborted transactions -------------------------------------------------------------------------------

LOG = (
    transactional(0, producer_id=7),
    transactional(1, producer_id=8),
    marker(2, ABORT, producer_id=7),
    transactional(3, producer_id=7),
    marker(4, ABORT, producer_id=8),
    marker(5, COMMIT, producer_id=7),
    transactional(6, producer_id=7),
    marker(7, ABORT, producer_id=7),
    batch(8),
)
ABORTED = ((7, 0), (8, 1), (7, 6))


@pytest.mark.parametrize("order", list(permutations(ABORTED)), ids=str)
def test_a_list_of_aborted_transactions_may_be_in_any_order(
    cluster: Cluster, make_consumer: Callable[..., BytesConsumer], order: tuple[tuple[int, int], ...]
) -> None:
    """Redpanda does not sort it."""

    def put_in(answer: Message) -> None:
        assert isinstance(answer, FetchResponse)
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.records = b"".join(LOG)
                partition.aborted_transactions = [
                    AbortedTransaction(producer_id=producer_id, first_offset=offset) for producer_id, offset in order
                ]

    cluster.control.on(
        FetchRequest, where=lambda request, _: any(p.fetch_offset == 0 for t in request.topics for p in t.partitions)
    ).edit(put_in)
    with make_consumer(isolation_level="read_committed") as consumer:
        consumer.assign([TP])
        assert values_of(consumer, 2) == [b"3", b"8"]


# --- topic ids ---------------------------------------------------------------------------------------------------


def without_topic_ids(answer: Message) -> None:
    assert isinstance(answer, MetadataResponse)
    for topic in answer.topics:
        topic.topic_id = ZERO_UUID


def test_without_topic_ids_topics_go_by_their_names(
    cluster: Cluster, make_consumer: Callable[..., BytesConsumer]
) -> None:
    """Though the broker has the newest versions of all requests: those that know only ids are of no use."""
    cluster.control.on(MetadataRequest).edit(without_topic_ids)
    versions: dict[type[Request[Message]], set[int]] = {}

    def note(request: Request[Message], context: RequestContext) -> None:
        if not isinstance(request, FetchRequest) or request.topics:  # one without topics ends a session
            versions.setdefault(type(request), set()).add(context.version)

    for kind in (FetchRequest, OffsetCommitRequest, OffsetFetchRequest):
        cluster.control.on(kind).observe(note)
    for expected in (VALUES, [b"more"]):
        with make_consumer(group_id=GROUP, group_protocol="classic", max_poll_records=4) as consumer:
            consumer.subscribe([TOPIC])
            assert values_of(consumer, len(expected)) == expected
            assert consumer.partitions_for(TOPIC)[0].topic_id == ZERO_UUID
            consumer.commit_sync()
        cluster.produce(TOPIC, b"more")
    assert cluster.committed(GROUP)[TP].offset == len(VALUES) + 1
    assert max(versions[FetchRequest]) == 12
    assert max(versions[OffsetCommitRequest]) == 9
    assert max(versions[OffsetFetchRequest]) == 9


# --- leader epochs -----------------------------------------------------------------------------------------------


def batches_without_epochs(records: bytes) -> bytes:
    """The checksum does not cover the epoch."""
    changed, at = bytearray(records), 0
    while at < len(changed):
        changed[at + LEADER_EPOCH_AT : at + LEADER_EPOCH_AT + 4] = struct.pack(">i", -1)
        at += LEADER_EPOCH_AT + int.from_bytes(changed[at + LENGTH_AT : at + LEADER_EPOCH_AT], "big")
    return bytes(changed)


def no_epoch_in_metadata(answer: Message) -> None:
    assert isinstance(answer, MetadataResponse)
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.leader_epoch = -1


def no_epoch_in_records(answer: Message) -> None:
    assert isinstance(answer, FetchResponse)
    for topic in answer.responses:
        for partition in topic.partitions:
            partition.current_leader.leader_epoch = -1
            partition.records = batches_without_epochs(bytes(partition.records or b""))


def no_epoch_in_offsets(answer: Message) -> None:
    assert isinstance(answer, ListOffsetsResponse)
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.leader_epoch = -1


def no_epoch_in_commits(answer: Message) -> None:
    assert isinstance(answer, OffsetFetchResponse)
    for group in answer.groups:
        for topic in group.topics:
            for partition in topic.partitions:
                partition.committed_leader_epoch = -1


@pytest.fixture
def without_epochs(cluster: Cluster) -> Cluster:
    cluster.control.on(MetadataRequest).edit(no_epoch_in_metadata)
    cluster.control.on(FetchRequest).edit(no_epoch_in_records)
    cluster.control.on(ListOffsetsRequest).edit(no_epoch_in_offsets)
    cluster.control.on(OffsetFetchRequest).edit(no_epoch_in_commits)
    return cluster


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.slow)])
def test_without_leader_epochs_records_commits_and_a_change_of_leaders_are_followed(
    without_epochs: Cluster, make_consumer: Callable[..., BytesConsumer], protocol: str
) -> None:
    cluster = without_epochs
    asked = cluster.control.on(OffsetForLeaderEpochRequest).observe()
    for expected in (VALUES, [b"more"]):
        with make_consumer(group_id=GROUP, group_protocol=protocol, retry_backoff_ms=10) as consumer:
            consumer.subscribe([TOPIC])
            found = values_of(consumer, len(expected))
            assert found == expected
            cluster.move_leader(TOPIC, 0, 1 - cluster.leader(TOPIC, 0))
            cluster.produce(TOPIC, b"after the move")
            assert values_of(consumer, 1) == [b"after the move"]
            consumer.commit_sync()
            committed = consumer.committed([TP])[TP]
            assert committed is not None
            assert committed.leader_epoch is None
        cluster.produce(TOPIC, b"more")
    assert asked.fired == 0, "there is nothing to ask with"
    assert cluster.committed(GROUP)[TP].leader_epoch in (None, -1)


# --- APIs that are missing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [OffsetForLeaderEpochRequest, ConsumerGroupHeartbeatRequest, ListOffsetsRequest])
def test_an_api_that_is_missing_is_missed_only_by_who_needs_it(
    cluster: Cluster, make_consumer: Callable[..., BytesConsumer], missing: type[Request[Message]]
) -> None:
    """Event Hubs has fewer of them than Kafka."""

    def take_away(answer: Message) -> None:
        assert isinstance(answer, ApiVersionsResponse)
        answer.api_keys = [api for api in answer.api_keys if api.api_key != missing.api_key]

    cluster.control.on(ApiVersionsRequest).edit(take_away)
    with make_consumer(group_id=GROUP, group_protocol="classic", retry_backoff_ms=10) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert values_of(consumer, len(VALUES)) == VALUES
        cluster.move_leader(TOPIC, 0, 1 - cluster.leader(TOPIC, 0))
        cluster.produce(TOPIC, b"after the move")
        assert values_of(consumer, 1) == [b"after the move"]
        consumer.commit_sync()
    assert cluster.committed(GROUP)[TP].offset == len(VALUES) + 1
