"""What a broker does with a commit that stands behind a slow request when the client gives the connection up."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest

from kwire import OffsetAndMetadata, TopicPartition
from kwire.conformance.client import BrokerAddress
from kwire.protocol.framing import Framing
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic
    from tests.integration.consumer.conftest import OpenConsumer, PollUntil
    from tests.integration.kafkas import SharedKafka

pytestmark = pytest.mark.slow

FETCH_VERSION = 11  # the last but one that names topics
COMMIT_VERSION = 9
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def slow_request(tp: TopicPartition, wait_ms: int) -> FetchRequest:
    """Its answer comes after that time, for there is nothing to read."""
    partition = FetchPartition(partition=tp.partition, partition_max_bytes=1_000)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1_000, topics=[FetchTopic(topic=tp.topic, partitions=[partition])]
    )


def commit(group_id: str, tp: TopicPartition, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=tp.partition, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name=tp.topic, partitions=[partition])
    return OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, topics=[topic])


def send_behind_a_slow_one(connected: socket.socket, group_id: str, tp: TopicPartition, *, wait_ms: int) -> None:
    """Commits offset 1."""
    framing = Framing("impatient")
    slow = framing.send(slow_request(tp, wait_ms), FETCH_VERSION)
    connected.sendall(slow + framing.send(commit(group_id, tp, 1), COMMIT_VERSION))


def test_a_broker_carries_out_what_an_ended_connection_has_left_but_not_what_one_that_was_reset(
    kafka: SharedKafka, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """So a commit that was made again, and followed by others, would undo those. It is why kwire resets connections
    that it gives up, and why the simulated brokers read on."""
    name = topic(2)
    ended, reset = TopicPartition(name, 0), TopicPartition(name, 1)
    address = BrokerAddress.parse(kafka.bootstrap_servers)
    consumer = open_consumer(group_id=group_id)
    consumer.assign([ended, reset])
    consumer.commit_sync({ended: OffsetAndMetadata(0), reset: OffsetAndMetadata(0)})
    with socket.create_connection(address) as first, socket.create_connection(address) as second:
        send_behind_a_slow_one(first, group_id, reset, wait_ms=2_000)
        send_behind_a_slow_one(second, group_id, ended, wait_ms=3_000)
        for _ in range(10):  # meanwhile the broker has read the slow ones
            consumer.commit_sync({ended: OffsetAndMetadata(2), reset: OffsetAndMetadata(2)})
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    found: list[dict[TopicPartition, OffsetAndMetadata | None]] = []

    def is_undone() -> bool:
        found.append(consumer.committed([ended, reset]))
        return found[-1][ended] == OffsetAndMetadata(1)

    poll_until(is_undone, consumer)
    assert found[0] == dict.fromkeys((ended, reset), OffsetAndMetadata(2))
    assert found[-1][reset] == OffsetAndMetadata(2)
