"""OffsetCommit (key 8): store consumed positions of a group.

* 2 sets a retention time, which 5 takes away again; 3 adds the throttle time; 4 throttles after answering.
* 6 adds leader epochs (KIP-320); 7 the group instance id (KIP-345); 8 is flexible.
* 9 serves both group protocols (KIP-848): the generation may be a member epoch, and the answer STALE_MEMBER_EPOCH.
* 10 names topics by id alone (KIP-848).
"""

from __future__ import annotations

from typing import ClassVar

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


class OffsetCommitRequestPartition(Structure):
    """A position: the next offset to read."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("6+", default=-1, ignorable=True)
    committed_metadata: NullableString = ""


class OffsetCommitRequestTopic(Structure):
    """A topic, by name (up to 9) or by id (10+), and its positions."""

    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: Array[OffsetCommitRequestPartition] = field(default=[])


class OffsetCommitRequest(Request["OffsetCommitResponse"], key=8, versions="2-10", flexible="8+"):
    """Positions, and who commits them."""

    last_version_with_names: ClassVar[int] = 9
    """Later ones name topics by id alone, so a position never lands in another topic of the same name."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    retention_time_ms: Int64 = field("0-4", default=-1, ignorable=True)
    group_instance_id: NullableString = field("7+", default=None)
    topics: Array[OffsetCommitRequestTopic] = field(default=[])


class OffsetCommitResponsePartition(Structure):
    """What became of one position."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Structure):
    """A topic, by name (up to 9) or by id (10+)."""

    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: Array[OffsetCommitResponsePartition] = field(default=[])


class OffsetCommitResponse(Response, to=OffsetCommitRequest):
    """What became of each position."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: Array[OffsetCommitResponseTopic] = field(default=[])
