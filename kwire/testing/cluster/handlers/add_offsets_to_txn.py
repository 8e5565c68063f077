"""AddOffsetsToTxn: make a group's positions part of a transaction (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.testing.cluster.transaction import ProducerIdAndEpoch, TransactionRefusedError
from kwire.testing.cluster.transaction_checks import fenced_code

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

FENCED_FROM = 2


async def handle(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    """Answered by the transaction's coordinator; the group's hears of it with TxnOffsetCommit."""
    name = request.transactional_id
    code = call.transaction_error(name) if name else ErrorCode.INVALID_REQUEST
    if code is ErrorCode.NONE:
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        try:
            call.cluster.transactions.add(name, producer, call.cluster.now_ms(), groups=[request.group_id])
        except TransactionRefusedError as refusal:
            code = fenced_code(refusal.code, call.version, knows_fenced_from=FENCED_FROM)
    return AddOffsetsToTxnResponse(error_code=code)
