"""DeleteTopics (key 20): delete topics with all that is in them.

* 1 adds the throttle time; 2 throttles after answering; 3 may answer TOPIC_DELETION_DISABLED; 4 is flexible.
* 5 adds error messages, and may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
* 6 can name topics by id, and then the name is None (KIP-516).
"""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import Array, Int16, Int32, NullableString, Request, Response, String, Structure, Uuid, field


class DeleteTopicState(Structure):
    """A topic, by name or by id."""

    name: NullableString = None
    topic_id: Uuid = ZERO_UUID


class DeleteTopicsRequest(Request["DeleteTopicsResponse"], key=20, versions="1-6", flexible="4+"):
    """The topics to delete."""

    topics: Array[DeleteTopicState] = field("6+", default=[])
    topic_names: Array[String] = field("0-5", default=[], ignorable=True)
    timeout_ms: Int32 = 0


class DeletableTopicResult(Structure):
    """What became of one topic."""

    name: NullableString = field(default="", null="6+")
    topic_id: Uuid = field("6+", default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = field("5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, to=DeleteTopicsRequest):
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    responses: Array[DeletableTopicResult] = field(default=[])
