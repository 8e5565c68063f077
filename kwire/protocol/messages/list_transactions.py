"""ListTransactions (key 66): the transactions that one broker coordinates (KIP-664).

* 1 can leave out young ones (KIP-994); 2 can pick transactional ids by a pattern (KIP-1152).
"""

from __future__ import annotations

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
    field,
)


class ListTransactionsRequest(Request["ListTransactionsResponse"], key=66, versions="0-2", flexible="0+"):
    """Which transactions; an empty filter lets all pass."""

    state_filters: Array[String] = field(default=[])
    producer_id_filters: Array[Int64] = field(default=[])
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: NullableString = field("2+", default=None)


class TransactionState(Structure):
    """A transaction, as short as it gets."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(Response, to=ListTransactionsRequest):
    """The transactions of this broker."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Array[String] = field(default=[])
    transaction_states: Array[TransactionState] = field(default=[])
