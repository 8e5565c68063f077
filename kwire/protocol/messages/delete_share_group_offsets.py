"""DeleteShareGroupOffsets (key 92): make an empty share group forget topics (KIP-932)."""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import Array, Int16, Int32, NullableString, Request, Response, String, Structure, Uuid, field


class DeleteShareGroupOffsetsRequestTopic(Structure):
    """A topic."""

    topic_name: String = ""


class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"], key=92, versions="0", flexible="0+"):
    """The group and the topics to forget."""

    group_id: String = ""
    topics: Array[DeleteShareGroupOffsetsRequestTopic] = field(default=[])


class DeleteShareGroupOffsetsResponseTopic(Structure):
    """What became of one topic."""

    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: NullableString = None


class DeleteShareGroupOffsetsResponse(Response, to=DeleteShareGroupOffsetsRequest):
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: Array[DeleteShareGroupOffsetsResponseTopic] = field(default=[])
