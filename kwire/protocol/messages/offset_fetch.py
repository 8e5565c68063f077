"""OffsetFetch (key 9): committed positions of groups.

* 1 reads from Kafka, not from ZooKeeper; 2 asks for all topics with None and adds an error code for the whole answer.
* 3 adds the throttle time; 4 throttles after answering; 5 adds leader epochs (KIP-320); 6 is flexible.
* 7 can insist on stable offsets (KIP-447); 8 asks for many groups at once (KIP-709).
* 9 carries the member and its epoch (KIP-848); 10 names topics by id alone.
"""

from __future__ import annotations

from typing import ClassVar

from kwire.model import ZERO_UUID
from kwire.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    Uuid,
    field,
)


class OffsetFetchRequestTopic(Structure):
    """A topic of the one group."""

    name: String = ""
    partition_indexes: Array[Int32] = field(default=[])


class OffsetFetchRequestTopics(Structure):
    """A topic, by name (8-9) or by id (10+)."""

    name: String = field("8-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: Array[Int32] = field(default=[])


class OffsetFetchRequestGroup(Structure):
    """A group; topics None asks for all that have positions."""

    group_id: String = ""
    member_id: NullableString = field("9+", default=None, ignorable=True)
    member_epoch: Int32 = field("9+", default=-1, ignorable=True)
    topics: NullableArray[OffsetFetchRequestTopics] = field(default=[])


class OffsetFetchRequest(Request["OffsetFetchResponse"], key=9, versions="1-10", flexible="6+"):
    """One group (1-7) or many (8+)."""

    first_version_with_groups: ClassVar[int] = 8
    """From here on it names many groups."""
    last_version_with_names: ClassVar[int] = 9
    """Later ones name topics by id alone."""

    group_id: String = field("0-7", default="")
    topics: NullableArray[OffsetFetchRequestTopic] = field("0-7", default=[], null="2-7")
    groups: Array[OffsetFetchRequestGroup] = field("8+", default=[])
    require_stable: Bool = field("7+", default=False)


class OffsetFetchResponsePartition(Structure):
    """A committed position, or offset -1 where there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("5-7", default=-1, ignorable=True)
    metadata: NullableString = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Structure):
    """A topic of the one group."""

    name: String = ""
    partitions: Array[OffsetFetchResponsePartition] = field(default=[])


class OffsetFetchResponsePartitions(Structure):
    """A committed position, or offset -1 where there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: NullableString = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Structure):
    """A topic, by name (8-9) or by id (10+)."""

    name: String = field("8-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: Array[OffsetFetchResponsePartitions] = field(default=[])


class OffsetFetchResponseGroup(Structure):
    """A group and its positions."""

    group_id: String = ""
    topics: Array[OffsetFetchResponseTopics] = field(default=[])
    error_code: Int16 = 0


class OffsetFetchResponse(Response, to=OffsetFetchRequest):
    """The positions of one group (1-7) or many (8+)."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: Array[OffsetFetchResponseTopic] = field("0-7", default=[])
    error_code: Int16 = field("2-7", default=0, ignorable=True)
    groups: Array[OffsetFetchResponseGroup] = field("8+", default=[])
