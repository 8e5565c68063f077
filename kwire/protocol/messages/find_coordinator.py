"""FindCoordinator (key 10): which broker looks after a group or a transactional id.

* 1 adds the key type, the throttle time and an error message; 2 throttles after answering; 3 is flexible.
* 4 asks for many keys at once and answers with a list (KIP-699).
* 5 may answer TRANSACTION_ABORTABLE (KIP-890); 6 knows share groups (KIP-932).
"""

from __future__ import annotations

from typing import ClassVar

from kwire.protocol.schema import Array, Int8, Int16, Int32, NullableString, Request, Response, String, Structure, field


class FindCoordinatorRequest(Request["FindCoordinatorResponse"], key=10, versions="0-6", flexible="3+"):
    """One key (0-3) or many (4+)."""

    last_version_with_one_key: ClassVar[int] = 3

    key: String = field("0-3", default="")
    key_type: Int8 = field("1+", default=0)
    coordinator_keys: Array[String] = field("4+", default=[])


class Coordinator(Structure):
    """The coordinator of one key, or why there is none."""

    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""


class FindCoordinatorResponse(Response, to=FindCoordinatorRequest):
    """One coordinator (0-3) or many (4+)."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("0-3", default=0)
    error_message: NullableString = field("1-3", default="", ignorable=True)
    node_id: Int32 = field("0-3", default=0)
    host: String = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: Array[Coordinator] = field("4+", default=[])
