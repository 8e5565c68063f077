"""CreateTopics (key 19): create topics, or only check whether they could be.

* 3 throttles after answering; 4 lets partitions and replication factor be -1, the broker's default (KIP-464).
* 5 is flexible and answers with the topic's configuration (KIP-525).
* 6 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599); 7 answers with the topic id (KIP-516).
"""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Bool,
    Int8,
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


class CreatableReplicaAssignment(Structure):
    """The brokers of one partition."""

    partition_index: Int32 = 0
    broker_ids: Array[Int32] = field(default=[])


class CreatableTopicConfig(Structure):
    """One setting of the topic."""

    name: String = ""
    value: NullableString = ""


class CreatableTopic(Structure):
    """A topic, with its size or with all its replicas."""

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Array[CreatableReplicaAssignment] = field(default=[])
    configs: Array[CreatableTopicConfig] = field(default=[])


class CreateTopicsRequest(Request["CreateTopicsResponse"], key=19, versions="2-7", flexible="5+"):
    """The topics to create."""

    topics: Array[CreatableTopic] = field(default=[])
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopicConfigs(Structure):
    """One setting of the topic as created."""

    name: String = ""
    value: NullableString = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class CreatableTopicResult(Structure):
    """A topic as created, or why not."""

    name: String = ""
    topic_id: Uuid = field("7+", default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = ""
    num_partitions: Int32 = field("5+", default=-1, ignorable=True)
    replication_factor: Int16 = field("5+", default=-1, ignorable=True)
    configs: NullableArray[CreatableTopicConfigs] = field("5+", default=[], ignorable=True)
    topic_config_error_code: Int16 = field("5+", default=0, tag=0, ignorable=True)


class CreateTopicsResponse(Response, to=CreateTopicsRequest):
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    topics: Array[CreatableTopicResult] = field(default=[])
