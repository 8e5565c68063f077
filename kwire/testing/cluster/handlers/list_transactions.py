"""ListTransactions: the transactional ids that this broker coordinates (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.transaction import TransactionStatus

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

_STATES = [status.value for status in TransactionStatus]


async def handle(request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    """The transactional ids that pass all filters; unknown states are named in the answer, and match nothing."""
    try:
        pattern = re.compile(request.transactional_id_pattern or ".*", re.DOTALL)
    except re.error:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    cluster = call.cluster
    found = cluster.transactions.selected(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        longer_than_ms=request.duration_filter,
        now_ms=cluster.now_ms(),
    )
    return ListTransactionsResponse(
        unknown_state_filters=[state for state in request.state_filters if state not in _STATES],
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.status.value,
            )
            for one in found
            if call.transaction_error(one.transactional_id, Operation.DESCRIBE) is ErrorCode.NONE
            and pattern.fullmatch(one.transactional_id)
        ],
    )
