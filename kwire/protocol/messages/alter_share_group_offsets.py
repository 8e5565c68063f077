"""AlterShareGroupOffsets (key 91): move an empty share group to other offsets (KIP-932)."""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    Uuid,
    field,
)


class AlterShareGroupOffsetsRequestPartition(Structure):
    """A partition and the offset to start from."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsRequestTopic(Structure):
    """A topic and its partitions."""

    topic_name: String = ""
    partitions: Array[AlterShareGroupOffsetsRequestPartition] = field(default=[])


class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"], key=91, versions="0", flexible="0+"):
    """The group and its new offsets."""

    group_id: String = ""
    topics: Array[AlterShareGroupOffsetsRequestTopic] = field(default=[])


class AlterShareGroupOffsetsResponsePartition(Structure):
    """What became of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None


class AlterShareGroupOffsetsResponseTopic(Structure):
    """A topic and its partitions."""

    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: Array[AlterShareGroupOffsetsResponsePartition] = field(default=[])


class AlterShareGroupOffsetsResponse(Response, to=AlterShareGroupOffsetsRequest):
    """What became of each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: Array[AlterShareGroupOffsetsResponseTopic] = field(default=[])
