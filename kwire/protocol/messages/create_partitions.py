"""CreatePartitions (key 37): make topics larger (KIP-195).

* 1 throttles after answering; 2 is flexible; 3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

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
    field,
)


class CreatePartitionsAssignment(Structure):
    """The brokers of one new partition."""

    broker_ids: Array[Int32] = field(default=[])


class CreatePartitionsTopic(Structure):
    """A topic and how many partitions it is to have, old ones included."""

    name: String = ""
    count: Int32 = 0
    assignments: NullableArray[CreatePartitionsAssignment] = field(default=[])


class CreatePartitionsRequest(Request["CreatePartitionsResponse"], key=37, versions="0-3", flexible="2+"):
    """The topics to make larger."""

    topics: Array[CreatePartitionsTopic] = field(default=[])
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(Structure):
    """What became of one topic."""

    name: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None


class CreatePartitionsResponse(Response, to=CreatePartitionsRequest):
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult] = field(default=[])
