"""AddOffsetsToTxn (key 25): a transaction is about to commit positions of this group (KIP-98).

* 1 throttles after answering; 2 may answer PRODUCER_FENCED (KIP-588); 3 is flexible.
* 4 may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from kwire.protocol.schema import Int16, Int32, Int64, Request, Response, String


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"], key=25, versions="0-4", flexible="3+"):
    """The transaction and the group."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(Response, to=AddOffsetsToTxnRequest):
    """Whether the group is part of the transaction now."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
