"""EndTxn: commit or abort, and, from version 5 on, the epoch of the next transaction (KIP-98, KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.testing.cluster.transaction import ProducerIdAndEpoch, TransactionRefusedError
from kwire.testing.cluster.transaction_checks import fenced_code

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

FENCED_FROM = 2
EPOCHS_FROM = 5


async def handle(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    """Answered when the end is decided; markers may come later."""
    name = request.transactional_id
    code = call.transaction_error(name) if name else ErrorCode.INVALID_REQUEST
    if code is not ErrorCode.NONE:
        return EndTxnResponse(error_code=code)
    bumps_epochs = call.version >= EPOCHS_FROM
    try:
        after = call.cluster.transactions.end(
            name,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            call.cluster.now_ms(),
            committed=request.committed,
            bumps_epochs=bumps_epochs,
        )
    except TransactionRefusedError as refusal:
        return EndTxnResponse(error_code=fenced_code(refusal.code, call.version, knows_fenced_from=FENCED_FROM))
    if not bumps_epochs:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)
