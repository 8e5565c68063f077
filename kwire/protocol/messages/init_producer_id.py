"""InitProducerId (key 22): the id and epoch of an idempotent or transactional producer (KIP-98).

* 1 throttles after answering; 2 is flexible; 3 lets a fenced producer resume with the id it had (KIP-360).
* 4 may answer PRODUCER_FENCED (KIP-588); 5 TRANSACTION_ABORTABLE (KIP-890).
* 6 is for two-phase commit (KIP-939), which brokers do not offer unless told to: Kafka calls it unstable.
"""

from __future__ import annotations

from kwire.protocol.schema import Bool, Int16, Int32, Int64, NullableString, Request, Response, field


class InitProducerIdRequest(Request["InitProducerIdResponse"], key=22, versions="0-6", flexible="2+"):
    """Who is asking: a transactional id, or nobody in particular."""

    transactional_id: NullableString = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: Bool = field("6+", default=False)
    keep_prepared_txn: Bool = field("6+", default=False)


class InitProducerIdResponse(Response, to=InitProducerIdRequest):
    """The producer's id and epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)
