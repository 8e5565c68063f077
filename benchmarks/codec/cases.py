"""The messages of `scripts/bench codec`, as large as a busy cluster makes them, in versions that all peers know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from kwire.protocol import encode_message
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kwire.protocol.schema import Message

BROKERS = 6
PARTITIONS_PER_TOPIC = 100
METADATA_PARTITIONS = 10_000
FETCH_PARTITIONS = 1_000
MEMBERS = 1_000
SUBSCRIPTION_BYTES = 120  # four topics of usual name lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One message to decode and to encode, `name` being the class of it in every library."""

    title: str
    name: str
    version: int
    message: Message

    @property
    def data(self) -> bytes:
        return encode_message(self.message, self.version)


def cases() -> list[Case]:
    """What is measured, in the order of the table."""
    return [
        Case(title="Metadata, 10,000 partitions", name="MetadataResponse", version=12, message=metadata()),
        Case(title="Fetch, 1,000 partitions", name="FetchResponse", version=13, message=fetch()),
        Case(title="JoinGroup, 1,000 members", name="JoinGroupResponse", version=9, message=join_group()),
        Case(title="Heartbeat request", name="HeartbeatRequest", version=4, message=heartbeat()),
        Case(title="Heartbeat response", name="HeartbeatResponse", version=4, message=HeartbeatResponse()),
    ]


def metadata() -> MetadataResponse:
    """10,000 partitions with three replicas each, in 100 topics."""
    topics = [
        MetadataResponseTopic(
            name=f"orders-{index:03}",
            topic_id=UUID(int=index + 1),
            partitions=[metadata_partition(number) for number in range(PARTITIONS_PER_TOPIC)],
        )
        for index in range(METADATA_PARTITIONS // PARTITIONS_PER_TOPIC)
    ]
    brokers = [
        MetadataResponseBroker(
            node_id=number, host=f"broker-{number}.example.org", port=9092, rack=f"rack-{number % 3}"
        )
        for number in range(BROKERS)
    ]
    return MetadataResponse(brokers=brokers, cluster_id="S4hUmmPLTwa0lQv7NR1YzA", controller_id=1, topics=topics)


def metadata_partition(number: int) -> MetadataResponsePartition:
    replicas = [(number + step) % BROKERS for step in range(3)]
    return MetadataResponsePartition(
        partition_index=number, leader_id=replicas[0], leader_epoch=7, replica_nodes=replicas, isr_nodes=replicas
    )


def fetch() -> FetchResponse:
    """1,000 partitions without records: what an incremental session answers when many partitions moved a little."""
    topics = [
        FetchableTopicResponse(
            topic_id=UUID(int=index + 1),
            partitions=[
                PartitionData(
                    partition_index=number,
                    high_watermark=123_456_789,
                    last_stable_offset=123_456_789,
                    log_start_offset=0,
                )
                for number in range(PARTITIONS_PER_TOPIC)
            ],
        )
        for index in range(FETCH_PARTITIONS // PARTITIONS_PER_TOPIC)
    ]
    return FetchResponse(session_id=1_234_567, responses=topics)


def join_group() -> JoinGroupResponse:
    """What the leader of a group of 1,000 gets."""
    members = [
        JoinGroupResponseMember(
            member_id=f"consumer-billing-{number}-{UUID(int=number)}", metadata=bytes(SUBSCRIPTION_BYTES)
        )
        for number in range(MEMBERS)
    ]
    return JoinGroupResponse(
        generation_id=42,
        protocol_type="consumer",
        protocol_name="cooperative-sticky",
        leader=members[0].member_id,
        member_id=members[0].member_id,
        members=members,
    )


def heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="billing", generation_id=42, member_id=f"consumer-billing-1-{UUID(int=1)}")
