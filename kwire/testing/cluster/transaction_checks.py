"""What a broker asks the transaction coordinator before it takes part in a transaction (KIP-890).

Old clients tell the coordinator themselves, so it is asked whether they did; newer ones leave it to the broker. The
codes are those that Kafka makes of the coordinator's, which differ by what a client of that age can make of them.
Called by Produce for partitions and by TxnOffsetCommit for groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.coordinators import KeyType
from kwire.testing.cluster.transaction import TransactionRefusedError

if TYPE_CHECKING:
    from kwire.testing.cluster.state import ClusterState
    from kwire.testing.cluster.transaction import ProducerIdAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """Who takes part in which transaction, and what its client knows.

    Attributes:
        joins: Whether the broker adds it, rather than asks whether it was added.
        knows_abortable: Whether the client knows TRANSACTION_ABORTABLE.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[tuple[str, int], ...] = ()
    groups: tuple[str, ...] = ()
    joins: bool
    knows_abortable: bool


def take_part(cluster: ClusterState, participant: Participant) -> ErrorCode:
    """Join the transaction, or make sure that it was joined."""
    transactional_id, now_ms = participant.transactional_id, cluster.now_ms()
    coordinator = cluster.coordinators.of(KeyType.TRANSACTION, transactional_id, now_ms)
    if coordinator is None or cluster.transaction_error(transactional_id, coordinator) is not ErrorCode.NONE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    transactions = cluster.transactions
    try:
        if participant.joins:
            transactions.add(
                transactional_id,
                participant.producer,
                now_ms,
                partitions=participant.partitions,
                groups=participant.groups,
            )
        elif cluster.settings.transaction_partition_verification_enable:
            transactions.verify(
                transactional_id,
                participant.producer,
                now_ms,
                partitions=participant.partitions,
                groups=participant.groups,
            )
    except TransactionRefusedError as refusal:
        return _for_clients(refusal.code, participant)
    return ErrorCode.NONE


def _for_clients(code: ErrorCode, participant: Participant) -> ErrorCode:
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if not participant.knows_abortable:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.CONCURRENT_TRANSACTIONS if not participant.joins:
            return ErrorCode.NOT_ENOUGH_REPLICAS  # old clients repeat the request, and do not ask for metadata first
        case _:
            return code


def fenced_code(code: ErrorCode, version: int, *, knows_fenced_from: int) -> ErrorCode:
    """KIP-588: clients of old versions know INVALID_PRODUCER_EPOCH only."""
    if code is ErrorCode.PRODUCER_FENCED and version < knows_fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
