"""EndTxn (key 26): commit or abort a transaction (KIP-98).

* 1 throttles after answering; 2 may answer PRODUCER_FENCED (KIP-588); 3 is flexible.
* 4 may answer TRANSACTION_ABORTABLE; 5 answers the producer's next epoch, as each transaction has its own (KIP-890).
"""

from __future__ import annotations

from kwire.protocol.schema import Bool, Int16, Int32, Int64, Request, Response, String, field


class EndTxnRequest(Request["EndTxnResponse"], key=26, versions="0-5", flexible="3+"):
    """The transaction and how it ends."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(Response, to=EndTxnRequest):
    """Whether it has ended."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = field("5+", default=-1, ignorable=True)
