"""InitProducerId: who an idempotent or transactional producer is, and the end of its predecessor (KIP-360)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.testing.cluster.transaction import ProducerIdAndEpoch, TransactionRefusedError
from kwire.testing.cluster.transaction_checks import fenced_code

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

FENCED_FROM = 4


async def handle(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """An id of its own without a transactional id; with one, the next epoch of that."""
    try:
        producer = _producer(request, call)
    except TransactionRefusedError as refusal:
        code = fenced_code(refusal.code, call.version, knows_fenced_from=FENCED_FROM)
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


def _producer(request: InitProducerIdRequest, call: Call) -> ProducerIdAndEpoch:
    """Raises: TransactionRefusedError."""
    transactions, name = call.cluster.transactions, request.transactional_id
    if name == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        raise TransactionRefusedError(ErrorCode.INVALID_REQUEST)
    if name is None:
        return ProducerIdAndEpoch(transactions.new_producer_id(), 0)
    code = call.transaction_error(name)
    if code is not ErrorCode.NONE:
        raise TransactionRefusedError(code)
    if request.enable2_pc and not call.cluster.settings.transaction_two_phase_commit_enable:
        raise TransactionRefusedError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None
    return transactions.init_producer(name, request.transaction_timeout_ms, expected, call.cluster.now_ms())
