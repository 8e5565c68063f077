"""Metadata (key 3): brokers, topics, partitions and their leaders.

* 0 asks for all topics with an empty list; from 1 on that is None, and an empty list asks for none.
* 1 adds racks, the controller and internal topics; 2 the cluster id; 3 the throttle time.
* 4 lets a client forbid topic creation; 5 adds offline replicas; 6 throttles after answering.
* 7 adds leader epochs (KIP-320); 8 authorized operations (KIP-430); 9 is flexible.
* 10 adds topic ids to the answer (KIP-516); 11 drops the cluster's operations, which DescribeCluster now answers.
* 12 can ask by topic id, and then a name may be None; 13 adds an error code for the whole answer.
"""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    Uuid,
    field,
)


class MetadataRequestTopic(Structure):
    """A topic, by name or (12+) by id."""

    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    name: NullableString = field(default="", null="10+")


class MetadataRequest(Request["MetadataResponse"], key=3, versions="0-13", flexible="9+"):
    """What to describe: some topics, all, or none."""

    topics: NullableArray[MetadataRequestTopic] = field(default=[], null="1+")
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10", default=False)
    include_topic_authorized_operations: Bool = field("8+", default=False)


class MetadataResponseBroker(Structure):
    """A broker and where it listens."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = field("1+", default=None, ignorable=True)


class MetadataResponsePartition(Structure):
    """A partition, its leader and its replicas."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: Array[Int32] = field(default=[])
    isr_nodes: Array[Int32] = field(default=[])
    offline_replicas: Array[Int32] = field("5+", default=[], ignorable=True)


class MetadataResponseTopic(Structure):
    """A topic and its partitions."""

    error_code: Int16 = 0
    name: NullableString = field(default="", null="12+")
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    is_internal: Bool = field("1+", default=False, ignorable=True)
    partitions: Array[MetadataResponsePartition] = field(default=[])
    topic_authorized_operations: Int32 = field("8+", default=-2147483648)  # not asked for


class MetadataResponse(Response, to=MetadataRequest):
    """The cluster as this broker knows it."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    brokers: Array[MetadataResponseBroker] = field(default=[])
    cluster_id: NullableString = field("2+", default=None, ignorable=True)
    controller_id: Int32 = field("1+", default=-1, ignorable=True)
    topics: Array[MetadataResponseTopic] = field(default=[])
    cluster_authorized_operations: Int32 = field("8-10", default=-2147483648)  # not asked for
    error_code: Int16 = field("13+", default=0, ignorable=True)
